-- What must not be there. Each question returns the rows that break its sentence; `heard` holds every event that a
-- listener was told (pid, turn_id, sequence, type, version), `effects` the idempotency keys of what was done outside.

-- name: an acknowledged version is among the saved states
select turn_id, version from heard anti join snapshots using (turn_id, version) where type = 'SNAPSHOT_SAVED';

-- name: whatever a process heard up to an acknowledged commit of its own is in the log, under its number
select heard.* from heard
join (
    select pid, turn_id, max(sequence) as committed from heard where type = 'SNAPSHOT_SAVED' group by all
) using (pid, turn_id)
anti join events using (turn_id, sequence, type)
where sequence <= committed;

-- name: a number that was heard stands for no other event
select turn_id, sequence, heard.type, events.type from heard join events using (turn_id, sequence)
where heard.type <> events.type;

-- name: a number is used once
select turn_id, sequence from events group by all having count(*) > 1;

-- name: numbers grow in the order in which events were stored
select turn_id, sequence, before from (
    select turn_id, sequence, lag(sequence) over (partition by turn_id order by event_pk) as before from events
) where sequence <= before;

-- name: I1 each call has one result, after its message and in call order
with asked as (
    select turn_id, position + unnest(range(1, 1 + len(ids))) as position, unnest(ids) as call_id from (
        select turn_id, position, json_extract_string(tool_calls, '$[*].id') as ids
        from turn_messages join messages using (hash) where role = 'assistant' and tool_calls is not null
    )
), answered as (
    select turn_id, position, tool_call_id as call_id from turn_messages join messages using (hash) where role = 'tool'
)
select * from asked full join answered using (turn_id, position)
where asked.call_id is distinct from answered.call_id;

-- name: I2 nothing took effect twice
select key from effects group by all having count(*) > 1;

-- name: I2 nothing took effect that is not known to have started
select key from effects anti join (
    select turn_id || ':' || tool_call_id as key from events where type = 'TOOL_STARTED'
) using (key);

-- name: I3 nothing is left unfinished
select turn_id, status from turns where status <> 'COMPLETED';

-- name: I4 the newest saved state is the turn
select turn_id, turns.version, turns.status, newest.version, newest.status
from turns left join (
    select turn_id, max(version) as version, arg_max(status, version) as status from snapshots group by all
) newest using (turn_id)
where turns.version is distinct from newest.version or turns.status is distinct from newest.status;

-- name: I6 a turn ends once, and takes no step afterwards
select turn_id, ends, after_end from (
    select turn_id, count(*) filter (type = 'TURN_COMPLETED') as ends,
        count(*) filter (type <> 'SNAPSHOT_SAVED' and sequence > ended) as after_end
    from events join (
        select turn_id, min(sequence) as ended from events where type = 'TURN_COMPLETED' group by all
    ) using (turn_id) group by all
) where ends <> 1 or after_end > 0;

-- name: I7 the log alone tells the status
select turn_id, status, told from turns left join (
    select turn_id, arg_max(status, sequence) as told from events group by all
) using (turn_id) where status is distinct from told;

-- name: every turn of the log is a row, once, and knows its events
select turn_id, event_count, counted, rows from (
    select turn_id, count(*) as counted from events group by all
) full join (
    select turn_id, count(*) as rows, any_value(event_count) as event_count from turns group by all
) using (turn_id) where event_count is distinct from counted or rows is distinct from 1;

-- name: no call, request or question of a finished turn is open
select turn_id, tool_call_id as what, status from tool_calls
where status not in ('COMPLETED', 'DENIED')
    and not (status = 'NOT_RUN' and tool_call_id not in ( -- of a reply that was logged, and lost before it was saved
        select unnest(json_extract_string(tool_calls, '$[*].id')) from messages where tool_calls is not null
    ))
union all select turn_id, 'model call ' || call_index, status from model_calls where status = 'STARTED'
union all select turn_id, question_id, outcome from suspensions where outcome = 'PENDING';

-- name: each row is folded once
select 'snapshots' as what, turn_id, version as at from snapshots group by all having count(*) > 1
union all select 'turn_messages', turn_id, position from turn_messages group by all having count(*) > 1
union all select 'messages', hash, 0 from messages group by all having count(*) > 1
union all select 'conversation_messages', conversation_id, position from conversation_messages group by all having count(*) > 1
union all select 'tool_calls', turn_id, call_index from tool_calls group by all having count(*) > 1
union all select 'model_calls', turn_id, call_index from model_calls group by all having count(*) > 1
union all select 'steps', turn_id, step from steps group by all having count(*) > 1;

-- name: every message that a turn or a conversation points at is there, and positions have no gap
select turn_id, hash from turn_messages anti join messages using (hash)
union all select conversation_id, hash from conversation_messages anti join messages using (hash)
union all select turn_id, 'gap' from turn_messages group by all having max(position) <> count(*) - 1
union all select conversation_id, 'gap' from conversation_messages group by all having max(position) <> count(*) - 1;
