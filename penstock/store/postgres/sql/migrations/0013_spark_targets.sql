-- What Spark has written is known by its place too: a query may write one batch to several.

-- A row of before, without a place, stands for all of them.
alter table penstock.spark_ledger
  add column tenant_id bigint not null default 0,
  add column target text not null default '',
  add column name text not null default '',
  add column duplicates bigint not null default 0,
  drop constraint spark_ledger_pkey,
  add primary key (query, tenant_id, target, name);

-- They give more than they did.
drop function if exists penstock.staged_portions(bigint[], text);
drop function if exists penstock.publish_staged_messages(bigint[], bigint, text, timestamptz);
drop function if exists penstock.publish_staged_jobs(bigint[], bigint, text, timestamptz);
