-- Version 2: answers stand in rows of their own, written once: in the state they would be written with every commit.
create table turn_answers(
    turn_id text not null,
    position integer not null,
    body text not null,
    primary key(turn_id, position)
) without rowid;

-- The whole value that a tool returned, where the model was shown less. Bytes, so that a table is not made text.
create table kept_results(
    tool_call_id text primary key,
    journal integer not null,             -- the row that was written with it
    turn_id text not null,
    media_type text not null,
    body blob not null
) without rowid;
create index kept_results_in_order on kept_results(journal);
