-- The states that the journal saved; each was saved when its SNAPSHOT_SAVED happened.
insert into snapshots
with saved as (
    select turn_id, (data->>'$.version')::bigint as version, max(occurred_at) as saved_at
    from events
    where event_pk > $newest and type = 'SNAPSHOT_SAVED'
    group by all
)
select turn_id, version, state->>'$.status' as status, state->>'$.phase' as phase, saved_at, state
from journal
left join saved using (turn_id, version)
where state is not null
order by journal.id
