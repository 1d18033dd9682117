-- Outcomes for charts: what succeeded and what failed in each minute, kept for a day, and in each hour, for a month. Nodes
-- add up what they saw, once a minute. Locks: rows in the order of the primary key.

create table penstock.outcomes (
  tenant_id bigint not null,
  kind text not null check (kind in ('job', 'delivery', 'schedule')),
  step smallint not null check (step in (1, 60)),
  starts_at timestamptz not null,
  good bigint not null,
  bad bigint not null,
  primary key (tenant_id, kind, step, starts_at)
);

create index outcomes_age on penstock.outcomes (step, starts_at);

-- Server processes. Each writes its row every few seconds; a crash may forget them.
create unlogged table penstock.nodes (
  name text primary key,
  host text not null,
  process integer not null,
  version text not null,
  address text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null
);
