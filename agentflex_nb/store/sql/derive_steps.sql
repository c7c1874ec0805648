-- A step: from its STEP_STARTED to its STEP_COMPLETED. Calls count in the step in which they ran.
insert into steps
with told as (
    select turn_id, agent_id, agent_version, step, type, occurred_at, tool_call_id,
        case when type in ('MODEL_COMPLETED', 'MODEL_FAILED') then
            json_transform(data, '{"usage": {"input_tokens": "BIGINT", "output_tokens": "BIGINT"}}').usage
        end as usage
    from events
    semi join touched using (turn_id)
    where event_pk >= $oldest and step > 0 and type in (
        'STEP_STARTED', 'STEP_COMPLETED', 'MODEL_STARTED', 'MODEL_COMPLETED', 'MODEL_FAILED', 'TOOL_STARTED'
    )
), summed as (
    select turn_id, agent_id, agent_version, step,
        min(occurred_at) filter (type = 'STEP_STARTED') as started_at,
        max(occurred_at) filter (type = 'STEP_COMPLETED') as finished_at,
        count(*) filter (type = 'MODEL_STARTED') as model_calls,
        count(distinct tool_call_id) filter (type = 'TOOL_STARTED') as tool_calls,
        sum(usage.input_tokens)::bigint as input_tokens,
        sum(usage.output_tokens)::bigint as output_tokens
    from told
    group by turn_id, agent_id, agent_version, step
)
select turn_id, agent_id, agent_version, step, started_at, finished_at,
    ms_between(started_at, finished_at) as duration_ms,
    model_calls, tool_calls, input_tokens, output_tokens
from summed
order by turn_id, step
