-- The events of a turn beyond a number, in order.
select turn_id, root_turn_id, parent_turn_id, agent_id, agent_version, sequence, type, epoch_us(occurred_at), data
from events
where turn_id = $turn and sequence > $after and event_pk >= coalesce((
    select first_event_pk from turns where turn_id = $turn
), 0)
order by sequence
