-- Messages that the archive does not have yet, taken apart.
insert into messages
with new as (
    select hash, any_value(body) as body
    from (select hash::uuid as hash, body from live_messages)
    anti join messages using (hash)
    group by hash
), read as (
    select hash, body, json_transform(body, '{
        "role": "VARCHAR", "content": "VARCHAR", "reasoning": "VARCHAR", "tool_calls": "JSON", "tool_call_id": "VARCHAR",
        "tool_name": "VARCHAR", "origin": "VARCHAR", "provider_data": "JSON", "kind": "VARCHAR"
    }') as message
    from new
)
select
    hash,
    message.role,
    coalesce(message.content, '') as content,
    message.reasoning,
    message.tool_calls,
    message.tool_call_id,
    message.tool_name,
    message.origin,
    message.provider_data,
    length(coalesce(message.content, '')) as chars,
    case when message.kind is not null then body end as body
from read
