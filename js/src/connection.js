// @ts-check
/**
 * One panel's line to its kernel: keeps the picture, sends presses, and tells who listens.
 * It lives with the model, not with a view: views come and go, messages must not be missed.
 */
import { emptyPicture, take } from "./store.js";

const ANSWER_DUE = 2000; // ms without a word from the kernel, after which it is called busy
const ASK_AGAIN = 1000; // ms between two requests for the whole
/** What an interruption goes by where an answer has the name of its question; a cancellation goes by "". */
export const INTERRUPT = "interrupt";
let presses = 0;

/** @param {any} model anywidget's model */
export function connect(model) {
  const listeners = new Set();
  const line = {
    picture: emptyPicture(),
    pressed: new Map(), // question -> the press that is on its way
    drafts: new Map(), // question -> what is typed, so that it outlives a view
    gone: false, // the kernel cannot be reached
    foreign: false, // the kernel speaks another version
    skew: 0, // ms that the browser's clock is ahead of the kernel's, at most
    resyncs: 0,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    press,
    settle: () => send({ kind: "settle" }),
  };
  let asked = -Infinity;
  let skewKnown = false;

  const tell = () => listeners.forEach((listener) => listener());

  function send(message) {
    try {
      model.send(message);
      return true;
    } catch {
      line.gone = true; // the comm is closed: the kernel restarted or ended
      tell();
      return false;
    }
  }

  function receive(message) {
    if (!message || message.kind === undefined) return;
    const became = take(line.picture, message);
    if (became === "gap" && Date.now() - asked > ASK_AGAIN) {
      asked = Date.now();
      line.resyncs += 1;
      send({ kind: "resync", have: line.picture.n });
    }
    if (became === "foreign") line.foreign = true;
    if (became === "taken") forgetAnswered();
    tell();
  }

  function forgetAnswered() {
    const { questions, terminal, cancelling, answering } = line.picture.state;
    const open = new Set(questions.map((question) => question.question));
    if (!terminal) open.add(INTERRUPT);
    if (!terminal && !cancelling) open.add("");
    for (const [question, pressed] of line.pressed) {
      if (!open.has(question) || answering[question]?.press === pressed.press) line.pressed.delete(question);
    }
    for (const question of line.drafts.keys()) if (!open.has(question)) line.drafts.delete(question);
  }

  /** @param {string} verb @param {any} [question] @param {object} [data] */
  function press(verb, question, data = {}) {
    const about = question?.question ?? "";
    if (line.pressed.has(about)) return;
    presses += 1;
    const pressed = {
      press: `${Date.now().toString(36)}.${presses}.${Math.random().toString(36).slice(2)}`,
      busy: false,
      verb,
    };
    line.pressed.set(about, pressed);
    tell();
    if (!send({ kind: "press", verb, question: about, asked: question?.asked, press: pressed.press, ...data })) {
      line.pressed.delete(about);
      tell();
      return;
    }
    setTimeout(() => {
      if (line.pressed.get(about) === pressed) {
        pressed.busy = true;
        tell();
      }
    }, ANSWER_DUE);
  }

  model.on("msg:custom", (message) => {
    const at = message?.state?.at;
    if (at) {
      const ahead = Date.now() - Date.parse(at);
      line.skew = skewKnown ? Math.min(line.skew, ahead) : ahead;
      skewKnown = true;
    }
    receive(message);
  });
  model.on("change:kept", () => receive(model.get("kept")));
  receive(model.get("kept"));
  return line;
}
