-- The newest states of some turns, without their messages.
select turn_id, state, turns.cancel_requested, reserved, logged, message_count
from turns
join snapshots using (turn_id, version)
where turn_id in (select unnest($turns))
order by created_at, turn_id
