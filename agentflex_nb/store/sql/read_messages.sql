-- Messages by hash.
select replace(hash::varchar, '-', '') as hash, messages.* exclude (hash)
from messages
where hash in (select unnest($hashes)::uuid)
