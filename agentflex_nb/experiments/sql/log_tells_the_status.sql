-- I7: the newest event has the turn's status, and only a running turn asked for work.
with told as (
    select turn_id, arg_max(status, sequence) as told_status,
        count(*) filter (type in ('MODEL_STARTED', 'TOOL_STARTED') and status <> 'RUNNING') as work_while_not_running
    from events
    group by turn_id
)
select turn_id, status, told_status, work_while_not_running
from turns
left join told using (turn_id)
where status is distinct from told_status
    or work_while_not_running > 0
