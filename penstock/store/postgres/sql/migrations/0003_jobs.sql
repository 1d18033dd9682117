-- The tables of jobs, of request rates and of the audit.
--
-- A job that can still run, or is dead and may be brought back, is a row of jobs. One that is completed or cancelled
-- moves to finished_jobs, a table of days: leasing never meets it, and retention drops a day whole.
--
-- A job is named by its queue and a number; callers see both as one UUID (see penstock.job_uuid). So one key finds a
-- job and lists a queue, and no index over random ids is needed.
--
-- Lock order, for every function: job_queues, then job_keys by key, then jobs. Who takes several jobs whose rows
-- others may hold takes them with skip locked, or by one key at a time.

create sequence penstock.job_numbers;

-- One row: what makes the job ids of this database differ from those of any other.
create table penstock.job_space (
  salt text not null check (salt ~ '^[0-9a-f]{7}$')
);

insert into penstock.job_space (salt) values (substr(replace(gen_random_uuid()::text, '-', ''), 1, 7));

-- A queue is made by its first job and stays, so that nodes may remember its id. Null limits nothing.
create table penstock.job_queues (
  id integer generated always as identity primary key,
  tenant_id bigint not null references penstock.tenants,
  name text not null,
  created_at timestamptz not null,
  concurrency integer,
  rate double precision,
  burst integer,
  -- The bucket of the rate: starts left at a moment. Null is full.
  starts_left double precision,
  filled_at timestamptz,
  unique (tenant_id, name)
);

-- state: 0 ready       can be leased now, found through jobs_ready
--        1 processing  leased; due_at is the end of the lease
--        2 delayed     waits for run_at, which is due_at
--        3 dead        out of retries; stays until requeued or purged
--
-- place orders the ready jobs of a queue: by priority, then by age. It is one number so that a lease can start from a
-- known place. attempts counts leases, retry_count those of them that failed or were lost since the job was last new.
create table penstock.jobs (
  queue_id integer not null,
  id bigint not null,
  tenant_id bigint not null,
  place bigint not null,
  due_at timestamptz not null,
  run_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  started_at timestamptz,
  leased_at timestamptz,
  finished_at timestamptz,
  lease_token uuid,
  priority integer not null,
  max_retries integer not null,
  retry_count integer not null default 0,
  attempts integer not null default 0,
  lease_lost_count integer not null default 0,
  state smallint not null,
  progress smallint,
  worker text,
  note text,
  error text,
  dead_reason text,
  backoff json,
  payload json not null,
  primary key (queue_id, id)
)
with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.2,
  autovacuum_vacuum_cost_delay = 0
);

create index jobs_ready on penstock.jobs (queue_id, place) where state = 0;
create index jobs_leased on penstock.jobs (queue_id, due_at) where state = 1;
create index jobs_delayed on penstock.jobs (queue_id, due_at) where state = 2;
create index jobs_dead on penstock.jobs (queue_id, id) where state = 3;
create index jobs_dead_age on penstock.jobs (finished_at) where state = 3;

-- state: 4 completed, 5 cancelled
create table penstock.finished_jobs (
  queue_id integer not null,
  id bigint not null,
  tenant_id bigint not null,
  run_at timestamptz not null,
  created_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz not null,
  priority integer not null,
  max_retries integer not null,
  retry_count integer not null,
  attempts integer not null,
  lease_lost_count integer not null,
  state smallint not null,
  progress smallint,
  worker text,
  note text,
  error text,
  backoff json,
  payload json not null,
  result json,
  primary key (queue_id, id, finished_at)
)
partition by range (finished_at);

create index finished_jobs_cancelled on penstock.finished_jobs (queue_id, id) where state = 5;

-- Every attempt that has ended. The one under way is in the row of its job.
create table penstock.job_attempts (
  queue_id integer not null,
  job_id bigint not null,
  attempt integer not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  worker text not null,
  outcome text not null check (outcome in ('completed', 'failed', 'lost')),
  error text,
  primary key (queue_id, job_id, attempt, ended_at)
)
partition by range (ended_at);

-- How many jobs came to a state and left it. Every statement appends what it changed, so that nobody waits for a
-- shared counter; upkeep folds the changes into job_counts.
create table penstock.job_changes (
  queue_id integer not null,
  pending integer not null default 0,
  processing integer not null default 0,
  completed integer not null default 0,
  cancelled integer not null default 0,
  dead integer not null default 0
)
with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

create index job_changes_queue on penstock.job_changes (queue_id);

create table penstock.job_counts (
  queue_id integer primary key,
  pending bigint not null,
  processing bigint not null,
  completed bigint not null,
  cancelled bigint not null,
  dead bigint not null
)
with (fillfactor = 50);

-- Unique jobs: the key stands for the job until it expires, whatever becomes of the job.
create table penstock.job_keys (
  queue_id integer not null,
  key text not null,
  job_id bigint not null,
  expires_at timestamptz not null,
  primary key (queue_id, key)
);

create index job_keys_expiry on penstock.job_keys (expires_at);

-- Which node has workers waiting on which queue, by name: the queue need not exist yet. A crash may forget it.
create unlogged table penstock.job_waiting (
  tenant_id bigint not null,
  queue text not null,
  node text not null,
  until timestamptz not null,
  primary key (tenant_id, queue, node)
);

-- Buckets of request rates, by what they limit. A crash fills them up again.
create unlogged table penstock.rate_buckets (
  name text primary key,
  tokens double precision not null,
  filled_at timestamptz not null
)
with (fillfactor = 50);

-- What administrators did. Rows are added and never changed.
create table penstock.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  tenant_id bigint references penstock.tenants,
  actor text not null,
  act text not null,
  subject text not null,
  detail json not null default '{}'
);

create index audit_tenant on penstock.audit (tenant_id, id);
