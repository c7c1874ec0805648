// @ts-check
/**
 * The middles of cards: what is shown and asked for between a question and its buttons.
 *
 * Rule: what is typed lies in the line's drafts, so that it outlives the view.
 */
import { drawForm } from "./fields.js";
import { initial, plan, planArguments, read, readArguments, same } from "./form.js";
import { freshId, h, pairsTable } from "./dom.js";

/**
 * kind of card -> its middle:
 * `{ element, answer(act) -> what is sent with the press, or null, mark?(errors), labels?() -> labels by act }`;
 * each is given the description, the line, and what to call when its labels have changed
 */
export const BODIES = { approval, unknown, outside, form, text, waiting };

const draftOf = (line, question, make) => {
  if (!line.drafts.has(question)) line.drafts.set(question, make());
  return line.drafts.get(question);
};

/** An input of one line that writes into the draft, with a label for those who do not see it. */
function reasonField(draft, label) {
  const id = freshId();
  const input = h("input", {
    id,
    type: "text",
    placeholder: label,
    autocomplete: "off",
    maxlength: 2000,
    on: { input: (event) => (draft.reason = event.target.value) },
  });
  /** @type {any} */ (input).value = draft.reason;
  return h("div", { class: "afx-reason" }, h("label", { for: id, class: "afx-hidden", text: label }), input);
}

/** A text area that writes `draft.text`, under a label; `said()` is what stands in it, or null and the focus. */
function textArea(draft, label, props = {}) {
  const id = freshId();
  const area = h("textarea", { id, rows: 2, ...props, on: { input: (event) => (draft.text = event.target.value) } });
  /** @type {any} */ (area).value = draft.text;
  return {
    element: h("div", { class: "afx-field" }, h("label", { for: id, class: "afx-label", text: label }), area),
    said() {
      if (draft.text.trim()) return draft.text;
      area.focus();
      return null;
    },
  };
}

function approval(d, line, relabel) {
  const draft = draftOf(line, d.question, () => ({ reason: "", editing: false, raw: null }));
  const shown = d.arguments.length ? pairsTable(d.arguments) : null;
  const editor = d.given ? argumentsEditor(d, draft) : null;
  const place = h("div", { class: "afx-edit", id: freshId() });
  const toggle = h("button", { type: "button", class: "afx-button afx-small", "aria-controls": place.id });
  const draw = () => {
    toggle.textContent = draft.editing ? "Keep the arguments" : "Change the arguments…";
    toggle.setAttribute("aria-expanded", String(draft.editing));
    shown?.toggleAttribute("hidden", draft.editing);
    place.replaceChildren(...(draft.editing ? [editor.element()] : []));
  };
  toggle.addEventListener("click", () => {
    draft.editing = !draft.editing;
    draw();
    relabel();
    if (draft.editing) place.querySelector("input, textarea, select")?.focus();
  });
  draw();
  return {
    element: h("div", {}, shown, place, editor ? toggle : null, reasonField(draft, "Reason, if you reject it")),
    answer(act) {
      if (act === "reject") return { reason: draft.reason.trim() };
      return draft.editing ? editor.answer() : {};
    },
    mark: (errors) => draft.editing && editor.mark(errors),
    labels: () => (draft.editing ? { approve: "Approve with changes" } : {}),
  };
}

function argumentsEditor(d, draft) {
  const part = planArguments(d.parameters, d.given);
  draft.raw ??= initial(part);
  const drawn = drawForm(part, draft.raw, (raw) => (draft.raw = raw));
  return {
    element: () => drawn.element,
    mark: drawn.mark,
    answer() {
      const { value, errors } = readArguments(part, draft.raw, d.given);
      drawn.mark(errors);
      if (errors.length) return null;
      return same(value, d.given) ? {} : { arguments: value };
    },
  };
}

function unknown(d, line) {
  const draft = draftOf(line, d.question, () => ({ reason: "", text: "" }));
  const result = textArea(draft, "Its result, if you know it");
  return {
    element: h(
      "div",
      {},
      d.arguments.length ? pairsTable(d.arguments) : null,
      result.element,
      reasonField(draft, "Reason, if you reject it"),
    ),
    answer(act) {
      if (act === "reject") return { reason: draft.reason.trim() };
      if (act !== "supply") return {};
      const data = result.said();
      return data === null ? null : { data };
    },
  };
}

function outside(d, line) {
  const draft = draftOf(line, d.question, () => ({ text: "" }));
  const result = textArea(draft, "Its result, or what went wrong");
  return {
    element: h("div", {}, d.arguments.length ? pairsTable(d.arguments) : null, result.element),
    answer(act) {
      const told = result.said();
      if (told === null) return null;
      return act === "fail" ? { error: told } : { data: told };
    },
  };
}

function text(d, line) {
  const draft = draftOf(line, d.question, () => ({ text: "" }));
  const said = textArea(draft, "Your answer");
  return {
    element: said.element,
    answer() {
      const data = said.said();
      return data === null ? null : { data };
    },
  };
}

function form(d, line) {
  const part = plan(d.schema);
  const draft = draftOf(line, d.question, () => ({ reason: "", raw: initial(part) }));
  const drawn = drawForm(part, draft.raw, (raw) => (draft.raw = raw));
  const declines = d.buttons.some(({ act }) => act === "decline");
  return {
    element: h("div", {}, drawn.element, declines ? reasonField(draft, "Reason, if you decline") : null),
    answer(act) {
      if (act === "decline") return { reason: draft.reason.trim() };
      const { value, errors } = read(part, draft.raw);
      drawn.mark(errors);
      return errors.length ? null : { data: value ?? {} };
    },
    mark: drawn.mark,
  };
}

/** A retry, or a model that failed: nothing to fill in. */
function waiting(d) {
  return { element: d.arguments.length ? pairsTable(d.arguments) : null, answer: () => ({}) };
}
