// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import panel from "../src/panel.js";
import { FakeModel, grownBy, patchOf, questionOf, snapshotOf, textItem, waiting } from "./fakes.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

function shown(kept) {
  const model = new FakeModel(kept);
  panel.initialize({ model });
  return { model, el: view(model) };
}

function view(model) {
  const el = document.createElement("div");
  document.body.append(el);
  panel.render({ model, el });
  return el;
}

const painted = () => vi.advanceTimersByTime(100);
const button = (el, text) => [...el.querySelectorAll("button")].find((found) => found.textContent === text);
const presses = (model) => model.sent.filter(({ kind }) => kind === "press");

describe("text", () => {
  test("streams as text, and is laid out as Markdown once it is whole", () => {
    const { model, el } = shown(snapshotOf(0, [textItem(0, "**bo")]));
    model.receive(patchOf(1, { grown: [grownBy(0, 4, "ld**")] }));
    painted();
    expect(el.querySelector(".afx-text").textContent).toBe("**bold**");
    expect(el.querySelector("strong.afx-agent + strong, .afx-text strong")).toBeNull();

    model.receive(patchOf(2, { grown: [grownBy(0, 8, "", "2026-01-01T00:00:01+00:00")] }));
    painted();

    expect(el.querySelector(".afx-text strong").textContent).toBe("bold");
  });

  test("a message before any view is not missed, and a second view shows the same", () => {
    const model = new FakeModel(snapshotOf(0));
    panel.initialize({ model });
    model.receive(patchOf(1, { put: [textItem(0, "early")] }));

    const [first, second] = [view(model), view(model)];

    expect(first.querySelector(".afx-text").textContent).toBe("early");
    expect(second.querySelector(".afx-text").textContent).toBe("early");
  });

  test("a gap asks once for the whole, and the snapshot mends the text", () => {
    const { model, el } = shown(snapshotOf(0, [textItem(0, "a")]));
    model.receive(patchOf(2, { grown: [grownBy(0, 2, "c")] }));
    model.receive(patchOf(3, { grown: [grownBy(0, 3, "d")] }));
    expect(model.sent).toEqual([{ kind: "resync", have: 0 }]);

    model.receive(snapshotOf(4, [textItem(0, "abcd")]));
    painted();

    expect(el.querySelector(".afx-text").textContent).toBe("abcd");
  });

  test("no text from outside becomes HTML, wherever it stands", () => {
    const evil = "<img src=x onerror=hurt()>";
    const call = {
      key: 0,
      is: "call",
      call: "c",
      name: evil,
      state: "failed",
      sign: "✗",
      arguments: [[evil, evil]],
      raw: evil,
      progress: null,
      result: evil,
      result_length: 900,
      problem: evil,
      began: null,
      ended: null,
    };
    const others = [
      { key: 1, is: "reasoning", text: evil, rest: evil, began: null, ended: null },
      {
        key: 2,
        is: "answered",
        question: "q",
        about: evil,
        word: "Approved",
        at: "2026-01-01T00:00:00+00:00",
        by: evil,
        via: "",
        reason: evil,
        fields: [[evil, evil]],
      },
      { key: 3, is: "note", level: "error", text: evil, at: null },
      { ...textItem(4, evil) },
    ];
    const schema = {
      type: "object",
      properties: { a: { type: "string", title: evil, description: evil }, [evil]: { enum: [evil] } },
    };
    const form = questionOf({
      question: "q2",
      type: "USER_INPUT",
      form: evil,
      schema,
      message: evil,
      offers: ["submit"],
    });
    const state = {
      ...waiting(
        questionOf({ message: evil, reason: evil, tool: evil, arguments: [[evil, evil]], metadata: [[evil, evil]] }),
        form,
      ),
      agent: evil,
      prompt: evil,
      foot: evil,
      error: { kind: evil, message: evil },
    };

    const { el } = shown(
      snapshotOf(0, [call, ...others], {
        ...state,
        answering: {
          q2: {
            press: "",
            phase: "refused",
            reason: "INVALID",
            message: evil,
            by: "",
            at: null,
            errors: [{ pointer: "/a", message: evil }],
          },
        },
      }),
    );

    expect(el.querySelector("img")).toBeNull();
    expect(el.textContent.split(evil).length).toBeGreaterThan(15);
  });
});

describe("answers", () => {
  test("Approve names the question as it was asked, once, and is disabled at once", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));

    button(el, "Approve").click();
    painted();
    button(el, "Approve").click();

    expect(presses(model)).toEqual([
      { kind: "press", verb: "approve", question: "T1.1.0", asked: 7, press: expect.any(String) },
    ]);
    expect(button(el, "Approve").disabled).toBe(true);
    expect(button(el, "Reject").disabled).toBe(true);
  });

  test("two clicks in one moment are one press, in two views too", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));
    const second = view(model);

    button(el, "Approve").click();
    button(el, "Approve").click();
    button(second, "Reject").click();

    expect(presses(model).map(({ verb }) => verb)).toEqual(["approve"]);
  });

  test("Reject carries the reason", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));
    const reason = el.querySelector(".afx-reason input");
    reason.value = "over the limit";
    reason.dispatchEvent(new Event("input"));

    button(el, "Reject").click();

    expect(presses(model)[0]).toMatchObject({ verb: "reject", reason: "over the limit" });
  });

  test("no word in two seconds: the kernel is busy, and the answer queued", () => {
    const { el } = shown(snapshotOf(0, [], waiting(questionOf())));
    button(el, "Approve").click();
    painted();
    expect(el.querySelector(".afx-word").textContent).toBe("Sending…");

    vi.advanceTimersByTime(2_000);
    painted();

    expect(el.querySelector(".afx-word").textContent).toMatch(/kernel is busy.*queued/);
  });

  test("a kernel that is gone says how to go on in code", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));
    model.closed = true;

    button(el, "Approve").click();
    painted();

    expect(el.querySelector(".afx-card").textContent).toMatch(/kernel is gone/);
    expect(el.querySelector("pre.afx-code").hasAttribute("hidden")).toBe(false);
    expect(el.querySelector("pre.afx-code").textContent).toBe('lab.restore("T1").approve()');
    expect(button(el, "Approve").disabled).toBe(true);
  });

  test("a refusal says who answered, and stays when the question is gone", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));
    button(el, "Approve").click();
    const { press } = presses(model)[0];
    const refused = {
      press,
      phase: "refused",
      reason: "ALREADY_RESOLVED",
      message: "was answered",
      by: "bob",
      at: "2026-01-01T10:00:00+00:00",
      errors: [],
    };

    model.receive(patchOf(1, { answering: { "T1.1.0": refused } }));
    painted();

    expect(el.querySelector(".afx-card")).toBeNull();
    expect(el.querySelector(".afx-notices").textContent).toMatch(/Already answered by bob at/);
  });

  test("what is refused can be pressed again", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf())));
    button(el, "Approve").click();
    const refused = {
      press: presses(model)[0].press,
      phase: "refused",
      reason: "INVALID",
      message: "no",
      by: "",
      at: null,
      errors: [],
    };
    model.receive(patchOf(1, { ...waiting(questionOf()), answering: { "T1.1.0": refused } }));
    painted();

    button(el, "Approve").click();

    expect(presses(model).length).toBe(2);
  });

  test("an outcome that nobody knows: run again, reject, or the result itself", () => {
    const { model, el } = shown(
      snapshotOf(0, [], waiting(questionOf({ code: "OUTCOME_UNKNOWN", offers: ["approve", "reject", "supply"] }))),
    );
    const area = el.querySelector("textarea");
    area.value = "it was sent";
    area.dispatchEvent(new Event("input"));

    button(el, "Use this result").click();

    expect(button(el, "Run again")).toBeDefined();
    expect(presses(model)[0]).toMatchObject({ verb: "supply", data: "it was sent" });
  });

  test("a plain question is answered with text, and not with nothing", () => {
    const { model, el } = shown(
      snapshotOf(0, [], waiting(questionOf({ type: "USER_INPUT", tool: "", offers: ["submit"] }))),
    );
    button(el, "Submit").click();
    expect(presses(model)).toEqual([]);
    const area = el.querySelector("textarea");
    area.value = "Tuesday";
    area.dispatchEvent(new Event("input"));

    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));

    expect(presses(model)[0]).toMatchObject({ verb: "submit", data: "Tuesday" });
  });

  test("several questions stand in one list, each with its own buttons", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(questionOf(), questionOf({ question: "T1.1.1" }))));

    el.querySelectorAll("button.afx-approve")[1].click();

    expect(el.querySelectorAll(".afx-card").length).toBe(2);
    expect(presses(model)[0].question).toBe("T1.1.1");
  });

  test("Cancel cancels, while the turn has not ended", () => {
    const { model, el } = shown(snapshotOf(0));
    button(el, "Cancel").click();
    expect(presses(model)[0]).toMatchObject({ verb: "cancel", question: "" });

    model.receive(patchOf(1, { status: "CANCELLED", word: "Cancelled", tone: "quiet", terminal: true }));
    painted();

    expect(el.querySelector(".afx-cancel").hidden).toBe(true);
  });
});

describe("forms", () => {
  const schema = {
    type: "object",
    properties: { city: { type: "string", title: "City" }, tags: { type: "array", items: { type: "string" } } },
    required: ["city"],
  };
  const question = questionOf({ type: "USER_INPUT", form: "address", schema, offers: ["submit"] });
  const type = (el, text) => {
    const input = el.querySelector("input[type=text]");
    input.value = text;
    input.dispatchEvent(new Event("input"));
  };

  test("what is missing is marked and nothing is sent; what is said is sent as data", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(question)));
    button(el, "Submit").click();
    expect(el.querySelector("[aria-invalid=true]")).not.toBeNull();
    expect(presses(model)).toEqual([]);

    type(el, "Paris");
    button(el, "Submit").click();

    expect(presses(model)[0]).toMatchObject({ verb: "submit", data: { city: "Paris", tags: [] } });
  });

  test("an error of the kernel stands beside its field, and what has no field above them", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(question)));
    type(el, "Atlantis");
    button(el, "Submit").click();
    const errors = [
      { pointer: "/city", message: "no such city" },
      { pointer: "", message: "too much" },
    ];

    model.receive(
      patchOf(1, {
        ...waiting(question),
        answering: {
          "T1.1.0": {
            press: presses(model)[0].press,
            phase: "refused",
            reason: "INVALID",
            message: "",
            by: "",
            at: null,
            errors,
          },
        },
      }),
    );
    painted();

    const input = el.querySelector("input[type=text]");
    expect(document.getElementById(input.getAttribute("aria-describedby").split(" ")[0]).textContent).toBe(
      "no such city",
    );
    expect(el.querySelector(".afx-form > .afx-fault").textContent).toBe("too much");
    expect(input.value).toBe("Atlantis");
  });

  test("entries are added and removed", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(question)));
    type(el, "Paris");
    button(el, "Add").click();
    button(el, "Add").click();
    const [first, second] = el.querySelectorAll(".afx-entry input");
    for (const [input, text] of [
      [first, "a"],
      [second, "b"],
    ]) {
      input.value = text;
      input.dispatchEvent(new Event("input"));
    }
    el.querySelector(".afx-entry button").click();

    button(el, "Submit").click();

    expect(presses(model)[0].data.tags).toEqual(["b"]);
  });

  test("what was typed outlives the view", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting(question)));
    type(el, "Paris");

    const again = view(model);

    expect(again.querySelector("input[type=text]").value).toBe("Paris");
  });

  test("every field has a label", () => {
    const { el } = shown(snapshotOf(0, [], waiting(question)));
    const input = el.querySelector("input[type=text]");

    expect(el.querySelector(`label[for="${input.id}"]`).textContent).toBe("City");
  });
});

test("a page that comes to a turn which has ended asks for what stays", () => {
  const { model } = shown(snapshotOf(3, [], { terminal: true, status: "COMPLETED", word: "Completed", tone: "good" }));

  expect(model.sent).toEqual([{ kind: "settle" }]);
});

test("the status is announced, and the stream is not", () => {
  const { el } = shown(snapshotOf(0));

  expect(el.querySelector("[role=status]").getAttribute("aria-live")).toBe("polite");
  expect(el.querySelector("[role=log]").getAttribute("aria-live")).toBe("off");
});
