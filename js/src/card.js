// @ts-check
/** A question on the page, with what answers it. A card is made once for a question, and updated. */
import { drawForm } from "./fields.js";
import { initial, plan, read } from "./form.js";
import { freshId, h, pairsTable, say } from "./dom.js";

/**
 * @param {any} d the description of the card
 * @param {any} line the connection
 * @param {() => any} question the newest state of the question
 */
export function makeCard(d, line, question) {
  const heading = freshId();
  const body = BODIES[d.kind](d, line);
  const word = h("span", { class: "afx-word", role: "status" });
  const refusal = h("div", { class: "afx-fault", role: "alert" });
  const gone = h("div", { class: "afx-how" });
  const code = h("pre", { class: "afx-code", text: d.code, hidden: true });
  const buttons = d.buttons.map((button) => {
    const element = h("button", {
      type: "button",
      class: `afx-button afx-${button.verb}${button.primary ? " afx-primary" : ""}`,
      text: button.label,
    });
    element.addEventListener("click", () => {
      const said = body.answer(button.verb);
      if (said) line.press(button.verb, question(), said);
    });
    return element;
  });
  const element = h(
    "section",
    { class: "afx-card", "aria-labelledby": heading },
    h("div", { class: "afx-title", id: heading, text: d.title }),
    d.why ? h("div", { class: "afx-why", text: d.why }) : null,
    d.tool ? h("div", { class: "afx-subject" }, h("code", { class: "afx-name", text: d.tool })) : null,
    d.arguments.length ? pairsTable(d.arguments) : null,
    d.metadata.length ? pairsTable(d.metadata) : null,
    body.element,
    refusal,
    h("div", { class: "afx-actions" }, ...buttons, word),
    gone,
    code,
  );
  // Ctrl+Enter, or Cmd+Enter, presses the first button from any field of the card
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation(); // the notebook would run the cell
      buttons[0]?.click();
    }
  });
  let marked = null;
  return {
    element,
    update(now) {
      for (const button of buttons) button.toggleAttribute("disabled", now.disabled);
      element.classList.toggle("afx-busy", now.disabled);
      say(word, now.word);
      say(gone, now.gone);
      code.toggleAttribute("hidden", !now.gone);
      say(refusal, now.refusal?.message ?? "");
      const errors = now.refusal ? JSON.stringify(now.refusal) : null;
      if (errors !== marked) {
        marked = errors;
        body.mark?.(now.refusal?.errors ?? []);
      }
    },
  };
}

/** kind of card -> its middle: `{ element, answer(verb) -> what is sent with the press, or null, mark?(errors) }` */
const BODIES = { approval, unknown, form, text };

function reasonField(draft) {
  const id = freshId();
  const input = h("input", {
    id,
    type: "text",
    placeholder: "Reason, if you reject it",
    autocomplete: "off",
    maxlength: 2000,
    on: { input: (event) => (draft.reason = event.target.value) },
  });
  /** @type {any} */ (input).value = draft.reason;
  return h(
    "div",
    { class: "afx-reason" },
    h("label", { for: id, class: "afx-hidden", text: "Reason, if you reject it" }),
    input,
  );
}

const draftOf = (line, question, make) => {
  if (!line.drafts.has(question)) line.drafts.set(question, make());
  return line.drafts.get(question);
};

function approval(d, line) {
  const draft = draftOf(line, d.question, () => ({ reason: "" }));
  return {
    element: d.buttons.some(({ verb }) => verb === "reject") ? reasonField(draft) : null,
    answer: (verb) => (verb === "reject" ? { reason: draft.reason.trim() } : {}),
  };
}

function unknown(d, line) {
  const draft = draftOf(line, d.question, () => ({ reason: "", result: "" }));
  const id = freshId();
  const area = h("textarea", { id, rows: 2, on: { input: (event) => (draft.result = event.target.value) } });
  /** @type {any} */ (area).value = draft.result;
  const known = h(
    "div",
    { class: "afx-field" },
    h("label", { for: id, class: "afx-label", text: "Its result, if you know it" }),
    area,
  );
  return {
    element: h("div", {}, known, reasonField(draft)),
    answer(verb) {
      if (verb === "reject") return { reason: draft.reason.trim() };
      if (verb !== "supply") return {};
      if (draft.result.trim()) return { data: draft.result };
      area.focus();
      return null;
    },
  };
}

function text(d, line) {
  const draft = draftOf(line, d.question, () => ({ text: "" }));
  const area = h("textarea", {
    rows: 2,
    "aria-label": d.title,
    placeholder: "Your answer",
    on: { input: (event) => (draft.text = event.target.value) },
  });
  /** @type {any} */ (area).value = draft.text;
  return {
    element: area,
    answer() {
      if (draft.text.trim()) return { data: draft.text };
      area.focus();
      return null;
    },
  };
}

function form(d, line) {
  const part = plan(d.schema);
  const draft = draftOf(line, d.question, () => ({ raw: initial(part) }));
  const drawn = drawForm(part, draft.raw);
  return {
    element: drawn.element,
    answer() {
      const { value, errors } = read(part, draft.raw);
      drawn.mark(errors);
      return errors.length ? null : { data: value ?? {} };
    },
    mark: drawn.mark,
  };
}
