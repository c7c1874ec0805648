// @ts-check
/** A question on the page, with what answers it. A card is made once for a question, and updated. */
import { BODIES } from "./bodies.js";
import { freshId, h, pairsTable, say } from "./dom.js";

/**
 * @param {any} d the description of the card
 * @param {any} line the connection
 * @param {() => any} question the newest state of the question
 */
export function makeCard(d, line, question) {
  const heading = freshId();
  const word = h("span", { class: "afx-word", role: "status" });
  const refusal = h("div", { class: "afx-fault", role: "alert" });
  const countdown = h("div", { class: "afx-deadline", role: "timer", "aria-live": "off" });
  const gone = h("div", { class: "afx-how" });
  const code = h("pre", { class: "afx-code", text: d.code, hidden: true });
  const buttons = d.buttons.map((button) => {
    const element = h("button", {
      type: "button",
      class: `afx-button afx-${button.act}${button.primary ? " afx-primary" : ""}`,
    });
    element.addEventListener("click", () => {
      if (button.verb === "cancel") return line.press("cancel");
      const said = body.answer(button.act);
      if (said) line.press(button.verb, question(), said);
    });
    return { ...button, element };
  });
  const relabel = () => {
    for (const { act, label, element } of buttons) say(element, body.labels?.()[act] ?? label);
  };
  const body = BODIES[d.kind](d, line, relabel);
  const element = h(
    "section",
    { class: "afx-card", "aria-labelledby": heading },
    h("div", { class: "afx-title", id: heading, text: d.title }),
    d.why ? h("div", { class: "afx-why", text: d.why }) : null,
    d.tool ? h("div", { class: "afx-subject" }, h("code", { class: "afx-name", text: d.tool })) : null,
    d.failure.length ? pairsTable(d.failure) : null,
    d.metadata.length ? pairsTable(d.metadata) : null,
    body.element,
    countdown,
    refusal,
    h("div", { class: "afx-actions" }, ...buttons.map(({ element }) => element), word),
    gone,
    code,
  );
  relabel();
  // Ctrl+Enter, or Cmd+Enter, presses the first button from any field of the card
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation(); // the notebook would run the cell
      buttons[0]?.element.click();
    }
  });
  let marked = null;
  return {
    element,
    update(now) {
      for (const { element: button } of buttons) button.toggleAttribute("disabled", now.disabled);
      element.classList.toggle("afx-busy", now.disabled);
      say(word, now.word);
      say(countdown, now.countdown);
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
