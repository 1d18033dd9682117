-- Runs of Spark's pipelines: a row each, which the run itself keeps up to date.

create table penstock.pipeline_runs (
  id bigint generated always as identity primary key,
  tenant_id bigint not null references penstock.tenants,
  pipeline text not null,
  settings jsonb not null,
  -- A run that was killed stays running here; who reads it calls it lost once it was not seen for a while.
  state text not null check (state in ('running', 'done', 'failed', 'stopped')),
  started_at timestamptz not null,
  seen_at timestamptz not null,
  finished_at timestamptz,
  rows bigint not null default 0,
  batches bigint not null default 0,
  lag_events bigint,
  lag_s double precision,
  note text,
  error text,
  progress jsonb
);

create index pipeline_runs_tenant on penstock.pipeline_runs (tenant_id, id);
