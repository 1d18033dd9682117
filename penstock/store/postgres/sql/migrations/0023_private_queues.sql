-- Private queues: records addressed by 24-byte ids, one for each party.
--
-- Messages are in ordinary queues of the tenant '@private', named by the record's number: nothing but this table
-- leads from one party's id to another's. Locks: a change locks one record and nothing else.

insert into penstock.tenants (name) values ('@private') on conflict (name) do nothing;

create table penstock.private_services (
  id bigint generated always as identity primary key,
  fingerprint bytea not null unique check (octet_length(fingerprint) = 32),
  created_at timestamptz not null
);

create table penstock.private_queues (
  id bigint generated always as identity primary key,
  version bigint not null default 1,
  recipient_id bytea not null check (octet_length(recipient_id) = 24),
  sender_id bytea not null check (octet_length(sender_id) = 24),
  notifier_id bytea check (octet_length(notifier_id) = 24),
  link_id bytea check (octet_length(link_id) = 24),
  recipient_keys bytea[] not null check (cardinality(recipient_keys) between 1 and 8),
  sender_key bytea check (octet_length(sender_key) = 32),
  notifier_key bytea check (octet_length(notifier_key) = 32),
  status text not null default 'active' check (status in ('active', 'suspended', 'blocked')),
  block_reason text,
  -- Set once; only the removal of the whole link empties it.
  fixed_data bytea,
  mutable_data bytea,
  webhook_key text,
  service_id bigint references penstock.private_services,
  created_at timestamptz not null,
  touched_at timestamptz not null,
  deleted_at timestamptz
);

create unique index private_queues_recipient on penstock.private_queues (recipient_id);
create unique index private_queues_sender on penstock.private_queues (sender_id);
create unique index private_queues_notifier on penstock.private_queues (notifier_id) where notifier_id is not null;
create unique index private_queues_link on penstock.private_queues (link_id) where link_id is not null;
create index private_queues_service on penstock.private_queues (service_id)
  where service_id is not null and deleted_at is null;
create index private_queues_deleted on penstock.private_queues (deleted_at) where deleted_at is not null;

-- What is looked up and cached: no deleted records, and no link data, which may be large.
create view penstock.private_records as
select
  id,
  version,
  recipient_id,
  sender_id,
  notifier_id,
  link_id,
  recipient_keys,
  sender_key,
  notifier_key,
  status,
  block_reason,
  webhook_key,
  service_id,
  created_at,
  touched_at
from penstock.private_queues
where deleted_at is null;
