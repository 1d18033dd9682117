-- The outbox, and the records of those it is for.
--
-- Text messages, mails and notices to phones are written here instead of being sent. A record is something a client of
-- the SNS door has told us about: a mobile application, a device, a phone number. Nothing else acts upon records.

create table penstock.outbox (
  id bigint generated always as identity primary key,
  tenant_id bigint not null references penstock.tenants,
  channel text not null,
  address text not null,
  message_id text not null,
  topic text,
  subject text,
  body text not null,
  attributes text,
  created_at timestamptz not null
);

create index outbox_list on penstock.outbox (tenant_id, id);
create index outbox_age on penstock.outbox (created_at);

create table penstock.records (
  tenant_id bigint not null references penstock.tenants,
  kind text not null,
  name text not null collate "C",
  handle text,
  attributes jsonb not null,
  created_at timestamptz not null,
  primary key (tenant_id, kind, name)
);

create unique index records_handle on penstock.records (tenant_id, kind, handle) where handle is not null;
