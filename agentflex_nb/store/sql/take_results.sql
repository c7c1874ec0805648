-- The whole values that tools returned.
insert into kept_results
select turn_id, tool_call_id, media_type, octet_length(body), body
from live_results
