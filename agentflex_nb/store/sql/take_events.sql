-- The journal's events as rows. What the events of a list share stands in its first one.
insert into events
with lists as (
    select turn_id, from_json(events, '[{
        "root_turn_id": "VARCHAR", "parent_turn_id": "VARCHAR", "agent_id": "VARCHAR", "agent_version": "VARCHAR",
        "sequence": "BIGINT", "type": "VARCHAR", "occurred_at": "BIGINT", "data": "JSON"
    }]') as told
    from journal
), told as (
    select turn_id, told[1] as shared, unnest(told) as event
    from lists
), read as (
    select turn_id, shared, event, json_transform(event.data, '{
        "status": "VARCHAR", "phase": "VARCHAR", "step_count": "BIGINT", "attempt": "BIGINT",
        "tool_call_id": "VARCHAR", "tool_name": "VARCHAR"
    }') as data
    from told
)
select
    $newest + row_number() over () as event_pk,
    turn_id,
    shared.root_turn_id,
    shared.parent_turn_id,
    shared.agent_id,
    shared.agent_version,
    event.sequence,
    event.type,
    make_timestamptz(event.occurred_at) as occurred_at,
    data.status,
    data.phase,
    data.step_count as step,
    data.attempt,
    data.tool_call_id,
    data.tool_name,
    event.data
from read
