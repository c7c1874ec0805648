-- I2: a call starts once; again only after somebody answered a question about it (a form, an outcome that was unknown).
with asked as (
    select turn_id, question_id as tool_call_id, count(answered_at) as answers
    from suspensions
    group by turn_id, question_id
)
select turn_id, tool_call_id, tool_name, starts, coalesce(answers, 0) as answers
from tool_calls
left join asked using (turn_id, tool_call_id)
where starts > 1 + coalesce(answers, 0)
