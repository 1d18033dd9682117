-- The outbox and its records. Nothing here has a rule that a SQL user could break, so these are plain statements.

-- name: add_outbox
insert into penstock.outbox (
  tenant_id, channel, address, message_id, topic, subject, body, attributes, created_at
)
select i.tenant_id, i.channel, i.address, i.message_id, i.topic, i.subject, i.body, i.attributes, $9
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
  with ordinality as i (tenant_id, channel, address, message_id, topic, subject, body, attributes, position)
order by i.position
returning id;

-- name: list_outbox
-- Ends with the item whose contents reach $5 bytes.
select p.*
from (
  select n.*, sum(octet_length(n.body) + coalesce(octet_length(n.attributes::text), 0)) over before as bytes_before
  from (
    select o.*
    from penstock.outbox as o
    where o.tenant_id = $1
      and ($2::text is null or o.channel = $2)
      and o.id < coalesce($3, 9223372036854775807)
    order by o.id desc
    limit $4
  ) as n
  window before as (order by n.id desc rows between unbounded preceding and 1 preceding)
) as p
where coalesce(p.bytes_before, 0) < $5
order by p.id desc;

-- name: clear_outbox
with gone as (delete from penstock.outbox as o where o.tenant_id = $1 returning 1)
select count(*)
from gone;

-- name: sweep_outbox
with gone as (
  delete from penstock.outbox as o
  where o.id = any (
    array(select e.id from penstock.outbox as e where e.created_at < $1 order by e.created_at limit $2)
  )
  returning 1
)
select count(*)
from gone;

-- name: add_record
insert into penstock.records (tenant_id, kind, name, handle, attributes, created_at)
values ($1, $2, $3, $4, $5::jsonb, $6)
on conflict do nothing
returning *;

-- name: record_by_name
select r.* from penstock.records as r where r.tenant_id = $1 and r.kind = $2 and r.name = $3;

-- name: record_by_handle
select r.* from penstock.records as r where r.tenant_id = $1 and r.kind = $2 and r.handle = $3;

-- name: list_records
select r.*
from penstock.records as r
where r.tenant_id = $1
  and r.kind = $2
  and r.name >= $3
  and starts_with(r.name, $3)
  and r.name > $4
order by r.name
limit $5;

-- name: update_record
update penstock.records as r
set attributes = r.attributes || $4::jsonb, handle = coalesce($5, r.handle)
where r.tenant_id = $1
  and r.kind = $2
  and r.name = $3
returning r.*;

-- name: drop_record
with gone as (
  delete from penstock.records as r where r.tenant_id = $1 and r.kind = $2 and r.name = $3 returning 1
)
select count(*)
from gone;

-- name: drop_records
with gone as (
  delete from penstock.records as r
  where r.tenant_id = $1
    and r.kind = $2
    and r.name >= $3
    and starts_with(r.name, $3)
  returning 1
)
select count(*)
from gone;
