// @ts-check
/** The items of a turn on the page: each kind is made once, and updated when its description changes. */
import { h, pairsTable, say } from "./dom.js";
import { markdown } from "./markdown.js";

/** item kind -> what makes it; a part is `{ element, update(description) }` */
const MAKERS = { step, text, reasoning, call, answered, note };

/** @param {any} item */
export const makePart = (item) => (MAKERS[item.is] ?? note)();

function step() {
  const label = h("span");
  const took = h("span", { class: "afx-took" });
  const element = h("div", { class: "afx-step" }, label, " ", took);
  return {
    element,
    update(d) {
      say(label, d.label);
      say(took, d.took);
    },
  };
}

/** A text node that only ever grows while text streams: the browser lays out what is new. */
function growing() {
  const node = document.createTextNode("");
  return {
    node,
    set(text) {
      if (text.length > node.data.length && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
      else if (text !== node.data) node.data = text;
    },
  };
}

function text() {
  const stream = growing();
  const rest = h("div", { class: "afx-rest" });
  const element = h("div", { class: "afx-text afx-live" }, stream.node);
  let done = false;
  return {
    element,
    update(d) {
      if (!done) stream.set(d.text);
      if (d.done && !done) {
        done = true; // Markdown is laid out once, when the text is whole: 120 kB of it take 0.3 s
        element.classList.remove("afx-live");
        element.replaceChildren(markdown(d.text));
      }
      if (d.rest) {
        say(rest, d.rest);
        if (rest.parentNode !== element) element.append(rest);
      }
    },
  };
}

function reasoning() {
  const stream = growing();
  const label = h("span");
  const took = h("span", { class: "afx-took" });
  const rest = h("div", { class: "afx-rest" });
  const element = /** @type {HTMLDetailsElement} */ (
    h(
      "details",
      { class: "afx-reasoning", open: true },
      h("summary", {}, label, " ", took),
      h("pre", {}, stream.node),
      rest,
    )
  );
  let done = false;
  return {
    element,
    update(d) {
      stream.set(d.text);
      say(label, d.label);
      say(took, d.took);
      say(rest, d.rest);
      if (d.done && !done) {
        done = true;
        element.open = false;
      }
    },
  };
}

function call() {
  const sign = h("span", { class: "afx-sign" });
  const name = h("code", { class: "afx-name" });
  const inline = h("span", { class: "afx-args" });
  const took = h("span", { class: "afx-took" });
  const body = h("div", { class: "afx-body" });
  const element = h("details", {}, h("summary", {}, sign, " ", name, " ", inline, " ", took), body);
  const progress = progressLine();
  const whole = h("div", { class: "afx-callbox" }, element, progress.element);
  let drawn = "";
  return {
    element: whole,
    update(d) {
      element.className = `afx-call afx-${d.state}`;
      say(sign, d.sign);
      say(name, d.name);
      say(inline, d.inline);
      say(took, d.took);
      progress.update(d.progress);
      const content = JSON.stringify([d.arguments, d.raw, d.result, d.more, d.problem]);
      if (content === drawn) return;
      drawn = content;
      body.replaceChildren(
        ...[
          d.arguments.length ? pairsTable(d.arguments) : null,
          d.raw ? h("pre", { text: d.raw }) : null,
          d.result ? h("pre", { class: "afx-result", text: d.result }) : null,
          d.more ? h("div", { class: "afx-rest", text: d.more }) : null,
          d.problem ? h("pre", { class: "afx-problem", text: d.problem }) : null,
        ].filter((child) => child !== null),
      );
      if (d.problem) element.setAttribute("open", "");
    },
  };
}

function progressLine() {
  const bar = h("progress", { max: 100 });
  const message = h("span");
  const fields = h("span", { class: "afx-soft" });
  const element = h("div", { class: "afx-progress", hidden: true }, bar, message, fields);
  return {
    element,
    update(progress) {
      element.hidden = !progress;
      if (!progress) return;
      const known = progress.percent !== null;
      bar.hidden = !known;
      if (known) bar.setAttribute("value", String(progress.percent));
      bar.setAttribute("aria-label", progress.message || "progress");
      say(message, progress.message);
      say(fields, progress.fields.map(([name, value]) => `${name} ${value}`).join(" · "));
    },
  };
}

function answered() {
  const label = h("span");
  const about = h("code");
  const reason = h("span", { class: "afx-soft" });
  const element = h("div", { class: "afx-answered" }, label, " ", about, " ", reason);
  let table = null;
  return {
    element,
    update(d) {
      element.classList.toggle("afx-no", d.refused);
      say(label, d.label);
      say(about, d.about);
      say(reason, d.reason);
      if (d.fields.length && !table) element.append((table = pairsTable(d.fields)));
    },
  };
}

function note() {
  const element = h("div");
  return {
    element,
    update(d) {
      element.className = d.level === "info" ? "afx-note" : `afx-note afx-${d.level}`;
      say(element, d.text);
    },
  };
}
