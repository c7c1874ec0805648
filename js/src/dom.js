// @ts-check
/** Elements, made of text. Nothing here takes HTML. */

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] `class`, `text`, `on` (listeners by event); the rest become attributes, where
 *   true writes an empty one and false, null and undefined write none
 * @param {...(Node | string | null | undefined | false)} children text is put in as text
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "on")
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Write text where it differs: what is not touched keeps its selection. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {[string, string][]} pairs names and values, as a table */
export function pairsTable(pairs) {
  const rows = pairs.map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row", text: name }), h("td", { text: value })),
  );
  return h("table", { class: "afx-fields" }, h("tbody", {}, ...rows));
}

let ids = 0;
/** An id that no other element of the page has. */
export const freshId = () => `afx-${(ids += 1).toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
