// @ts-check
/**
 * A picture as a plain description of what to draw: no DOM here, and nothing but text.
 */
import { phaseOf } from "./store.js";
import { clock, duration, flat, grouped, took } from "./words.js";

/** How a question's buttons read; the first of what a question offers is the primary one. */
const BUTTONS = {
  approve: "Approve",
  reject: "Reject",
  submit: "Submit",
  supply: "Use this result",
  retry: "Retry",
  continue: "Go on now",
};

/** @param {any} line a connection @param {number} now ms, by the kernel's clock */
export function describe(line, now) {
  const state = line.picture.state;
  if (!state) return null;
  const cancel = phaseOf(line.pressed.get(""), state.answering[""]);
  return {
    status: state.cancelling ? "Cancelling" : state.word,
    tone: state.cancelling ? "quiet" : state.tone,
    agent: state.agent || "agent",
    figures: figures(state, now),
    tokens: tokens(state.tokens),
    prompt: state.prompt,
    dropped: state.dropped
      ? `${grouped(state.dropped)} earlier items are left out: lab.events(turn=…) has them all.`
      : "",
    error: state.error && { kind: state.error.kind, message: state.error.message },
    foot: state.foot,
    live: !state.terminal && !state.blocked,
    cancel: state.terminal
      ? null
      : {
          label: cancel === "idle" || cancel === "refused" ? "Cancel" : "Cancelling…",
          disabled: line.gone || state.cancelling || (cancel !== "idle" && cancel !== "refused"),
        },
    cards: state.questions.map((question) => describeCard(line, question)),
    notices: notices(line, state),
  };
}

function figures(state, now) {
  const said = [];
  if (state.step) said.push(`${state.step} step${state.step === 1 ? "" : "s"}`);
  if (state.tokens.total !== null) said.push(`${grouped(state.tokens.total)} tokens`);
  const since = state.running_since ? Math.max(0, now - Date.parse(state.running_since)) / 1000 : 0;
  if (state.running_since || state.ran) said.push(duration(state.ran + since));
  return said;
}

function tokens({ input, output }) {
  return input === null && output === null ? "" : `${grouped(input ?? 0)} in, ${grouped(output ?? 0)} out`;
}

/** @param {any} line @param {any} question */
export function describeCard(line, question) {
  const answering = line.picture.state.answering[question.question];
  const phase = phaseOf(line.pressed.get(question.question), answering);
  const refused = phase === "refused" ? answering : null;
  return {
    question: question.question,
    key: `${question.question} ${question.asked}`,
    kind: kindOf(question),
    title: question.message,
    why: question.reason,
    tool: question.form || question.message.includes(question.tool) ? "" : question.tool,
    arguments: question.form ? [] : question.arguments,
    metadata: question.metadata,
    schema: question.schema,
    code: question.in_code,
    buttons: question.offers.map((verb, n) => ({
      verb,
      label: verb === "approve" && question.code === "OUTCOME_UNKNOWN" ? "Run again" : (BUTTONS[verb] ?? verb),
      primary: n === 0,
    })),
    disabled: line.gone || (phase !== "idle" && phase !== "refused"),
    word: line.gone
      ? ""
      : ({
          sending: "Sending…",
          busy: "The kernel is busy: your answer is queued, and taken when the running cell has ended.",
          sent: "On its way…",
        }[phase] ?? ""),
    refusal: refused ? { message: refusalText(refused), errors: refused.errors } : null,
    gone: line.gone ? "The kernel is gone. Open the lab in a new one, and answer there:" : "",
  };
}

function kindOf(question) {
  if (question.schema) return "form";
  if (question.type === "USER_INPUT") return "text";
  return question.code === "OUTCOME_UNKNOWN" ? "unknown" : "approval";
}

function refusalText(refused) {
  if (refused.errors.length) return "Please correct what is marked.";
  return refused.by && refused.at ? `Already answered by ${refused.by} at ${clock(refused.at)}.` : refused.message;
}

/** Refusals of questions that are not open any more, and what is wrong with the line itself. */
function notices(line, state) {
  const open = new Set(state.questions.map((question) => question.question));
  const late = Object.entries(state.answering)
    .filter(([question, told]) => told.phase === "refused" && !open.has(question))
    .map(([, told]) => refusalText(told));
  if (line.foreign) late.push("This page was loaded with another version of the panel: reload it.");
  if (line.gone && !state.terminal && !state.questions.length)
    late.push("The kernel is gone: this is the last it said.");
  return late;
}

/** @param {any} item @param {number} now ms, by the kernel's clock */
export function describeItem(item, now) {
  switch (item.is) {
    case "step":
      return { label: `step ${item.number}`, took: item.ended ? took(item, now) : "" };
    case "text":
      return { text: item.text, rest: item.rest, done: item.ended !== null };
    case "reasoning":
      return {
        text: item.text,
        rest: item.rest,
        done: item.ended !== null,
        label: item.ended ? "Reasoning" : "Reasoning…",
        took: took(item, now),
      };
    case "call":
      return {
        state: item.state,
        sign: item.sign,
        name: item.name || "…",
        inline: flat(item.raw || item.arguments.map(([name, value]) => `${name}=${value}`).join(", "), 160),
        arguments: item.arguments,
        raw: item.raw,
        took: took(item, now),
        progress: item.state === "running" ? item.progress : null,
        result: item.result,
        more:
          item.result_length > item.result.length
            ? `… the first ${grouped(item.result.length)} of ${grouped(item.result_length)} characters`
            : "",
        problem: item.problem,
      };
    case "answered":
      return {
        label: `${item.word}${item.by ? ` by ${item.by}` : ""} at ${clock(item.at)}`,
        about: flat(item.about, 120),
        refused: item.word === "Rejected",
        reason: item.reason,
        fields: item.fields,
      };
    default:
      return { level: item.level ?? "info", text: item.text ?? "" };
  }
}
