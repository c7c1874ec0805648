-- I1: every call in a turn's history has its one result, right after its message and in the order of the calls, unless
-- the turn still waits or runs. And no result stands without its call.
with said as (
    select turn_id, position, role, tool_call_id,
        json_transform(tool_calls, '[{"id": "VARCHAR"}]') as calls
    from used_messages
), called as (
    select turn_id, position as called_at, unnest(calls).id as tool_call_id, position + generate_subscripts(calls, 1) as expected_at
    from said
    where role = 'assistant'
), answered as (
    select turn_id, position, tool_call_id
    from said
    where role = 'tool'
)
select turn_id, tool_call_id, expected_at, position
from called
full join answered using (turn_id, tool_call_id)
join turns using (turn_id)
where called_at is null
    or position <> expected_at
    or (position is null and ended_at is not null)
