-- What was said in the conversations.
insert into conversation_messages
select conversation_id, position, turn_id, hash::uuid
from live_conversation_messages
order by id
