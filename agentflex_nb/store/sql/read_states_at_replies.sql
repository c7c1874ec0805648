-- The state of some turns as it was saved next after each reply with calls, and the place of that reply in the history. A
-- reply that was lost in a crash gave way to another one of the same step.
with told as (
    select turn_id, sequence, type, step, occurred_at, data
    from events
    where turn_id in (select unnest($turns)) and type in ('MODEL_COMPLETED', 'SNAPSHOT_SAVED')
), replies as (
    select turn_id, step, max(sequence) as sequence, max(occurred_at) as replied_at,
        arg_max((data->>'$.message_position')::bigint, sequence) as position
    from told
    where type = 'MODEL_COMPLETED' and json_array_length(data->'$.tool_calls') > 0
    group by turn_id, step
), saved as (
    select turn_id, sequence, (data->>'$.version')::bigint as version
    from told
    where type = 'SNAPSHOT_SAVED'
)
select replies.turn_id, step, position, epoch_us(replied_at), state
from replies
asof join saved on replies.turn_id = saved.turn_id and replies.sequence < saved.sequence
join snapshots on snapshots.turn_id = saved.turn_id and snapshots.version = saved.version
order by replies.turn_id, step
