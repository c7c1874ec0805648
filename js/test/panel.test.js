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
    expect(el.querySelector(".afx-card .afx-word").textContent).toBe("Sending…");

    vi.advanceTimersByTime(2_000);
    painted();

    expect(el.querySelector(".afx-card .afx-word").textContent).toMatch(/kernel is busy.*queued/);
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

  test("listeners that raised are told, as text", () => {
    const told = "Listeners that raised: <b>log</b> (2 times)";
    const { model, el } = shown(snapshotOf(0));
    expect(el.querySelector(".afx-notices").textContent).toBe("");

    model.receive(patchOf(1, { failing: told }));
    painted();

    expect(el.querySelector(".afx-notices").textContent).toBe(told);
    expect(el.querySelector(".afx-notices b")).toBeNull();
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
    const area = el.querySelector(".afx-card textarea");
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
    const area = el.querySelector(".afx-card textarea");
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

describe("changed arguments", () => {
  const parameters = {
    type: "object",
    properties: { order: { type: "string" }, amount: { type: "number" }, note: { type: "string", default: "" } },
    required: ["order", "amount"],
  };
  const question = questionOf({
    given: { order: "O-1", amount: 120 },
    parameters,
    arguments: [
      ["order", "O-1"],
      ["amount", "120.0"],
    ],
  });
  const edited = (more = {}) => {
    const { model, el } = shown(snapshotOf(0, [], waiting({ ...question, ...more })));
    button(el, "Change the arguments…").click();
    return { model, el };
  };
  const field = (el, name) =>
    document.getElementById([...el.querySelectorAll("label")].find((l) => l.textContent.startsWith(name)).htmlFor);
  const type = (input, text) => {
    input.value = text;
    input.dispatchEvent(new Event("input"));
  };

  test("are edited in the form of the tool, filled in as they are, and sent whole", () => {
    const { model, el } = edited();
    expect([field(el, "Order").value, field(el, "Amount").value]).toEqual(["O-1", "120"]);
    expect(el.querySelector(".afx-fields").hasAttribute("hidden")).toBe(true);

    type(field(el, "Amount"), "80");
    button(el, "Approve with changes").click();

    expect(presses(model)[0]).toMatchObject({ verb: "approve", arguments: { order: "O-1", amount: 80 } });
  });

  test("that were not changed are approved as they were shown", () => {
    const { model, el } = edited();

    button(el, "Approve with changes").click();

    expect(presses(model)[0].arguments).toBeUndefined();
  });

  test("are put away again, and the call is approved as it was", () => {
    const { model, el } = edited();
    type(field(el, "Amount"), "80");

    button(el, "Keep the arguments").click();
    button(el, "Approve").click();

    expect(presses(model)[0].arguments).toBeUndefined();
    expect(el.querySelector(".afx-fields").hasAttribute("hidden")).toBe(false);
  });

  test("that cannot be read are marked, and nothing is sent", () => {
    const { model, el } = edited();
    type(field(el, "Amount"), "much");

    button(el, "Approve with changes").click();

    expect(field(el, "Amount").getAttribute("aria-invalid")).toBe("true");
    expect(presses(model)).toEqual([]);
  });

  test("that the kernel refuses are marked at their field, and the card goes on waiting", () => {
    const { model, el } = edited();
    type(field(el, "Amount"), "-1");
    button(el, "Approve with changes").click();
    const errors = [{ pointer: "/amount", message: "must be positive" }];
    const refused = {
      press: presses(model)[0].press,
      phase: "refused",
      reason: "INVALID",
      message: "",
      by: "",
      at: null,
      errors,
    };

    model.receive(patchOf(1, { ...waiting(question), answering: { "T1.1.0": refused } }));
    painted();

    expect(field(el, "Amount").getAttribute("aria-invalid")).toBe("true");
    expect(el.querySelector(".afx-field:has([aria-invalid]) .afx-fault").textContent).toBe("must be positive");
    expect(field(el, "Amount").value).toBe("-1");
    expect(button(el, "Approve with changes").disabled).toBe(false);
  });

  test("of a tool whose schema is not known are edited as JSON", () => {
    const { model, el } = edited({ parameters: null });
    const area = el.querySelector("textarea.afx-json");
    expect(JSON.parse(area.value)).toEqual({ order: "O-1", amount: 120 });

    type(area, "[1]");
    button(el, "Approve with changes").click();
    expect(presses(model)).toEqual([]);
    expect(el.querySelector(".afx-form > .afx-fault").textContent).toMatch(/named values/);
    type(area, '{"order": "O-2"}');
    button(el, "Approve with changes").click();

    expect(presses(model)[0].arguments).toEqual({ order: "O-2" });
  });

  test("are not offered where a browser could not give them back", () => {
    const { el } = shown(snapshotOf(0, [], waiting(questionOf({ given: null }))));

    expect(button(el, "Change the arguments…")).toBeUndefined();
  });

  test("say whether the form is open, and outlive the view", () => {
    const { model, el } = edited();
    const toggle = button(el, "Keep the arguments");
    expect(toggle.getAttribute("aria-expanded")).toBe("true");
    expect(document.getElementById(toggle.getAttribute("aria-controls"))).not.toBeNull();
    type(field(el, "Amount"), "80");

    const again = view(model);

    expect(again.querySelector("input.afx-number").value).toBe("80");
    expect(button(again, "Approve with changes")).toBeDefined();
  });
});

describe("work outside", () => {
  const question = questionOf({
    type: "EXTERNAL_TOOL",
    tool: "ship",
    message: "ship is carried out elsewhere",
    offers: ["supply"],
  });
  const told = (text) => {
    const { model, el } = shown(snapshotOf(0, [], waiting(question)));
    const area = el.querySelector(".afx-card textarea");
    area.value = text;
    area.dispatchEvent(new Event("input"));
    return { model, el };
  };

  test("ends with a result", () => {
    const { model, el } = told("parcel 7");
    button(el, "Use this result").click();
    expect(presses(model)[0]).toMatchObject({ verb: "supply", data: "parcel 7" });
  });

  test("ends with an error", () => {
    const { model, el } = told("lost");
    button(el, "Report an error").click();
    expect(presses(model)[0]).toMatchObject({ verb: "supply", error: "lost" });
    expect(presses(model)[0].data).toBeUndefined();
  });

  test("does not end with nothing", () => {
    const { model, el } = told("  ");
    button(el, "Use this result").click();
    expect(presses(model)).toEqual([]);
  });
});

describe("what happens by itself", () => {
  const soon = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();
  const said = (el) => el.querySelector("[role=timer]").textContent;

  test("a retry is counted down without a word from the kernel, and can be made at once", () => {
    const { model, el } = shown(
      snapshotOf(
        0,
        [],
        waiting(questionOf({ type: "RETRY", tool: "", arguments: [], due_at: soon(90), offers: ["continue"] })),
      ),
    );
    expect(said(el)).toBe("Tried again in 1 min 30 s");
    vi.advanceTimersByTime(60_000);
    expect(said(el)).toMatch(/^Tried again in (31|30|29) s$/);
    expect(model.sent).toEqual([]);

    button(el, "Retry now").click();

    expect(presses(model)[0].verb).toBe("continue");
    vi.advanceTimersByTime(40_000);
    expect(said(el)).toBe("Due now");
  });

  test("an approval says what it turns into, and when", () => {
    const { el } = shown(snapshotOf(0, [], waiting(questionOf({ expires_at: soon(30), when_expired: "APPROVE" }))));

    expect(said(el)).toBe("If nobody answers, it is approved in 30 s");
    vi.advanceTimersByTime(31_000);
    expect(said(el)).toBe("Nobody answered in time: it is approved");
  });

  test("a model that failed shows how; it is tried again, or the turn cancelled", () => {
    const failure = [
      ["error", "OverloadedError"],
      ["HTTP status", "529"],
    ];
    const { model, el } = shown(
      snapshotOf(0, [], waiting(questionOf({ type: "MODEL", tool: "", arguments: [], failure, offers: ["retry"] }))),
    );
    expect(el.querySelector(".afx-card .afx-fields").textContent).toContain("HTTP status529");
    expect(said(el)).toBe("");

    button(el, "Retry").click();
    button(el, "Cancel the turn").click();

    expect(presses(model).map(({ verb, question }) => [verb, question])).toEqual([
      ["retry", "T1.1.0"],
      ["cancel", ""],
    ]);
  });
});

describe("interrupting", () => {
  const opened = (state = {}) => {
    const { model, el } = shown(snapshotOf(0, [], state));
    button(el, "Interrupt…").click();
    const area = el.querySelector(".afx-interrupt textarea");
    const type = (text) => {
      area.value = text;
      area.dispatchEvent(new Event("input"));
    };
    return { model, el, area, type, box: el.querySelector(".afx-interrupt") };
  };
  const answered = (model, phase, more = {}) => {
    const { press } = presses(model)[0];
    model.receive(
      patchOf(1, {
        answering: { interrupt: { press, phase, message: "it has ended", by: "", at: null, errors: [], ...more } },
      }),
    );
    painted();
  };

  test("sends a message while the turn runs, and closes once it was heard", () => {
    const { model, el, type, box } = opened();
    button(el, "Send").click();
    expect(presses(model)).toEqual([]);

    type("Stop that.");
    button(el, "Send").click();
    painted();
    expect(button(el, "Send").disabled).toBe(true);
    answered(model, "heard");

    expect(presses(model)[0]).toMatchObject({ verb: "interrupt", message: "Stop that." });
    expect(box.hidden).toBe(true);
    button(el, "Interrupt…").click();
    expect(el.querySelector(".afx-interrupt textarea").value).toBe("");
  });

  test("that is refused keeps what was typed, and says why", () => {
    const { model, el, area, type, box } = opened();
    type("Stop that.");
    button(el, "Send").click();
    painted();
    answered(model, "refused");

    expect([box.hidden, area.value]).toEqual([false, "Stop that."]);
    expect(el.querySelector(".afx-notices").textContent).toBe("it has ended");
  });

  test("is opened, sent and closed by keys", () => {
    const { model, el, area, type, box } = opened(waiting(questionOf()));
    expect(document.activeElement).toBe(area);
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    expect(box.hidden).toBe(true);
    expect(document.activeElement).toBe(button(el, "Interrupt…"));

    button(el, "Interrupt…").click();
    type("Stop that.");
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));

    expect(presses(model)[0].message).toBe("Stop that.");
  });

  test("is not offered once the turn has ended", () => {
    const { el } = shown(snapshotOf(0, [], { terminal: true }));

    expect(button(el, "Interrupt…").hidden).toBe(true);
  });
});

test("what kept something from happening looks like a no, whatever its word", () => {
  const answer = (key, word, no) => ({
    key,
    is: "answered",
    question: "q",
    about: "refund",
    word,
    no,
    at: "2026-01-01T00:00:00+00:00",
    by: "",
    via: "",
    reason: "",
    fields: [],
  });
  const { el } = shown(snapshotOf(0, [answer(0, "Declined", true), answer(1, "Approved", false)]));

  expect([...el.querySelectorAll(".afx-answered")].map((found) => found.classList.contains("afx-no"))).toEqual([
    true,
    false,
  ]);
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

  test("a form can be declined, with a reason", () => {
    const { model, el } = shown(snapshotOf(0, [], waiting({ ...question, offers: ["submit", "decline"] })));
    const reason = el.querySelector(".afx-reason input");
    reason.value = "none of your business";
    reason.dispatchEvent(new Event("input"));

    button(el, "Decline").click();

    expect(presses(model)[0]).toMatchObject({ verb: "decline", reason: "none of your business" });
    expect(el.querySelector("[aria-invalid=true]")).toBeNull();
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
