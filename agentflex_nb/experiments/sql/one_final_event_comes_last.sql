-- I6: a turn that has ended has one final event, and nothing after it; one that has not ended has none.
with finals as (
    select turn_id, count(*) as finals, max(sequence) as final_at
    from events
    where type in (
        'TURN_COMPLETED', 'TURN_FAILED', 'TURN_CANCELLED', 'MAX_ITERATIONS_REACHED', 'MAX_STEPS_REACHED', 'BUDGET_EXCEEDED'
    )
    group by turn_id
), newest as (
    select turn_id, max(sequence) as newest_at
    from events
    group by turn_id
)
select turn_id, status, finals, final_at, newest_at
from turns
left join finals using (turn_id)
left join newest using (turn_id)
where coalesce(finals, 0) <> if(ended_at is null, 0, 1)
    or final_at <> newest_at
