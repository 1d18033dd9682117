-- Private queues. Every change raises the version and tells the other nodes the number and version of the record,
-- never an id: a listener learns nothing about who may use the queue.

-- name: create_private_queues
insert into penstock.private_queues (recipient_id, sender_id, recipient_keys, sender_key, created_at, touched_at)
select u.recipient_id, u.sender_id, array[u.recipient_key], u.sender_key, $5, $5
from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) as u (recipient_id, sender_id, recipient_key, sender_key)
on conflict do nothing
returning *;

-- name: find_private_recipients
select * from penstock.private_records where recipient_id = any ($1::bytea[]);

-- name: find_private_senders
select * from penstock.private_records where sender_id = any ($1::bytea[]);

-- name: find_private_notifiers
select * from penstock.private_records where notifier_id is not null and notifier_id = any ($1::bytea[]);

-- name: find_private_links
select * from penstock.private_records where link_id is not null and link_id = any ($1::bytea[]);

-- name: get_private_queue
select * from penstock.private_records where id = $1;

-- name: secure_private_queue
with changed as (
  update penstock.private_queues
  set sender_key = $2, version = version + 1
  where id = $1 and deleted_at is null and sender_key is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: set_private_notifier
with changed as (
  update penstock.private_queues
  set notifier_id = $2, notifier_key = $3, webhook_key = null, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: set_private_webhook
with changed as (
  update penstock.private_queues
  set webhook_key = $2, version = version + 1
  where id = $1 and deleted_at is null and notifier_id is not null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: set_private_link
with changed as (
  update penstock.private_queues
  set link_id = $2, fixed_data = $3, mutable_data = $4, version = version + 1
  where id = $1
    and deleted_at is null
    and (link_id is null or link_id = $2)
    and (fixed_data is null or fixed_data = $3)
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: clear_private_link
with changed as (
  update penstock.private_queues
  set link_id = null, fixed_data = null, mutable_data = null, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: private_link_data
select fixed_data, mutable_data
from penstock.private_queues
where link_id is not null and link_id = $1 and deleted_at is null and status <> 'blocked';

-- name: set_private_status
with changed as (
  update penstock.private_queues
  set status = $2, block_reason = $3, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: set_private_recipient_keys
with changed as (
  update penstock.private_queues
  set recipient_keys = $2, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: touch_private_queues
with touched as (
  update penstock.private_queues set touched_at = $2 where id = any ($1::bigint[]) and deleted_at is null returning 1
)
select count(*) from touched;

-- name: delete_private_queue
with changed as (
  update penstock.private_queues
  set deleted_at = $2, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: compact_private_queues
delete from penstock.private_queues
where id = any (
  array(
    select q.id
    from penstock.private_queues as q
    where q.deleted_at is not null and q.deleted_at < $1
    order by q.deleted_at
    limit $2
    for update skip locked
  )
)
returning id;

-- name: make_private_service
insert into penstock.private_services (fingerprint, created_at) values ($1, $2) on conflict (fingerprint) do nothing;

-- name: find_private_service
select id from penstock.private_services where fingerprint = $1;

-- name: associate_private_queue
with changed as (
  update penstock.private_queues
  set service_id = $2, version = version + 1
  where id = $1 and deleted_at is null
  returning *
)
select c.*, pg_notify('penstock_private', c.id || ' ' || c.version) from changed as c;

-- name: private_service_summary
select
  s.id,
  count(q.id) as queues,
  coalesce(bit_xor(('x' || encode(substr(sha256(q.recipient_id), 1, 8), 'hex'))::bit(64)::bigint), 0) as low,
  coalesce(bit_xor(('x' || encode(substr(sha256(q.recipient_id), 9, 8), 'hex'))::bit(64)::bigint), 0) as high
from penstock.private_services as s
left join penstock.private_queues as q on q.service_id = s.id and q.deleted_at is null
where s.id = $1
group by s.id;

-- name: count_private_queues
select
  count(*) filter (where deleted_at is null) as queues,
  count(sender_key) filter (where deleted_at is null) as secured,
  count(notifier_id) filter (where deleted_at is null) as notifiers,
  count(link_id) filter (where deleted_at is null) as links,
  (select count(*) from penstock.private_services) as services,
  count(*) filter (where deleted_at is not null) as deleted
from penstock.private_queues;

-- name: next_private_queues
select * from penstock.private_records where id > $1 order by id limit $2;
