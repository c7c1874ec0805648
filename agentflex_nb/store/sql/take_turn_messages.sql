-- Where the turns use their messages.
insert into turn_messages
select turn_id, position, hash::uuid, step
from live_turn_messages
order by id
