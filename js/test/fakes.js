/** anywidget's model, as far as the panel uses it: what the kernel sends is put in with `receive`. */
export class FakeModel {
  constructor(kept, panel = `panel ${Math.random()}`) {
    this.traits = { kept, panel };
    this.sent = [];
    this.listeners = new Map();
    this.closed = false;
  }
  get(name) {
    return this.traits[name];
  }
  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }
  send(message) {
    if (this.closed) throw new Error("Cannot send");
    this.sent.push(message);
  }
  receive(message) {
    for (const listener of this.listeners.get("msg:custom") ?? []) listener(message);
  }
  keep(kept) {
    this.traits.kept = kept;
    for (const listener of this.listeners.get("change:kept") ?? []) listener();
  }
}

export const stateOf = (more = {}) => ({
  turn: "T1",
  prompt: "",
  agent: "refunds",
  foot: "turn T1 · refunds v1",
  status: "RUNNING",
  word: "Running",
  tone: "active",
  terminal: false,
  blocked: false,
  step: 1,
  max_steps: 100,
  tokens: { input: null, output: null, total: null },
  dropped: 0,
  cancelling: false,
  error: null,
  at: null,
  running_since: null,
  ran: 0,
  questions: [],
  answering: {},
  ...more,
});

export const snapshotOf = (n, items = [], state = {}) => ({ v: 2, kind: "snapshot", n, state: stateOf(state), items });
export const patchOf = (n, { put = [], grown = [], ...state } = {}) => ({
  v: 2,
  kind: "patch",
  n,
  state: stateOf(state),
  put,
  grown,
});
export const textItem = (key, text, ended = null) => ({
  key,
  is: "text",
  text,
  rest: "",
  began: "2026-01-01T00:00:00+00:00",
  ended,
});
export const grownBy = (key, at, piece, ended = null) => ({ key, at, piece, rest: "", ended });

export const questionOf = (more = {}) => ({
  question: "T1.1.0",
  type: "TOOL_APPROVAL",
  asked: 7,
  message: "refund asks for approval",
  code: "",
  reason: "",
  tool: "refund",
  arguments: [["amount", "120.0"]],
  form: "",
  schema: null,
  metadata: [],
  given: null,
  parameters: null,
  failure: [],
  expires_at: null,
  when_expired: "",
  due_at: null,
  offers: ["approve", "reject"],
  in_code: 'lab.restore("T1").approve()',
  ...more,
});

export const waiting = (...questions) => ({
  status: "WAITING_FOR_APPROVAL",
  word: "Waiting for approval",
  tone: "waiting",
  blocked: true,
  questions,
});
