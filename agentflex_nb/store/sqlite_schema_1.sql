-- The record of live turns, version 1. Times are microseconds since 1970 in UTC; texts are those of codec.py.
--
-- Ids grow in the order of commits and are never used twice, so a reader goes on with `id > cursor`. Rows with an id
-- below zero came back from an archive (import_turn): no cursor ever reaches them.

create table meta(key text primary key, value text not null) without rowid;
insert into meta values ('record_id', lower(hex(randomblob(16))));

-- One row a turn: where it stands. Small, because it is written anew with every change.
create table heads(
    turn_id text primary key,
    version integer not null,
    status text not null,
    ended integer not null,               -- 1 for a final status
    conversation_id text,
    agent_id text not null,
    agent_version text not null,
    message_count integer not null,
    reserved integer not null,            -- sequence numbers set aside
    logged integer not null,              -- the highest sequence number in the log
    cancel_requested integer not null,    -- goes up once, never down
    created_at integer not null,
    changed integer not null,             -- the journal row of the last change of this head
    saved integer not null,               -- the journal row that holds the newest state
    instructions text                     -- hash of a message
);
create index open_heads on heads(conversation_id) where ended = 0 and conversation_id is not null;

-- One row a change of a head: its events, and after a commit the state that they led to. A turn's log is found by going
-- back from row to row; an index would be one more page to write with every commit.
create table journal(
    id integer primary key autoincrement,
    turn_id text not null,
    version integer,
    previous integer,                     -- the row of the turn's change before
    last_sequence integer not null,       -- of these events and all before them
    state text,
    events text not null
);

-- Every message, and every rendered instruction, once.
create table messages(id integer primary key autoincrement, hash text not null unique, body text not null);

create table turn_messages(
    id integer primary key autoincrement,
    turn_id text not null,
    position integer not null,
    hash text not null,
    step integer not null,                -- the step that had begun when the message was saved
    unique(turn_id, position)
);

-- How many messages a conversation has, those included that lie in an archive.
create table conversations(conversation_id text primary key, length integer not null) without rowid;

-- What was said in a conversation; the first message of it has position 0, wherever that lies.
create table conversation_messages(
    id integer primary key autoincrement,
    conversation_id text not null,
    position integer not null,
    turn_id text,
    hash text not null,
    unique(conversation_id, position)
);
