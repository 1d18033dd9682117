-- What the pipeline insights found out: numbers per hour and per day, and why things failed.
--
-- It writes whole values, so writing again changes nothing. It alone writes here, and nobody waits for it: no locks to
-- order.

create table penstock.rollups (
  tenant_id bigint not null references penstock.tenants,
  step text not null check (step in ('hour', 'day')),
  starts_at timestamptz not null,
  kind text not null check (kind in ('queue', 'job', 'stream', 'delivery')),
  name text not null,
  sent bigint not null,
  done bigint not null,
  retried bigint not null,
  failed bigint not null,
  dead bigint not null,
  -- Null where there is nothing to divide by.
  retry_rate double precision,
  dead_rate double precision,
  per_second double precision not null,
  -- Seconds from the sending to the end; null where nothing ended.
  p50_s double precision,
  p95_s double precision,
  p99_s double precision,
  max_s double precision,
  recorded_at timestamptz not null,
  primary key (tenant_id, step, starts_at, kind, name)
);

create index rollups_age on penstock.rollups (step, starts_at);

-- Errors of an hour by their shape: the text without what differs from case to case.
create table penstock.rollup_errors (
  tenant_id bigint not null references penstock.tenants,
  starts_at timestamptz not null,
  kind text not null,
  name text not null,
  shape text not null,
  count bigint not null,
  example text not null,
  recorded_at timestamptz not null,
  primary key (tenant_id, starts_at, kind, name, shape)
);

create index rollup_errors_age on penstock.rollup_errors (starts_at);

-- A run reads what happened since the last one. These tables grow at their ends, so a summary of each stretch will do.
create index archive_moments on penstock.archive using brin (archived_at) with (autosummarize = on);
create index deliveries_created on penstock.deliveries using brin (created_at) with (autosummarize = on);
create index deliveries_exhausted on penstock.deliveries (finished_at) where state = 3;
