// @ts-check
/** A planned form on the page: inputs that write into `raw`, and places beside them for what is wrong. */
import { escaped, initial } from "./form.js";
import { freshId, h, say } from "./dom.js";

/**
 * Draw a form.
 * @param {import("./form.js").Plan} part
 * @param {any} raw what stands in the inputs; written to as the person types
 * @param {(raw: any) => void} put takes the whole anew, where it is one value and not named parts
 * @returns {{element: HTMLElement, mark(errors: {pointer: string, message: string}[]): void}} mark shows what is wrong
 *   beside its field, and what belongs to no field above them
 */
export function drawForm(part, raw, put) {
  let whole = raw;
  const slot = { get: () => whole, set: (value) => put((whole = value)) };
  const places = new Map(); // pointer -> { error, input }
  const general = h("div", { class: "afx-fault", role: "alert" });
  const element = h("div", { class: "afx-form" }, general, field(part, "", slot, places, true));
  return {
    element,
    mark(errors) {
      const said = new Map();
      for (const { pointer, message } of errors) {
        const at = nearest(places, pointer);
        said.set(at, [...(said.get(at) ?? []), message]);
      }
      say(general, (said.get(null) ?? []).join(" "));
      let first = null;
      for (const [pointer, { error, input }] of places) {
        const messages = said.get(pointer);
        say(error, messages ? messages.join(" ") : "");
        if (!input) continue;
        if (messages) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
        if (messages && !first) first = input;
      }
      first?.focus();
    },
  };
}

/** The place of a pointer, or of the closest part around it that has one. */
function nearest(places, pointer) {
  for (let at = pointer; at; at = at.slice(0, at.lastIndexOf("/"))) if (places.has(at)) return at;
  return null;
}

function field(part, pointer, slot, places, bare = false) {
  if (part.kind === "object") return group(part, pointer, slot, places, bare);
  const id = freshId();
  const error = h("div", { class: "afx-fault", id: `${id}-error` });
  const drawn = CONTROLS[part.kind](part, pointer, slot, places, id);
  const input = drawn.input ?? null;
  places.set(pointer, { error, input });
  if (input) {
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-error ${id}-hint`);
    if (part.required) input.setAttribute("aria-required", "true");
    input.addEventListener("input", () => {
      say(error, "");
      input.removeAttribute("aria-invalid");
    });
  }
  const label = part.title
    ? h(
        "label",
        { for: input && id, class: "afx-label" },
        part.title,
        part.required || part.kind === "boolean" || (part.initial ?? null) !== null
          ? ""
          : h("span", { class: "afx-soft", text: " optional" }),
      )
    : null;
  const hint = h("div", {
    class: "afx-hint",
    id: `${id}-hint`,
    text: [part.description, limits(part)].filter(Boolean).join(" "),
  });
  const inline = part.kind === "boolean";
  return h(
    "div",
    { class: inline ? "afx-field afx-inline" : "afx-field" },
    ...(inline ? [drawn.element, label] : [label, drawn.element]),
    hint.textContent ? hint : null,
    error,
  );
}

function group(part, pointer, slot, places, bare) {
  const error = h("div", { class: "afx-fault" });
  if (!bare) places.set(pointer, { error, input: null });
  const inner = part.fields.map(({ key, plan }) =>
    field(
      plan,
      `${pointer}/${escaped(key)}`,
      { get: () => slot.get().get(key), set: (value) => slot.get().set(key, value) },
      places,
    ),
  );
  if (bare) return h("div", { class: "afx-fieldset" }, ...inner);
  const hint = part.description ? h("div", { class: "afx-hint", text: part.description }) : null;
  return h("fieldset", { class: "afx-fieldset" }, h("legend", { text: part.title }), hint, error, ...inner);
}

/** kind -> `{ element, input? }`; input is what is focused and described */
const CONTROLS = { array, text, number, boolean, choice, const: fixed, maybe, json };

const typed = (slot) => ({ input: (event) => slot.set(event.target.value) });

function text(part, _pointer, slot) {
  const { minLength, maxLength, pattern, format } = part.schema;
  const attributes = { minlength: minLength, maxlength: maxLength, pattern, on: typed(slot) };
  const input =
    part.input === "area"
      ? h("textarea", { rows: 4, ...attributes })
      : h("input", {
          type: part.input,
          step: part.input === "datetime-local" ? 1 : null,
          autocomplete: format === "email" ? "email" : "off",
          ...attributes,
        });
  /** @type {any} */ (input).value = slot.get();
  return { element: input, input };
}

function number(part, _pointer, slot) {
  // a text input: a number input reports "" for what it cannot read, and changes its value when the page scrolls
  const input = h("input", {
    type: "text",
    inputmode: part.whole ? "numeric" : "decimal",
    autocomplete: "off",
    class: "afx-number",
    on: typed(slot),
  });
  /** @type {any} */ (input).value = slot.get();
  return { element: input, input };
}

function boolean(_part, _pointer, slot) {
  const input = h("input", { type: "checkbox", on: { change: (event) => slot.set(event.target.checked) } });
  /** @type {any} */ (input).checked = slot.get();
  return { element: input, input };
}

function choice(part, _pointer, slot) {
  const options = part.options.map((option, n) =>
    h("option", {
      value: n,
      text: option === null ? "none" : typeof option === "string" ? option : JSON.stringify(option),
    }),
  );
  const input = h(
    "select",
    { on: { change: (event) => slot.set(event.target.value), input: () => {} } },
    h("option", { value: "", text: part.required ? "Choose…" : "" }),
    ...options,
  );
  /** @type {any} */ (input).value = slot.get();
  return { element: input, input };
}

function fixed(part) {
  return { element: h("code", { text: typeof part.value === "string" ? part.value : JSON.stringify(part.value) }) };
}

function json(_part, _pointer, slot) {
  const input = h("textarea", {
    rows: 4,
    class: "afx-json",
    spellcheck: "false",
    placeholder: "JSON",
    on: typed(slot),
  });
  /** @type {any} */ (input).value = slot.get();
  return { element: input, input };
}

/** An object or a list that may be absent: a box to tick, and what it opens. */
function maybe(part, pointer, slot, places) {
  const { inner } = part;
  const opened = h("div", { class: "afx-inner" });
  const innerSlot = { get: () => slot.get().inner, set: (value) => (slot.get().inner = value) };
  const toggle = (on) => {
    slot.get().given = on;
    forget(places, pointer);
    if (on)
      opened.replaceChildren(
        inner.kind === "object"
          ? group(inner, pointer, innerSlot, places, true)
          : array(inner, pointer, innerSlot, places).element,
      );
    else opened.replaceChildren();
  };
  const input = h("input", { type: "checkbox", on: { change: (event) => toggle(event.target.checked) } });
  /** @type {any} */ (input).checked = slot.get().given;
  toggle(slot.get().given);
  return { element: h("div", {}, h("label", { class: "afx-given" }, input, " fill in"), opened), input: null };
}

function forget(places, pointer) {
  for (const known of [...places.keys()]) if (known.startsWith(`${pointer}/`)) places.delete(known);
}

function array(part, pointer, slot, places) {
  const list = h("div", { class: "afx-list" });
  const { minItems = 0, maxItems = Infinity } = part.schema;
  const add = h("button", {
    type: "button",
    class: "afx-button afx-small",
    text: "Add",
    on: { click: () => change((raw) => raw.push(initial(part.inner)), true) },
  });
  const change = (edit, focusLast) => {
    edit(slot.get());
    draw();
    if (focusLast) list.lastElementChild?.querySelector("input, textarea, select")?.focus();
  };
  const draw = () => {
    forget(places, pointer);
    list.replaceChildren(
      ...slot.get().map((_, n) => {
        const entry = { get: () => slot.get()[n], set: (value) => (slot.get()[n] = value) };
        const remove = h("button", {
          type: "button",
          class: "afx-button afx-small",
          "aria-label": `Remove entry ${n + 1}`,
          title: "Remove",
          text: "×",
          on: { click: () => change((raw) => raw.splice(n, 1), false) },
        });
        remove.toggleAttribute("disabled", slot.get().length <= minItems && part.required);
        const inner = field(
          { ...part.inner, required: true, title: part.inner.kind === "object" ? `${n + 1}` : "" },
          `${pointer}/${n}`,
          entry,
          places,
        );
        inner.querySelector("input, textarea, select")?.setAttribute("aria-label", `${part.title} ${n + 1}`);
        return h("div", { class: "afx-entry" }, inner, remove);
      }),
    );
    add.toggleAttribute("disabled", slot.get().length >= maxItems);
  };
  draw();
  return { element: h("div", {}, list, add) };
}

/** The limits of a part in words. */
function limits({ kind, schema }) {
  if (!schema || !["text", "number", "array"].includes(kind)) return "";
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minItems, maxItems, minLength, maxLength } =
    schema;
  const said = [
    minimum !== undefined && `at least ${minimum}`,
    maximum !== undefined && `at most ${maximum}`,
    exclusiveMinimum !== undefined && `more than ${exclusiveMinimum}`,
    exclusiveMaximum !== undefined && `less than ${exclusiveMaximum}`,
    multipleOf !== undefined && `a multiple of ${multipleOf}`,
    minItems && `at least ${minItems} entries`,
    maxItems !== undefined && `at most ${maxItems} entries`,
    minLength > 1 && `at least ${minLength} characters`,
    maxLength !== undefined && `at most ${maxLength} characters`,
  ].filter(Boolean);
  return said.length ? `(${said.join(", ")})` : "";
}
