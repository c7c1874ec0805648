-- Version 2: answers stand in rows of their own, written once: in the state they would be written with every commit.
create table turn_answers(
    turn_id text not null,
    position integer not null,
    body text not null,
    primary key(turn_id, position)
) without rowid;
