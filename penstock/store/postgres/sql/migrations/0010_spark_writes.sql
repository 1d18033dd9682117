-- Writes of Spark, cheaper and safe to ask for again.

-- Attempts are numbers, and their rows come by the index in the order in which they are published. What is staged at the
-- moment belongs to writes that fail now, and that Spark repeats.
drop table penstock.spark_staging;

create unlogged table penstock.spark_staging (
  attempt bigint not null,
  position bigint not null,
  staged_at timestamptz not null default now(),
  name text,
  type text,
  key text,
  value text,
  headers text,
  deliver_at timestamptz,
  priority integer,
  dedup_id text
);

create index spark_staging_attempt on penstock.spark_staging (attempt, position);

-- A write that is no batch of a query has a row for itself, for a day.
alter table penstock.spark_ledger add column once boolean not null default false;

-- Their attempts were texts.
drop function if exists penstock.publish_staged(text, bigint, text[], bigint, text, text, text, timestamptz);
drop function if exists penstock.staged_portions(text[], text);
drop function if exists penstock.publish_staged_events(text[], text);
drop function if exists penstock.publish_staged_messages(text[], bigint, text, timestamptz);
drop function if exists penstock.publish_staged_jobs(text[], bigint, text, timestamptz);
