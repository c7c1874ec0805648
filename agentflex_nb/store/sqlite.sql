-- The statements of SqliteStore, each under its name.

-- name: version
select version, ended, changed, logged from heads where turn_id = ?

-- name: message_count
select message_count from heads where turn_id = ? and version = ?

-- name: active_turns
select turn_id from heads where conversation_id = ? and ended = 0 order by created_at, rowid

-- name: log
insert into journal(turn_id, version, previous, last_sequence, state, events) values (?, ?, ?, ?, ?, ?)

-- name: open_head
insert into heads(turn_id, version, status, ended, conversation_id, agent_id, agent_version, message_count, reserved,
                  logged, cancel_requested, created_at, changed, saved, instructions)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: move_head
update heads
set version = ?, status = ?, ended = ?, message_count = ?, reserved = max(reserved, ?), logged = ?, changed = ?, saved = ?
where turn_id = ?

-- name: migrate_head
update heads set agent_version = ?, instructions = ? where turn_id = ?

-- name: log_head
update heads set reserved = max(reserved, ?), logged = ?, changed = ? where turn_id = ?

-- name: cancel_requested
select cancel_requested, changed, logged from heads where turn_id = ?

-- name: raise_cancel
update heads set cancel_requested = 1, changed = ? where turn_id = ?

-- name: keep_message
insert into messages(hash, body) values (?, ?) on conflict(hash) do nothing

-- name: add_turn_message
insert into turn_messages(turn_id, position, hash, step) values (?, ?, ?, ?)

-- name: add_answer
insert into turn_answers values (?, ?, ?)

-- name: keep_result
insert or replace into kept_results values (?, ?, ?, ?, ?)

-- name: result
select media_type, body from kept_results where tool_call_id = ?

-- name: answer_count
select count(*) from turn_answers where turn_id = ?

-- name: answers
select body from turn_answers where turn_id = ? order by position

-- name: length
select length from conversations where conversation_id = ?

-- name: lengthen
insert into conversations values (?1, ?2 + ?3)
on conflict(conversation_id) do update set length = length + ?3

-- name: project
insert into conversation_messages(conversation_id, position, turn_id, hash)
select ?1, ?2 + position - ?4, turn_id, hash from turn_messages
where turn_id = ?3 and position >= ?4 order by position

-- name: remember
insert into conversation_messages(conversation_id, position, turn_id, hash) values (?, ?, null, ?)

-- name: head
select heads.turn_id, state, message_count, cancel_requested, reserved, logged, body
from heads join journal on journal.id = saved left join messages on hash = instructions
where heads.turn_id = ?

-- name: find
select heads.turn_id, state, message_count, cancel_requested, reserved, logged, body
from heads join journal on journal.id = saved left join messages on hash = instructions
where status in (select value from json_each(?)) order by created_at, heads.rowid

-- name: turn_messages
select body from turn_messages join messages using (hash) where turn_id = ? order by position

-- name: events
with recursive back(id) as (
    select changed from heads where turn_id = ?1
    union all
    select previous from back join journal using (id) where last_sequence > ?2
)
select events from back join journal using (id) where last_sequence > ?2 order by id

-- name: conversation
select position, turn_id, body
from conversation_messages join messages using (hash) where conversation_id = ? order by position

-- name: record_id
select value from meta where key = 'record_id'

-- name: reach
select coalesce((select cast(value as integer) from meta where key = 'forgotten'), 0),
       coalesce((select seq from sqlite_sequence where name = 'journal'), 0)

-- name: note_forgotten
insert or replace into meta values ('forgotten', ?)

-- name: messages_after
select id, hash, body from messages where id > ? order by id limit ?

-- name: turn_messages_after
select id, turn_id, position, hash, step from turn_messages where id > ? order by id limit ?

-- name: conversation_messages_after
select id, conversation_id, position, turn_id, hash from conversation_messages where id > ? order by id limit ?

-- name: journal_after
select id, turn_id, version, state, events from journal where id > ? order by id limit ?

-- name: results_of
select tool_call_id, turn_id, media_type, body from kept_results where journal > ?1 and journal <= ?2 order by journal

-- name: heads_of
select heads.turn_id, heads.version, status, conversation_id, agent_id, agent_version, state, message_count, reserved,
       logged, cancel_requested, created_at, changed
from heads join journal on journal.id = saved
where heads.turn_id in (select turn_id from journal where id > ?1 and id <= ?2) and changed <= ?2
order by changed

-- name: forget_turn_messages
delete from turn_messages where id <= ?3 and turn_id in (
    select turn_id from journal join heads using (turn_id) where id > ?1 and id <= ?2 and ended = 1 and changed <= ?2
)

-- name: forget_answers
delete from turn_answers where turn_id in (
    select turn_id from journal join heads using (turn_id) where id > ?1 and id <= ?2 and ended = 1 and changed <= ?2
)

-- name: forget_results
delete from kept_results where journal <= ?

-- name: forget_heads
delete from heads
where ended = 1 and changed <= ?2 and turn_id in (select turn_id from journal where id > ?1 and id <= ?2)

-- name: forget_journal
delete from journal where id <= ? and id not in (select saved from heads)

-- name: forget_conversations
delete from conversation_messages where id <= ?

-- name: forget_messages
delete from messages where id <= ?
and hash not in (select hash from turn_messages)
and hash not in (select hash from conversation_messages)
and hash not in (select instructions from heads where instructions is not null)

-- name: count_messages
select count(*) from messages

-- name: import_state
insert into journal(id, turn_id, version, last_sequence, state, events)
values ((select min(coalesce(min(id), 0), 0) - 1 from journal), ?, ?, 0, ?, '[]')

-- name: import_message
insert into messages(id, hash, body) values ((select min(coalesce(min(id), 0), 0) - 1 from messages), ?, ?)
on conflict(hash) do nothing

-- name: import_turn_message
insert into turn_messages(id, turn_id, position, hash, step)
values ((select min(coalesce(min(id), 0), 0) - 1 from turn_messages), ?, ?, ?, ?)
