-- From schema 1: a question had the id of the call that it is about, and no time limit. Views stand in the way of changes
-- to their tables; they are made again at every opening.
drop view if exists waits;
alter table suspensions add column tool_call_id varchar;
alter table suspensions add column expires_at timestamptz;
update suspensions set tool_call_id = question_id where tool_name is not null;

-- Nothing was kept of a result beyond its text.
create table kept_results (
    turn_id varchar not null,
    tool_call_id varchar not null,
    media_type varchar not null,
    bytes bigint not null,
    body blob not null
);
