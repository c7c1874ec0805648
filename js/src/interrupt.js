// @ts-check
/** Saying something while a turn runs or waits: it leaves what goes on, and goes on with the message. */
import { INTERRUPT } from "./connection.js";
import { freshId, h, say } from "./dom.js";

const LABEL = "Leave what goes on, and do this instead";

/**
 * A button for the head, and the box that it opens.
 * @param {any} line the connection
 */
export function makeInterrupt(line) {
  if (!line.drafts.has(INTERRUPT)) line.drafts.set(INTERRUPT, { text: "", open: false, sent: false });
  const draft = line.drafts.get(INTERRUPT);
  const id = freshId();
  const area = h("textarea", { id, rows: 2, on: { input: (event) => (draft.text = event.target.value) } });
  const send = h("button", { type: "button", class: "afx-button afx-primary", text: "Send" });
  const close = h("button", { type: "button", class: "afx-button", text: "Close" });
  const word = h("span", { class: "afx-word", role: "status" });
  const box = h(
    "div",
    { class: "afx-interrupt", id: freshId(), hidden: true },
    h("label", { for: id, class: "afx-label", text: LABEL }),
    area,
    h("div", { class: "afx-actions" }, send, close, word),
  );
  const button = h("button", {
    type: "button",
    class: "afx-button afx-small",
    text: "Interrupt…",
    "aria-controls": box.id,
  });

  const draw = () => {
    box.hidden = !draft.open;
    button.setAttribute("aria-expanded", String(draft.open));
    /** @type {any} */ (area).value = draft.text;
  };
  const open = (on) => {
    draft.open = on;
    draw();
    if (on) area.focus();
  };
  const tell = () => {
    if (!draft.text.trim()) return area.focus();
    line.press("interrupt", { question: INTERRUPT }, { message: draft.text });
    draft.sent = true;
  };
  button.addEventListener("click", () => open(!draft.open));
  close.addEventListener("click", () => {
    open(false);
    button.focus();
  });
  send.addEventListener("click", tell);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close.click();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send.click();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the notebook has its own uses for these keys
  });
  draw();
  return {
    button,
    box,
    /** @param {any} d null where nothing can be interrupted any more */
    update(d) {
      button.hidden = !d;
      if (!d) return void (box.hidden = true);
      for (const element of [button, send]) element.toggleAttribute("disabled", d.disabled);
      say(word, d.word);
      if (draft.sent && !d.disabled) {
        draft.sent = false;
        if (d.refused) return; // the notice below says why; what was typed stays
        draft.text = "";
        open(false);
      }
    },
  };
}
