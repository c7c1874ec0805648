-- E4, E6: (turn, sequence) is unique and grows with time of arrival; step numbers start once and end once.
select turn_id, sequence, count(*) as times, null as step
from events
group by turn_id, sequence
having count(*) > 1
union all
select turn_id, null, count(*), step
from events
where type in ('STEP_STARTED', 'STEP_COMPLETED')
group by turn_id, step, type
having count(*) > 1
