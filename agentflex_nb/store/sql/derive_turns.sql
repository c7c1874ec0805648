-- The newest state of a turn as columns, with what its log says of time.
insert into turns
with newest as (
    select turn_id, max(version) as version, arg_max(state, version) as state
    from snapshots
    semi join touched using (turn_id)
    group by turn_id
), told as (
    select turn_id, event_pk, sequence, occurred_at, status,
        lead(sequence) over turn as next_sequence, ms_between(occurred_at, lead(occurred_at) over turn) as lasted
    from events
    semi join touched using (turn_id)
    where event_pk >= $oldest
    window turn as (partition by turn_id order by sequence)
), log as (
    select turn_id,
        min(event_pk) as first_event_pk,
        max(sequence) as logged,
        max(occurred_at) as updated_at,
        count(*) as event_count,
        -- numbers are left out only after a crash, and how long it lasted is nobody's running time
        sum(lasted) filter (status = 'RUNNING' and next_sequence = sequence + 1) as active_ms,
        sum(lasted) filter (status like 'WAITING\_FOR\_%' escape '\' or status = 'RETRY_SCHEDULED') as waiting_ms
    from told
    group by turn_id
), used as (
    select turn_id, count(*) as message_count
    from turn_messages
    semi join touched using (turn_id)
    group by turn_id
), read as (
    select turn_id, version, json_transform(state, '{
        "identity": {
            "root_turn_id": "VARCHAR", "parent_turn_id": "VARCHAR", "conversation_id": "VARCHAR", "agent_id": "VARCHAR",
            "agent_version": "VARCHAR", "created_at": "BIGINT", "streaming": "BOOLEAN", "metadata": "JSON",
            "attached": "BIGINT"
        },
        "status": "VARCHAR", "phase": "VARCHAR", "step_count": "BIGINT", "iteration_count": "BIGINT",
        "tool_call_count": "BIGINT", "started_at": "BIGINT", "ended_at": "BIGINT", "output": "VARCHAR",
        "finish_reason": "VARCHAR", "suspension": {"questions": ["JSON"]},
        "usage": {
            "input_tokens": "BIGINT", "output_tokens": "BIGINT", "reasoning_tokens": "BIGINT",
            "cache_read_tokens": "BIGINT", "cache_write_tokens": "BIGINT"
        },
        "error": {"kind": "VARCHAR", "message": "VARCHAR", "code": "VARCHAR"},
        "migrations": [{"from_version": "VARCHAR"}]
    }') as state
    from newest
)
select
    turn_id,
    state.identity.root_turn_id, state.identity.parent_turn_id, state.identity.conversation_id,
    state.identity.agent_id, state.identity.agent_version,
    state.status, state.phase, version,
    state.output, state.finish_reason,
    state.error.kind as error_kind, state.error.message as error_message, nullif(state.error.code, '') as error_code,
    coalesce(state.step_count, 0) as step_count,
    coalesce(state.iteration_count, 0) as iteration_count,
    coalesce(state.tool_call_count, 0) as tool_call_count,
    coalesce(len(state.suspension.questions), 0) as open_questions,
    state.usage.input_tokens, state.usage.output_tokens,
    if(
        state.usage.input_tokens is null and state.usage.output_tokens is null, null,
        coalesce(state.usage.input_tokens, 0) + coalesce(state.usage.output_tokens, 0)
    ) as total_tokens,
    state.usage.reasoning_tokens, state.usage.cache_read_tokens, state.usage.cache_write_tokens,
    make_timestamptz(state.identity.created_at) as created_at,
    make_timestamptz(state.started_at) as started_at,
    make_timestamptz(state.ended_at) as ended_at,
    updated_at,
    coalesce(active_ms, 0) as active_ms,
    coalesce(waiting_ms, 0) as waiting_ms,
    coalesce(message_count, 0) as message_count,
    coalesce(state.identity.attached, 0) as attached_count,
    coalesce(event_count, 0) as event_count,
    state.identity.streaming,
    heads.cancel_requested,
    coalesce(state.identity.metadata, '{}') as metadata,
    first_event_pk,
    heads.reserved,
    coalesce(log.logged, 0) as logged,
    state.migrations[1].from_version as migrated_from
from read
left join log using (turn_id)
left join used using (turn_id)
left join heads using (turn_id)
order by turn_id
