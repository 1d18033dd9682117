-- Notes that tasks leave for the process that holds their snapshot open.

-- name: note_read
insert into penstock.spark_pieces (read_id, piece, noted_at) values ($1, $2, clock_timestamp())
on conflict (read_id, piece) do update set noted_at = excluded.noted_at;

-- name: claim_snapshot
-- The batch that used the snapshot first, which may be this one. A row of its own, with the number -1.
insert into penstock.spark_pieces as p (read_id, piece, noted_at, batch) values ($1, -1, clock_timestamp(), $2)
on conflict (read_id, piece) do update set batch = p.batch
returning batch;

-- name: last_note
select max(p.noted_at)::text from penstock.spark_pieces as p where p.read_id = $1 and p.piece >= 0;

-- name: delete_notes
delete from penstock.spark_pieces where read_id = $1;

-- name: is_locked
select true
from pg_locks as l
where l.locktype = 'advisory'
  and l.objsubid = 1
  and (l.classid::bigint << 32 | l.objid::bigint) = $1
limit 1;
