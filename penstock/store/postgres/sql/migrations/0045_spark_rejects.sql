-- Rows that a target refused, when a write of Spark asks to keep them and go on.

create table penstock.spark_rejects (
  id bigint generated always as identity primary key,
  tenant_id bigint not null,
  query text not null,
  batch bigint not null,
  target text not null,
  name text,
  reason text not null,
  row jsonb not null,
  rejected_at timestamptz not null default now()
);

-- A problem that a task has found in its row.
alter table penstock.spark_staging add column problem text;

-- These take the rows of one portion now.
drop function if exists penstock.publish_staged_events(bigint[], bigint, text);
drop function if exists penstock.publish_staged_messages(bigint[], bigint, text, timestamptz);
drop function if exists penstock.publish_staged_jobs(bigint[], bigint, text, timestamptz);
