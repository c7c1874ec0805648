-- I3: when nothing runs, every turn has ended, waits, or stands ready.
select turn_id, status, updated_at
from turns
where status = 'RUNNING'
