-- A conversation in order, up to a position.
select position, turn_id, messages.* exclude (hash)
from conversation_messages
join messages using (hash)
where conversation_id = $conversation and position < coalesce($before::bigint, position + 1)
order by position
