-- Jobs, request rates and the audit.
--
-- A job that can still run, or is dead and may be brought back, is a row of jobs; one that is completed or cancelled
-- moves to finished_jobs. A job is named by its queue and its number.
--
-- A job's state: 0 ready, 1 processing, 2 delayed, 3 dead, 4 completed, 5 cancelled. Processing and delayed ones wait
-- for due_at: the end of the lease, or run_at.

-- One row: the last number given out, and what makes the ids of this database differ from those of any other.
create table job_space (
  last_number integer not null,
  salt text not null
) strict;

insert into job_space (last_number, salt)
values (0, lower(substr(hex(randomblob(4)), 1, 7)));

create table job_queues (
  id integer primary key autoincrement,
  tenant_id integer not null references tenants (id),
  name text not null,
  created_at integer not null,
  concurrency integer,
  rate real,
  burst integer,
  starts_left real,
  filled_at integer,
  unique (tenant_id, name)
) strict;

create table jobs (
  id integer primary key,
  queue_id integer not null,
  tenant_id integer not null,
  state integer not null,
  priority integer not null,
  due_at integer not null,
  run_at integer not null,
  created_at integer not null,
  updated_at integer not null,
  started_at integer,
  leased_at integer,
  finished_at integer,
  lease_token text,
  max_retries integer not null,
  retry_count integer not null default 0,
  attempts integer not null default 0,
  lease_lost_count integer not null default 0,
  progress integer,
  worker text,
  note text,
  error text,
  dead_reason text,
  backoff text,
  payload text not null
) strict;

create index jobs_ready on jobs (queue_id, priority desc, id) where state = 0;

create index jobs_hidden on jobs (queue_id, state, due_at) where state in (1, 2);

create index jobs_due on jobs (due_at) where state in (1, 2);

create index jobs_listed on jobs (queue_id, state, id);

create index jobs_dead_age on jobs (finished_at) where state = 3;

create table finished_jobs (
  id integer primary key,
  queue_id integer not null,
  tenant_id integer not null,
  state integer not null,
  priority integer not null,
  run_at integer not null,
  created_at integer not null,
  started_at integer,
  finished_at integer not null,
  max_retries integer not null,
  retry_count integer not null,
  attempts integer not null,
  lease_lost_count integer not null,
  progress integer,
  worker text,
  note text,
  error text,
  payload text not null,
  result text
) strict;

create index finished_jobs_listed on finished_jobs (queue_id, state, id);

create index finished_jobs_age on finished_jobs (finished_at);

create table job_attempts (
  job_id integer not null,
  attempt integer not null,
  started_at integer not null,
  ended_at integer not null,
  worker text not null,
  outcome text not null,
  error text,
  primary key (job_id, attempt)
) strict, without rowid;

create index job_attempts_age on job_attempts (ended_at);

create table job_keys (
  queue_id integer not null,
  key text not null,
  job_id integer not null,
  expires_at integer not null,
  primary key (queue_id, key)
) strict, without rowid;

create index job_keys_expiry on job_keys (expires_at);

create table rate_buckets (
  name text primary key,
  tokens real not null,
  filled_at integer not null
) strict, without rowid;

create table audit (
  id integer primary key autoincrement,
  at integer not null,
  tenant_id integer references tenants (id),
  actor text not null,
  act text not null,
  subject text not null,
  detail text not null
) strict;

create trigger audit_is_not_changed before update on audit begin
  select raise(abort, 'the audit is only added to');
end;

create trigger audit_is_not_removed before delete on audit begin
  select raise(abort, 'the audit is only added to');
end;
