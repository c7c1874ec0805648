-- Messages by hash.
select * from messages where hash in (select unnest($hashes))
