-- Schedules: a row each. The times come from the server, which knows time zones; the store only compares.

create table schedules (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  name text not null,
  status text not null,
  target_kind text not null,
  target text not null,
  shape text not null,
  given text not null,
  kind text not null,
  expression text not null,
  timezone text not null,
  anchor integer not null,
  body text not null,
  json integer not null,
  headers text,
  delay_s integer,
  priority integer,
  group_id text,
  catchup integer not null,
  catchup_limit integer not null,
  jitter_s integer not null,
  failure_threshold integer not null,
  -- The next fire by the timetable, and when it is to happen: later by its jitter, or by the wait after a failure.
  next_fire_at integer not null,
  due_at integer not null,
  last_fire_at integer,
  fires integer not null default 0,
  consecutive_failures integer not null default 0,
  last_error text,
  revision integer not null default 1,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name)
) strict;

create index schedules_due on schedules (due_at, id) where status = 'active';
