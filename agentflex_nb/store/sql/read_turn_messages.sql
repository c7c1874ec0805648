-- The messages of some turns, in order.
select turn_id, messages.* exclude (hash)
from turn_messages
join messages using (hash)
where turn_id in (select unnest($turns))
order by turn_id, position
