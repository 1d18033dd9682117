-- The server processes of this database.

-- name: node_seen
with forgotten as (
  delete from penstock.nodes as n where n.seen_at < $8
)
insert into penstock.nodes (name, host, process, version, address, started_at, seen_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name) do update
set seen_at = excluded.seen_at;

-- name: list_nodes
select n.name, n.host, n.process, n.version, n.address, n.started_at, n.seen_at
from penstock.nodes as n
order by n.name;

-- name: node_stopped
delete from penstock.nodes as n where n.name = $1;
