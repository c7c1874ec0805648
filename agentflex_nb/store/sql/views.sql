-- What is asked often, under a name. Made again at every opening: views keep nothing.

-- The log beside its turn, as a reader follows it.
create or replace view timeline as
select turn_id, sequence, occurred_at, type, step, tool_name, tool_call_id, status,
    ms_between(min(occurred_at) over (partition by turn_id), occurred_at) as since_start_ms,
    coalesce(data->>'$.content', data->>'$.message', data->>'$.error.message', data->>'$.reason') as text,
    event_pk
from events;

-- Calls that started and never finished, in turns that run no more or never said so: evidence of a crash, or under way.
create or replace view open_calls as
select turn_id, agent_id, agent_version, 'MODEL' as kind, request_model as name, null as tool_call_id, step, status, started_at
from model_calls
where finished_at is null
union all
select turn_id, agent_id, agent_version, 'TOOL', tool_name, tool_call_id, step, status, started_at
from tool_calls
where started_at is not null and finished_at is null;

-- What waits for an answer, oldest first; under the version that would go on.
create or replace view waits as
select turn_id, conversation_id, turns.agent_id, turns.agent_version, question_id, type, tool_name, message, arguments,
    form_key, schema, asked_at
from suspensions
join turns using (turn_id)
where outcome = 'PENDING'
order by asked_at;

-- The tools of a turn in the order in which the model asked for them.
create or replace view trajectories as
select turn_id, turns.agent_id, turns.agent_version, list(tool_name order by call_index) as tools,
    list(tool_calls.status order by call_index) as statuses, count(*) as calls
from tool_calls
join turns using (turn_id)
group by turn_id, turns.agent_id, turns.agent_version;

-- A call with its result: the text of the message that answers it.
create or replace view tool_results as
select tool_calls.*, messages.content as result_text
from tool_calls
left join messages on messages.role = 'tool' and messages.tool_call_id = tool_calls.tool_call_id;

-- The messages of the turns, each in its place.
create or replace view used_messages as
select turn_id, conversation_id, agent_id, agent_version, position, step, position < attached_count as attached, role, content,
    reasoning, tool_calls, messages.tool_call_id, tool_name, coalesce(origin, '') as origin, provider_data, chars, hash
from turn_messages
join messages using (hash)
left join turns using (turn_id);

-- What was said in a conversation, once, in order, also what belongs to no turn.
create or replace view conversations as
select conversation_id, position, turn_id, role, content, reasoning, tool_calls, tool_call_id, tool_name,
    coalesce(origin, '') as origin, provider_data, chars, hash
from conversation_messages
join messages using (hash);

-- What the agent's own code said of each call that it was asked about, before any person: ALLOW, ASK or DENY, and which of
-- its rules said so. A question about a call whose outcome is unknown is no decision.
create or replace view decisions as
with told as (
    select turn_id, tool_call_id, bool_or(type = 'TOOL_APPROVAL_REQUESTED') as asked,
        bool_or(type in ('TOOL_STARTED', 'EXTERNAL_TOOL_REQUESTED')) as started, arg_min(data, sequence) as data
    from events
    where type in ('TOOL_STARTED', 'EXTERNAL_TOOL_REQUESTED', 'TOOL_DENIED')
        or (type = 'TOOL_APPROVAL_REQUESTED' and (data->>'$.code') is distinct from 'OUTCOME_UNKNOWN')
    group by turn_id, tool_call_id
)
select turn_id, agent_id, agent_version, tool_call_id, call_index, step, tool_name, arguments, requested_at,
    case when asked then 'ASK' when started then 'ALLOW' else 'DENY' end as decision,
    if(asked, approval_outcome, null) as outcome,
    coalesce(data->>'$.rule', data->>'$.metadata.rule') as rule,
    nullif(data->>'$.code', '') as code,
    nullif(data->>'$.message', '') as message,
    nullif(data->>'$.reason', '') as reason
from tool_calls
join told using (turn_id, tool_call_id);
-- Every version of every agent, with how many turns stand under it. A turn that was migrated counts for the version that
-- it was migrated to.
create or replace view agents as
select agent_id, agent_version, name, model,
    coalesce(array_to_string(json_extract_string(tools, '$[*].name'), ', '), '') as tools,
    first_seen_at, fingerprint, coalesce(turns, 0) as turns
from agent_versions
left join (select agent_id, agent_version, count(*) as turns from turns group by all) using (agent_id, agent_version);
