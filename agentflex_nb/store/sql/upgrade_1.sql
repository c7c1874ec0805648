-- From schema 1: a question had the id of the call that it is about, and no time limit. Views stand in the way of changes
-- to their tables; they are made again at every opening.
drop view if exists waits;
drop view if exists used_messages;
alter table suspensions add column tool_call_id varchar;
alter table suspensions add column expires_at timestamptz;
alter table suspensions add column when_expired varchar;
update suspensions set tool_call_id = question_id where tool_name is not null;

-- Fingerprints were made in another way; the next one who registers a version writes today's.
alter table agent_versions add column sources json;
update agent_versions set fingerprint = '';
alter table turns add column migrated_from varchar;
-- Nothing was kept of a result beyond its text.
create table kept_results (
    turn_id varchar not null,
    tool_call_id varchar not null,
    media_type varchar not null,
    bytes bigint not null,
    body blob not null
);
