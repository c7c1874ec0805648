-- A question, from the TURN_SUSPENDED that asked it first to the TURN_RESUMED that answered it. A partial answer suspends
-- the turn again with the questions that are left: those are the same ones. After its answer, a question is a new one.
insert into suspensions by name
with told as (
    select turn_id, agent_id, agent_version, sequence, type, occurred_at, data
    from events
    semi join touched using (turn_id)
    where event_pk >= $oldest and type in (
        'TURN_SUSPENDED', 'TURN_RESUMED', 'TURN_COMPLETED', 'TURN_FAILED', 'TURN_CANCELLED', 'MAX_ITERATIONS_REACHED',
        'MAX_STEPS_REACHED', 'BUDGET_EXCEEDED'
    )
), ended as (
    select turn_id, max(occurred_at) as ended_at
    from told
    where type not in ('TURN_SUSPENDED', 'TURN_RESUMED')
    group by turn_id
), listed as (
    select turn_id, agent_id, agent_version, sequence, occurred_at, unnest(json_transform(data, '{"questions": [{
        "id": "VARCHAR", "type": "VARCHAR", "tool_name": "VARCHAR", "message": "VARCHAR", "code": "VARCHAR",
        "reason": "VARCHAR", "arguments": "JSON", "form_key": "VARCHAR", "schema": "JSON", "metadata": "JSON",
        "call_id": "VARCHAR", "expires_at": "TIMESTAMPTZ", "when_expired": "VARCHAR"
    }]}').questions) as question, (data->>'$.next_runnable_at')::timestamptz as due_at
    from told
    where type = 'TURN_SUSPENDED'
), answers as (
    select turn_id, agent_id, agent_version, sequence, occurred_at, json_transform(data, '{
        "correlation_id": "VARCHAR", "command_type": "VARCHAR", "reason": "VARCHAR", "data": "JSON", "metadata": "JSON",
        "resolved": ["VARCHAR"]
    }') as answer
    from told
    where type = 'TURN_RESUMED'
), talk as (
    select turn_id, agent_id, agent_version, sequence, occurred_at, question.id as question_id, question, due_at,
        null as answer
    from listed
    union all by name
    select turn_id, agent_id, agent_version, sequence, occurred_at,
        unnest(coalesce(answer.resolved, [answer.correlation_id])) as question_id, answer
    from answers
), numbered as (
    select *, 1 + count(answer) over (
        partition by turn_id, question_id order by sequence rows between unbounded preceding and 1 preceding
    ) as asking
    from talk
), asked as (
    select turn_id, question_id, asking,
        arg_min({'id': agent_id, 'version': agent_version}, sequence) filter (question is not null) as agent,
        arg_min(question, sequence) filter (question is not null) as question,
        min(due_at) as due_at,
        min(sequence) as sequence,
        min(occurred_at) filter (question is not null) as asked_at,
        max(occurred_at) filter (answer is not null) as answered_at,
        any_value(answer) as answer
    from numbered
    group by turn_id, question_id, asking
    having question is not null
)
select
    turn_id, agent.id as agent_id, agent.version as agent_version, question_id, asking,
    question.type as type, nullif(question.tool_name, '') as tool_name, question.message as message,
    nullif(question.code, '') as code, nullif(question.reason, '') as reason,
    question.arguments as arguments, nullif(question.form_key, '') as form_key, if(question.schema = 'null', null, question.schema) as schema,
    if(question.call_id = '' or question.call_id is null, if(question.tool_name = '', null, question_id), question.call_id)
        as tool_call_id,
    coalesce(question.expires_at, due_at) as expires_at, nullif(question.when_expired, '') as when_expired,
    asked_at, answered_at,
    ms_between(asked_at, coalesce(answered_at, ended_at)) as waited_ms,
    case answer.command_type
        when 'APPROVE_TOOL' then 'APPROVED'
        when 'REJECT_TOOL' then 'REJECTED'
        when 'USER_INPUT' then if(question.form_key = '', 'ANSWERED', 'SUBMITTED')
        when 'DECLINE' then 'DECLINED'
        when 'EXTERNAL_RESULT' then 'SUPPLIED'
        when 'RETRY' then 'RETRIED'
        when 'CONTINUE' then 'CONTINUED'
        when 'EXPIRED' then 'EXPIRED'
        when 'INTERRUPT' then 'INTERRUPTED'
        else if(ended_at is null, 'PENDING', 'CANCELLED')
    end as outcome,
    answer.metadata->>'$.by' as answered_by,
    nullif(answer.reason, '') as answer_reason,
    if(answer.data = 'null', null, answer.data) as response,
    question.metadata as metadata,
    answer.metadata as answer_metadata
from asked
left join ended using (turn_id)
order by turn_id, sequence
