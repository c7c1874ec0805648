-- A MODEL_STARTED and what followed it: a reply, a failure, another start (then it was abandoned), or nothing yet.
insert into model_calls
with told as (
    select turn_id, agent_id, agent_version, sequence, step, attempt, type, occurred_at, data
    from events
    semi join touched using (turn_id)
    where event_pk >= $oldest and type in (
        'MODEL_STARTED', 'MODEL_COMPLETED', 'MODEL_FAILED', 'TURN_COMPLETED', 'TURN_FAILED', 'TURN_CANCELLED',
        'MAX_ITERATIONS_REACHED', 'MAX_STEPS_REACHED', 'BUDGET_EXCEEDED'
    )
), paired as (
    select *, lead(type) over calls as followed_by, lead(occurred_at) over calls as followed_at,
        lead(data) over calls as followed_data
    from told
    window calls as (partition by turn_id order by sequence)
), read as (
    select turn_id, agent_id, agent_version, sequence, step, attempt, followed_by, occurred_at as started_at,
        case when followed_by in ('MODEL_COMPLETED', 'MODEL_FAILED') then followed_at end as finished_at,
        json_transform(data, '{"iteration": "BIGINT", "model": "VARCHAR"}') as asked,
        case when followed_by in ('MODEL_COMPLETED', 'MODEL_FAILED') then json_transform(followed_data, '{
            "model": "VARCHAR", "response_id": "VARCHAR", "finish_reason": "VARCHAR", "message_position": "BIGINT",
            "first_delta_at": "VARCHAR", "tool_calls": ["JSON"],
            "usage": {
                "input_tokens": "BIGINT", "output_tokens": "BIGINT", "total_tokens": "BIGINT",
                "reasoning_tokens": "BIGINT", "cache_read_tokens": "BIGINT", "cache_write_tokens": "BIGINT"
            },
            "error": {"kind": "VARCHAR", "message": "VARCHAR", "code": "VARCHAR"}
        }') end as reply
    from paired
    where type = 'MODEL_STARTED'
)
select
    turn_id, agent_id, agent_version,
    row_number() over (partition by turn_id order by sequence) as call_index,
    step, asked.iteration, attempt,
    case followed_by
        when 'MODEL_COMPLETED' then 'COMPLETED'
        when 'MODEL_FAILED' then 'FAILED'
        else if(followed_by is null, 'STARTED', 'ABANDONED')
    end as status,
    nullif(asked.model, '') as request_model,
    reply.model as response_model,
    reply.response_id, reply.finish_reason, reply.message_position,
    if(followed_by = 'MODEL_COMPLETED', len(reply.tool_calls), null) as tool_calls,
    reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens,
    reply.usage.reasoning_tokens, reply.usage.cache_read_tokens, reply.usage.cache_write_tokens,
    started_at,
    reply.first_delta_at::timestamptz as first_delta_at,
    finished_at,
    ms_between(started_at, reply.first_delta_at::timestamptz) as first_delta_ms,
    ms_between(started_at, finished_at) as duration_ms,
    reply.error.kind as error_kind, reply.error.message as error_message, nullif(reply.error.code, '') as error_code
from read
order by turn_id, sequence
