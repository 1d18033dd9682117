-- The outbox and its records.

-- name: add_outbox
insert into outbox (tenant_id, channel, address, message_id, topic, subject, body, attributes, created_at)
values (:tenant, :channel, :address, :message_id, :topic, :subject, :body, :attributes, :now)
returning id;

-- name: list_outbox
select *
from outbox
where tenant_id = :tenant
  and (:channel is null or channel = :channel)
  and id < coalesce(:before, 9223372036854775807)
order by id desc
limit :limit;

-- name: clear_outbox
delete from outbox
where tenant_id = :tenant;

-- name: sweep_outbox
delete from outbox
where id in (select id from outbox where created_at < :before order by created_at limit :limit);

-- name: add_record
insert into records (tenant_id, kind, name, handle, attributes, created_at)
values (:tenant, :kind, :name, :handle, :attributes, :now)
on conflict do nothing;

-- name: record_by_name
select *
from records
where tenant_id = :tenant
  and kind = :kind
  and name = :name;

-- name: record_by_handle
select *
from records
where tenant_id = :tenant
  and kind = :kind
  and handle = :handle;

-- name: list_records
select *
from records
where tenant_id = :tenant
  and kind = :kind
  and name >= :prefix
  and substr(name, 1, length(:prefix)) = :prefix
  and name > :after
order by name
limit :limit;

-- name: update_record
update records
set attributes = :attributes, handle = coalesce(:handle, handle)
where tenant_id = :tenant
  and kind = :kind
  and name = :name;

-- name: drop_record
delete from records
where tenant_id = :tenant
  and kind = :kind
  and name = :name;

-- name: drop_records
delete from records
where tenant_id = :tenant
  and kind = :kind
  and name >= :prefix
  and substr(name, 1, length(:prefix)) = :prefix;
