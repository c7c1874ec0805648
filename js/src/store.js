// @ts-check
/**
 * What the browser knows of a turn: the newest snapshot and the patches after it.
 *
 * Rule: patches are numbered. One that does not follow the last is not applied; the kernel is asked once for the whole.
 */

export const VERSION = 2;

/** @returns {{n: number, state: any, items: Map<number, any>}} a picture in which nothing has happened */
export function emptyPicture() {
  return { n: -1, state: null, items: new Map() };
}

/**
 * Take a message into the picture.
 * @returns {"taken" | "old" | "gap" | "foreign"} gap: something before it was lost; foreign: another version speaks
 */
export function take(picture, message) {
  if (message.v !== VERSION) return "foreign";
  if (message.n <= picture.n) return "old";
  if (message.kind === "snapshot") {
    picture.items = new Map(message.items.map((item) => [item.key, item]));
  } else {
    if (message.n !== picture.n + 1) return "gap";
    if (message.grown.some((grown) => !fits(picture.items.get(grown.key), grown))) return "gap";
    for (const { key, at, piece, rest, ended } of message.grown) {
      const item = picture.items.get(key);
      picture.items.set(key, { ...item, text: item.text.slice(0, at) + piece, rest, ended });
    }
    for (const item of message.put) picture.items.set(item.key, item);
    for (const key of picture.items.keys()) {
      if (key >= message.state.dropped) break;
      picture.items.delete(key);
    }
  }
  picture.n = message.n;
  picture.state = message.state;
  return "taken";
}

function fits(item, grown) {
  return item !== undefined && item.text !== undefined && item.text.length >= grown.at;
}

/**
 * What became of a press.
 * @param {any} pressed the press as this page knows it, if there was one
 * @param {any} answering what the kernel says of this question, if anything
 * @returns {"idle" | "sending" | "busy" | "sent" | "heard" | "refused"}
 */
export function phaseOf(pressed, answering) {
  if (pressed && answering?.press !== pressed.press) return pressed.busy ? "busy" : "sending";
  return answering?.phase ?? "idle";
}
