-- Samples for charts: what the counters said at the end of each minute, kept for a day, and of each hour, for a month.
-- A name whose values did not change has no row.

create table samples (
  tenant_id integer not null,
  kind text not null check (kind in ('queue', 'job', 'consumer')),
  -- Empty: all of the tenant together.
  name text not null,
  step integer not null check (step in (1, 60)),
  starts_at integer not null,
  arrived integer,
  departed integer,
  waiting integer not null,
  oldest_s real,
  primary key (tenant_id, kind, name, step, starts_at)
) strict, without rowid;

create index samples_age on samples (step, starts_at);
