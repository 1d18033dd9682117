-- The outbox, and the records of those it is for. The same as on PostgreSQL.

create table outbox (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  channel text not null,
  address text not null,
  message_id text not null,
  topic text,
  subject text,
  body text not null,
  attributes text,
  created_at integer not null
) strict;

create index outbox_list on outbox (tenant_id, id);
create index outbox_age on outbox (created_at);

create table records (
  tenant_id integer not null references tenants (id),
  kind text not null,
  name text not null,
  handle text,
  attributes text not null,
  created_at integer not null,
  primary key (tenant_id, kind, name)
) strict, without rowid;

create unique index records_handle on records (tenant_id, kind, handle) where handle is not null;
