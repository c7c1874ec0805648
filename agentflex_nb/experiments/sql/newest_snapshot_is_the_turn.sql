-- I4: a turn stands as its newest snapshot says, and versions count from 0 without a gap.
with newest as (
    select turn_id, max(version) as version, count(*) as saved,
        arg_max(status, version) as status, arg_max(phase, version) as phase
    from snapshots
    group by turn_id
)
select turn_id, turns.version, turns.status, turns.phase, newest.version as saved_version, newest.status as saved_status,
    newest.phase as saved_phase, saved
from turns
left join newest using (turn_id)
where (turns.version, turns.status, turns.phase) is distinct from (newest.version, newest.status, newest.phase)
    or saved <> newest.version + 1
