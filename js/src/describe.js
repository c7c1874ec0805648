// @ts-check
/**
 * A picture as a plain description of what to draw: no DOM here, and nothing but text.
 */
import { INTERRUPT } from "./connection.js";
import { phaseOf } from "./store.js";
import { clock, countdown, duration, flat, grouped, took } from "./words.js";

/** How a question's buttons read; the first of what a question offers is the primary one. */
const BUTTONS = {
  approve: "Approve",
  reject: "Reject",
  submit: "Submit",
  decline: "Decline",
  supply: "Use this result",
  retry: "Retry",
  continue: "Retry now",
};

const FREE = ["idle", "heard", "refused"]; // phases in which a button can be pressed
const BUSY = "The kernel is busy: what you said is queued, and taken when the running cell has ended.";

/** @param {any} line a connection @param {number} now ms, by the kernel's clock */
export function describe(line, now) {
  const state = line.picture.state;
  if (!state) return null;
  const cancel = phaseOf(line.pressed.get(""), state.answering[""]);
  const cards = state.questions.map((question) => describeCard(line, question, now));
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
    ticks: !state.terminal && (!state.blocked || cards.some(({ countdown }) => countdown)),
    cancel: state.terminal
      ? null
      : {
          label: FREE.includes(cancel) ? "Cancel" : "Cancelling…",
          disabled: line.gone || state.cancelling || !FREE.includes(cancel),
        },
    interrupt: state.terminal ? null : describeInterrupt(line, state),
    cards,
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

function describeInterrupt(line, state) {
  const answering = state.answering[INTERRUPT];
  const phase = phaseOf(line.pressed.get(INTERRUPT), answering);
  return {
    disabled: line.gone || state.cancelling || !FREE.includes(phase),
    word: { sending: "Sending…", busy: BUSY }[phase] ?? "",
    refused: phase === "refused" ? answering.press : "",
  };
}

/** @param {any} line @param {any} question @param {number} now ms, by the kernel's clock */
export function describeCard(line, question, now) {
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
    given: question.given,
    parameters: question.parameters,
    metadata: question.metadata,
    failure: question.failure,
    schema: question.schema,
    countdown: countdownOf(question, now),
    code: question.in_code,
    buttons: buttonsOf(question),
    disabled: line.gone || !FREE.includes(phase),
    word: line.gone
      ? ""
      : ({
          sending: "Sending…",
          busy: BUSY,
          sent: "On its way…",
        }[phase] ?? ""),
    refusal: refused ? { message: refusalText(refused), errors: refused.errors } : null,
    gone: line.gone ? "The kernel is gone. In a new one: open the lab, lab.register(agent), and answer there:" : "",
  };
}

/** type of question -> the middle of its card; what asks for approval has one by its code */
const KINDS = { EXTERNAL_TOOL: "outside", RETRY: "waiting", MODEL: "waiting", CHILD_AGENT: "waiting" };

function kindOf(question) {
  if (question.schema) return "form";
  if (question.type === "USER_INPUT") return "text";
  return KINDS[question.type] ?? (question.code === "OUTCOME_UNKNOWN" ? "unknown" : "approval");
}

/** What stands below a question: `verb` is what is said, `act` what the button does, where that is another word. */
function buttonsOf(question) {
  const known = question.code === "OUTCOME_UNKNOWN" ? { ...BUTTONS, approve: "Run again" } : BUTTONS;
  const buttons = question.offers.map((verb, n) => ({ verb, act: verb, label: known[verb] ?? verb, primary: n === 0 }));
  if (question.type === "EXTERNAL_TOOL")
    buttons.push({ verb: "supply", act: "fail", label: "Report an error", primary: false });
  if (question.type === "RETRY" || question.type === "MODEL")
    buttons.push({ verb: "cancel", act: "cancel", label: "Cancel the turn", primary: false });
  return buttons;
}

const OUTCOMES = { REJECT: "rejected", APPROVE: "approved" };

/** What happens by itself, and in how long: told from the moment alone, no word from the kernel is needed. */
function countdownOf(question, now) {
  const left = (iso) => (Date.parse(iso) - now) / 1000;
  if (question.due_at) {
    const seconds = left(question.due_at);
    return seconds > 0 ? `Tried again in ${countdown(seconds)}` : "Due now";
  }
  if (!question.expires_at) return "";
  const seconds = left(question.expires_at);
  const then = OUTCOMES[question.when_expired] ?? question.when_expired;
  return seconds > 0
    ? `If nobody answers, it is ${then} in ${countdown(seconds)}`
    : `Nobody answered in time: it is ${then}`;
}

function refusalText(refused) {
  if (refused.errors.length) return "Please correct what is marked.";
  return refused.by && refused.at ? `Already answered by ${refused.by} at ${clock(refused.at)}.` : refused.message;
}

/** Refusals of questions that are not open any more, listeners that raised, and what is wrong with the line itself. */
function notices(line, state) {
  const open = new Set(state.questions.map((question) => question.question));
  const late = Object.entries(state.answering)
    .filter(([question, told]) => told.phase === "refused" && !open.has(question))
    .map(([, told]) => refusalText(told));
  if (state.failing) late.push(state.failing);
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
        refused: item.no,
        reason: item.reason,
        fields: item.fields,
      };
    default:
      return { level: item.level ?? "info", text: item.text ?? "" };
  }
}
