-- Samples for charts: what the counters said at the end of each minute, kept for a day, and of each hour, for a month.
-- A name whose values did not change has no row. Locks: rows are inserted and deleted, never updated.

create table penstock.samples (
  tenant_id bigint not null,
  kind text not null check (kind in ('queue', 'job', 'consumer')),
  -- Empty: all of the tenant together.
  name text not null,
  step smallint not null check (step in (1, 60)),
  starts_at timestamptz not null,
  arrived bigint,
  departed bigint,
  waiting bigint not null,
  oldest_s double precision,
  primary key (tenant_id, kind, name, step, starts_at)
);

create index samples_age on penstock.samples (step, starts_at);
