-- Schedules: a row each. The times in it come from the server, which knows time zones; the database only compares.
--
-- Lock order: schedules (by skip locked, so nobody waits for one), then what a send locks.

create table penstock.schedules (
  id bigint generated always as identity primary key,
  tenant_id bigint not null references penstock.tenants,
  name text not null,
  status text not null,
  target_kind text not null,
  target text not null,
  shape text not null,
  given text not null,
  kind text not null,
  expression text not null,
  timezone text not null,
  anchor timestamptz not null,
  body text not null,
  is_json boolean not null,
  headers text,
  delay_s integer,
  priority integer,
  group_id text,
  catchup boolean not null,
  catchup_limit integer not null,
  jitter_s integer not null,
  failure_threshold integer not null,
  -- The next fire by the timetable, and when it is to happen: later by its jitter, or by the wait after a failure.
  next_fire_at timestamptz not null,
  due_at timestamptz not null,
  last_fire_at timestamptz,
  fires bigint not null default 0,
  consecutive_failures integer not null default 0,
  last_error text,
  revision bigint not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (tenant_id, name)
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index schedules_due on penstock.schedules (due_at, id) where status = 'active';
