-- The archive: everything that happened, as tables. Times are UTC, durations milliseconds, closed sets upper-case words.
--
-- Rule 1: only the fold writes here, each set of rows in one transaction with the place in the live record that it reaches.
-- Rule 2: events, messages, turn_messages, conversation_messages and snapshots only grow; steps, model_calls,
--         tool_calls, suspensions and turns are derived from them, turn by turn, and can be derived again.
-- Rule 3: no primary key and no index: the fold keeps rows unique, and zone maps find a turn (its id sorts by time).

create macro ms_between(first, last) as (epoch_us(last) - epoch_us(first)) / 1000::double;

create table lab (
    key varchar not null,
    value varchar not null
);

-- How far the live record has been folded; one row, of the record that was folded last.
create table folded (
    record_id varchar not null,
    journal bigint not null,
    messages bigint not null,
    turn_messages bigint not null,
    conversation_messages bigint not null,
    events bigint not null      -- the newest event_pk
);

-- What every version of an agent is, written down when the lab first meets it.
create table agent_versions (
    agent_id varchar not null,
    agent_version varchar not null,
    fingerprint varchar not null, -- of definition and code; one version has one; '': made by a version that hashed otherwise
    name varchar,
    description varchar,
    instructions varchar,
    model varchar,
    model_options json,
    tools json,
    forms json,
    policy json,                -- its limits, and what else the definition says
    first_seen_at timestamptz,
    sources json                -- its code: of each piece the part it belongs to, its name, module, hash and text
);

-- The log. (turn_id, sequence) identifies an event; event_pk is the order in which events reached this file.
create table events (
    event_pk bigint not null,
    turn_id varchar not null,
    root_turn_id varchar not null,
    parent_turn_id varchar,
    agent_id varchar not null,
    agent_version varchar not null,
    sequence bigint not null,
    type varchar not null,
    occurred_at timestamptz not null,
    status varchar,             -- the turn's, once this had happened
    phase varchar,
    step bigint,                -- the newest step of the turn; 0 before the first
    attempt bigint,             -- model events: which try
    tool_call_id varchar,
    tool_name varchar,
    data json not null          -- all of it, what stands in the columns too
);

-- A message once, however many turns hold it; the hash is of all its content (as UUID it is found 7 times faster).
create table messages (
    hash uuid not null,
    role varchar not null,
    content varchar not null,
    reasoning varchar,
    tool_calls json,
    tool_call_id varchar,       -- a tool's message: the call that it answers
    tool_name varchar,
    origin varchar,             -- 'runtime' where the runtime had to close a history
    provider_data json,
    chars bigint not null,
    body json                   -- the whole text of a registered subclass; null for a plain message
);

create table turn_messages (
    turn_id varchar not null,
    position bigint not null,   -- 0 for the first; those attached from earlier turns come first
    hash uuid not null,
    step bigint
);

create table conversation_messages (
    conversation_id varchar not null,
    position bigint not null,
    turn_id varchar,            -- null: said outside a turn
    hash uuid not null
);

-- Every saved state of a turn, without its messages.
create table snapshots (
    turn_id varchar not null,
    version bigint not null,
    status varchar not null,
    phase varchar not null,
    saved_at timestamptz,
    state json not null
);

create table turns (
    turn_id varchar not null,
    root_turn_id varchar not null,
    parent_turn_id varchar,
    conversation_id varchar,
    agent_id varchar not null,
    agent_version varchar not null, -- with which it ended, or would go on
    status varchar not null,
    phase varchar not null,
    version bigint not null,
    output varchar,
    finish_reason varchar,
    error_kind varchar,
    error_message varchar,
    error_code varchar,
    step_count bigint,
    iteration_count bigint,
    tool_call_count bigint,
    open_questions bigint,
    input_tokens bigint,
    output_tokens bigint,
    total_tokens bigint,
    reasoning_tokens bigint,
    cache_read_tokens bigint,
    cache_write_tokens bigint,
    created_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    updated_at timestamptz,     -- of its newest event
    active_ms double,           -- while RUNNING; a stretch that a crash cut off is not counted
    waiting_ms double,          -- while suspended: for a person, a child, a retry; up to its newest event
    message_count bigint,
    attached_count bigint,      -- of these, how many come from earlier turns of the conversation
    event_count bigint,
    streaming boolean,
    cancel_requested boolean,
    metadata json,
    first_event_pk bigint,      -- no event of this turn stands before it
    reserved bigint,            -- numbers up to this may have been used for events
    logged bigint,              -- the number of its newest event
    migrated_from varchar       -- the version with which it began, if it was migrated to another one
);

create table steps (
    turn_id varchar not null,
    agent_id varchar not null,
    agent_version varchar not null,
    step bigint not null,       -- 1 for the first
    started_at timestamptz,
    finished_at timestamptz,    -- null: under way, or cut off by a crash
    duration_ms double,
    model_calls bigint not null,
    tool_calls bigint not null, -- calls that ran in this step
    input_tokens bigint,
    output_tokens bigint
);

-- One attempt to get a reply from a model.
create table model_calls (
    turn_id varchar not null,
    agent_id varchar not null,
    agent_version varchar not null,
    call_index bigint not null, -- 1 for the turn's first
    step bigint not null,
    iteration bigint,
    attempt bigint,
    status varchar not null,    -- STARTED, COMPLETED, FAILED, ABANDONED
    request_model varchar,
    response_model varchar,
    response_id varchar,
    finish_reason varchar,
    message_position bigint,    -- of the reply, among the turn's messages
    tool_calls bigint,          -- how many the reply asked for
    input_tokens bigint,
    output_tokens bigint,
    total_tokens bigint,
    reasoning_tokens bigint,
    cache_read_tokens bigint,
    cache_write_tokens bigint,
    started_at timestamptz not null,
    first_delta_at timestamptz,
    finished_at timestamptz,
    first_delta_ms double,
    duration_ms double,
    error_kind varchar,
    error_message varchar,
    error_code varchar
);

-- One call that a model asked for, whatever became of it; under the version that ran it. Its result is the message with its id: view tool_results.
create table tool_calls (
    turn_id varchar not null,
    agent_id varchar not null,
    agent_version varchar not null,
    call_index bigint not null, -- 1 for the turn's first
    tool_call_id varchar not null,
    provider_id varchar,
    step bigint not null,       -- in which the model asked
    tool_name varchar not null,
    arguments json not null,
    malformed varchar,          -- the arguments as the model wrote them, where they are no JSON object
    status varchar not null,    -- REQUESTED, WAITING, STARTED, RETRYING, COMPLETED, FAILED, DENIED, INTERRUPTED, NOT_RUN
    approval_outcome varchar,   -- of the last approval asked for; DENIED: by the agent's own policy
    starts bigint not null,     -- how often it was started
    requested_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    duration_ms double,         -- time it ran here, without waits; null for work outside
    result_chars bigint,
    error_kind varchar,
    error_message varchar,
    error_code varchar
);

-- The whole value that a tool returned, where the model was shown less; lab.result(tool_call_id) reads it.
create table kept_results (
    turn_id varchar not null,
    tool_call_id varchar not null,
    media_type varchar not null,
    bytes bigint not null,
    body blob not null
);

-- One question, once each time it is asked; under the version that asked it.
create table suspensions (
    turn_id varchar not null,
    agent_id varchar not null,
    agent_version varchar not null,
    question_id varchar not null,
    asking bigint not null,     -- 1; 2 where the same question had been answered before
    type varchar not null,
    tool_name varchar,
    message varchar,
    code varchar,
    reason varchar,             -- why it was asked
    arguments json,
    form_key varchar,
    schema json,                -- the form's, as it was when the question was asked
    asked_at timestamptz not null,
    answered_at timestamptz,
    waited_ms double,           -- null while it is open
    outcome varchar not null,   -- PENDING, APPROVED, REJECTED, SUBMITTED, DECLINED, ANSWERED, SUPPLIED, RETRIED, CONTINUED,
                                -- EXPIRED, INTERRUPTED, CANCELLED
    answered_by varchar,
    answer_reason varchar,
    response json,              -- what was submitted, said or supplied
    metadata json,              -- the question's
    answer_metadata json,       -- who answered, where, why
    tool_call_id varchar,       -- the call that it is about, if it is about one
    expires_at timestamptz,     -- when it resolves by itself; a retry: when it is due
    when_expired varchar        -- to what: REJECT or APPROVE
);
