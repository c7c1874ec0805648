-- I5: a turn that has ended leaves a history that the next user's message can follow: its last word is an assistant's,
-- and asks for nothing.
with last as (
    select turn_id, arg_max(role, position) as role, arg_max(coalesce(json_array_length(tool_calls), 0), position) as calls
    from used_messages
    group by turn_id
)
select turn_id, status, role, calls
from turns
left join last using (turn_id)
where ended_at is not null
    and (role is distinct from 'assistant' or calls > 0)
