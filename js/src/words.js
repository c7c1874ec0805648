// @ts-check
/** Numbers and times as people read them. */

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** @param {number} number */
export const grouped = (number) => number.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** @param {string} iso a point in time; said as the reader's own time of day */
export function clock(iso) {
  return new Date(iso).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** @param {{began: string | null, ended: string | null}} span @param {number} now ms; by the kernel's clock */
export function took(span, now) {
  if (!span.began) return "";
  const end = span.ended ? Date.parse(span.ended) : now;
  const seconds = Math.max(0, (end - Date.parse(span.began)) / 1000);
  return span.ended ? duration(seconds) : seconds < 1 ? "" : duration(Math.floor(seconds)).replace(".0 s", " s");
}

/** @param {string} text @param {number} most */
export function flat(text, most) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= most ? line : `${line.slice(0, most)}…`;
}

/** @param {number} seconds until something happens, as a countdown says it */
export function countdown(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  return whole < 60 ? `${whole} s` : duration(whole);
}
