-- The answers that were given to some turns, in order, as the log tells them.
select turn_id, epoch_us(occurred_at), data
from events
where type = 'TURN_RESUMED' and turn_id in (select unnest($turns))
order by turn_id, sequence
