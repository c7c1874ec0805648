// @ts-check
/**
 * The panel under a cell. The line to the kernel lives with the model, so that nothing is missed while no view is
 * there; a view draws what the line knows, at most once in 50 ms.
 */
import { makeCard } from "./card.js";
import { connect } from "./connection.js";
import { describe, describeItem } from "./describe.js";
import { h, say } from "./dom.js";
import { makeInterrupt } from "./interrupt.js";
import { makePart } from "./parts.js";

const REPAINT = 50; // ms between two repaints, at least
const TICK = 1000; // ms between two looks at the clock while something runs or is counted down

/** @type {Map<string, any>} the lines by the name of their panel: each hook is handed another object for one model */
const lines = new Map();

function initialize({ model }) {
  const name = model.get("panel");
  lines.set(name, connect(model));
  return () => lines.delete(name);
}

function render({ model, el }) {
  const name = model.get("panel");
  const line = lines.get(name);
  const page = frame(line);
  // the plain HTML that stays when the kernel is gone is hidden for as long as this view is there
  el.append(h("style", { text: `.afx-of-${CSS.escape(name)} { display: none !important; }` }), page.root);
  const parts = new Map(); // item key -> { part, item }
  const cards = new Map(); // card key -> card
  let timer = 0;
  let painted = 0;

  const schedule = () => {
    // a hidden page gets no animation frames
    if (!timer) timer = window.setTimeout(paint, Math.max(0, painted + REPAINT - performance.now()));
  };

  function paint() {
    timer = 0;
    painted = performance.now();
    const now = Date.now() - line.skew;
    const d = describe(line, now);
    if (!d) return;
    const atEnd = page.log.scrollHeight - page.log.scrollTop - page.log.clientHeight < 40;
    page.update(d);
    drawItems(now);
    drawCards(d);
    if (atEnd) page.log.scrollTop = page.log.scrollHeight;
  }

  function drawItems(now) {
    const { items } = line.picture;
    for (const [key, known] of parts) {
      if (items.has(key)) continue;
      known.part.element.remove();
      parts.delete(key);
    }
    for (const [key, item] of items) {
      let known = parts.get(key);
      if (known?.is !== item.is) {
        const part = makePart(item);
        if (known) known.part.element.replaceWith(part.element);
        else page.items.append(part.element);
        known = { part, is: item.is, item: null };
        parts.set(key, known);
      }
      const runs = item.began && !item.ended;
      if (known.item !== item || runs) known.part.update(describeItem(item, now));
      known.item = item;
    }
  }

  function drawCards(d) {
    const wanted = new Set(d.cards.map((card) => card.key));
    for (const [key, card] of cards) {
      if (wanted.has(key)) continue;
      card.element.remove();
      cards.delete(key);
    }
    for (const card of d.cards) {
      if (!cards.has(card.key)) {
        const newest = () => line.picture.state.questions.find(({ question }) => question === card.question);
        const made = makeCard(card, line, newest);
        cards.set(card.key, made);
        page.cards.append(made.element);
      }
      cards.get(card.key).update(card);
    }
  }

  const leave = line.subscribe(schedule);
  const clock = window.setInterval(() => {
    if (describe(line, Date.now() - line.skew)?.ticks) schedule();
  }, TICK);
  paint();
  // the output should have been replaced when the turn ended; this page was away then
  if (line.picture.state?.terminal) line.settle();
  return () => {
    leave();
    window.clearInterval(clock);
    window.clearTimeout(timer);
  };
}

/** What surrounds the items: head, log, cards, foot. */
function frame(line) {
  const word = h("span");
  const status = h(
    "span",
    { class: "afx-status", role: "status", "aria-live": "polite" },
    h("span", { class: "afx-dot" }),
    word,
  );
  const agent = h("strong", { class: "afx-agent" });
  const figures = h("span", { class: "afx-figures" });
  const cancel = h("button", {
    type: "button",
    class: "afx-button afx-cancel",
    text: "Cancel",
    on: { click: () => line.press("cancel") },
  });
  const interrupt = makeInterrupt(line);
  const prompt = h("div", { class: "afx-prompt", hidden: true });
  const dropped = h("div", { class: "afx-note", hidden: true });
  const items = h("div");
  const error = h("div", { class: "afx-note afx-error", role: "alert", hidden: true });
  const log = h(
    "div",
    { class: "afx-log", role: "log", "aria-live": "off", "aria-label": "What happened in this turn", tabindex: 0 },
    prompt,
    dropped,
    items,
    error,
  );
  const cards = h("div", { class: "afx-cards" });
  const notices = h("div", { class: "afx-notices", role: "alert" });
  const foot = h("div", { class: "afx-foot" });
  const head = h("div", { class: "afx-head" }, status, agent, figures, interrupt.button, cancel);
  const root = h("div", { class: "afx", role: "group" }, head, interrupt.box, log, cards, notices, foot);
  const optional = (element, text) => {
    element.hidden = !text;
    say(element, text);
  };
  return {
    root,
    log,
    items,
    cards,
    update(d) {
      status.className = `afx-status afx-${d.tone}`;
      root.setAttribute("aria-label", `Turn of ${d.agent}`);
      say(word, d.status);
      say(agent, d.agent);
      say(figures, d.figures.join(" · "));
      figures.title = d.tokens;
      cancel.hidden = !d.cancel;
      if (d.cancel) {
        say(cancel, d.cancel.label);
        cancel.toggleAttribute("disabled", d.cancel.disabled);
      }
      interrupt.update(d.interrupt);
      optional(prompt, d.prompt);
      optional(dropped, d.dropped);
      error.hidden = !d.error;
      if (d.error) error.replaceChildren(h("strong", { text: d.error.kind }), ` ${d.error.message}`);
      say(notices, d.notices.join(" "));
      say(foot, d.foot);
    },
  };
}

export default { initialize, render };
