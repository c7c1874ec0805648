-- I2: a call starts once; again only after somebody answered a question about it (a form, an outcome that was unknown), or
-- after it failed and is declared safe to be tried again.
with asked as (
    select turn_id, tool_call_id, count(answered_at) filter (type <> 'RETRY') as answers
    from suspensions
    where tool_call_id is not null
    group by turn_id, tool_call_id
), failed as (
    select turn_id, tool_call_id, count(*) as retries
    from events
    where type = 'TOOL_FAILED' and (data->>'$.retries')::boolean
    group by turn_id, tool_call_id
)
select turn_id, tool_call_id, tool_name, starts, coalesce(answers, 0) as answers, coalesce(retries, 0) as retries
from tool_calls
left join asked using (turn_id, tool_call_id)
left join failed using (turn_id, tool_call_id)
where starts > 1 + coalesce(answers, 0) + coalesce(retries, 0)
