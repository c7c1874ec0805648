-- A call, from the reply that asked for it to the event that settled it. It may start more than once: after a form, after
-- a crash. A start counts as running time up to the next event of its call, unless a crash came between.
insert into tool_calls
with told as (
    select turn_id, agent_id, agent_version, sequence, step, type, occurred_at, tool_call_id, data
    from events
    semi join touched using (turn_id)
    where event_pk >= $oldest and type in (
        'MODEL_COMPLETED', 'TOOL_STARTED', 'TOOL_COMPLETED', 'TOOL_FAILED', 'TOOL_DENIED', 'TOOL_INTERRUPTED',
        'TOOL_APPROVAL_REQUESTED', 'TOOL_INPUT_REQUESTED', 'EXTERNAL_TOOL_REQUESTED', 'EXTERNAL_TOOL_COMPLETED',
        'EXTERNAL_TOOL_FAILED', 'TURN_COMPLETED', 'TURN_FAILED', 'TURN_CANCELLED', 'MAX_ITERATIONS_REACHED',
        'MAX_STEPS_REACHED', 'BUDGET_EXCEEDED'
    )
), replies as (
    select turn_id, agent_id, agent_version, sequence, step, occurred_at, json_transform(data, '{"tool_calls": [{
        "id": "VARCHAR", "name": "VARCHAR", "arguments": "JSON", "malformed": "VARCHAR", "provider_id": "VARCHAR"
    }]}').tool_calls as calls
    from told
    where type = 'MODEL_COMPLETED'
), requested as (
    select turn_id, agent_id, agent_version, sequence, step, occurred_at, unnest(calls) as call,
        generate_subscripts(calls, 1) as position
    from replies
), runs as (
    select *, coalesce((data->>'$.retries')::boolean, false) as retries, lead(type) over calls as followed_by, lead(occurred_at) over calls as followed_at
    from told
    where tool_call_id is not null
    window calls as (partition by turn_id, tool_call_id order by sequence)
), settled as (
    select turn_id, tool_call_id,
        arg_max(agent_version, sequence) filter (type != 'TOOL_APPROVAL_REQUESTED') as ran_under,
        count(*) filter (type in ('TOOL_STARTED', 'EXTERNAL_TOOL_REQUESTED')) as starts,
        min(occurred_at) filter (type in ('TOOL_STARTED', 'EXTERNAL_TOOL_REQUESTED')) as started_at,
        arg_max(retries, sequence) filter (type in ('TOOL_STARTED', 'TOOL_FAILED')) as retries,
        sum(ms_between(occurred_at, followed_at)) filter (
            type = 'TOOL_STARTED'
            and followed_by in ('TOOL_COMPLETED', 'TOOL_FAILED', 'TOOL_INTERRUPTED', 'TOOL_INPUT_REQUESTED')
        ) as duration_ms,
        arg_max({"type": replace(type, 'EXTERNAL_', ''), "finished_at": occurred_at, "data": data}, sequence) filter (
            type in (
                'TOOL_COMPLETED', 'TOOL_FAILED', 'TOOL_DENIED', 'TOOL_INTERRUPTED', 'EXTERNAL_TOOL_COMPLETED',
                'EXTERNAL_TOOL_FAILED'
            ) and not retries
        ) as settled
    from runs
    group by turn_id, tool_call_id
), ended as (
    select distinct turn_id
    from told
    where type in (
        'TURN_COMPLETED', 'TURN_FAILED', 'TURN_CANCELLED', 'MAX_ITERATIONS_REACHED', 'MAX_STEPS_REACHED', 'BUDGET_EXCEEDED'
    )
), questions as (
    select turn_id, tool_call_id,
        arg_max(outcome, {'at': asked_at, 'asking': asking}) filter (type = 'TOOL_APPROVAL') as approval_outcome,
        bool_or(outcome = 'PENDING') as waits
    from suspensions
    semi join touched using (turn_id)
    where tool_call_id is not null
    group by turn_id, tool_call_id
)
select
    requested.turn_id, agent_id, coalesce(ran_under, agent_version) as agent_version,
    row_number() over (partition by requested.turn_id order by sequence, position) as call_index,
    call.id as tool_call_id,
    nullif(call.provider_id, '') as provider_id,
    step,
    call.name as tool_name,
    call.arguments,
    call.malformed,
    case
        when settled is not null then settled.type[6:]
        when retries and ended.turn_id is null then 'RETRYING'
        when waits then 'WAITING'
        when starts > 0 then 'STARTED'
        else if(ended.turn_id is null, 'REQUESTED', 'NOT_RUN')
    end as status,
    coalesce(approval_outcome, if(settled.type = 'TOOL_DENIED', 'DENIED', null)) as approval_outcome,
    coalesce(starts, 0) as starts,
    occurred_at as requested_at,
    started_at,
    settled.finished_at,
    duration_ms,
    (settled.data->>'$.result_chars')::bigint as result_chars,
    settled.data->>'$.error.kind' as error_kind,
    settled.data->>'$.error.message' as error_message,
    nullif(settled.data->>'$.error.code', '') as error_code
from requested
left join settled on settled.turn_id = requested.turn_id and settled.tool_call_id = call.id
left join questions on questions.turn_id = requested.turn_id and questions.tool_call_id = call.id
left join ended on ended.turn_id = requested.turn_id
order by requested.turn_id, sequence, position
