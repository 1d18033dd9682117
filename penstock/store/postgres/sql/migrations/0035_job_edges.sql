-- Jobs that wait for others: the job waits until the one it comes after is completed.
--
-- A waiting job is delayed (state 2) with a due_at that never comes, 9000-01-01. Edges that are done are kept, to be
-- shown, until upkeep removes them. Jobs come after jobs with smaller numbers only, so that nothing waits for itself.
--
-- Lock order: a job, then the edges that come after it, then waiting jobs by number.

create table penstock.job_edges (
  queue_id integer not null,
  job_id bigint not null,
  after_queue_id integer not null,
  after_id bigint not null,
  done boolean not null,
  created_at timestamptz not null,
  primary key (queue_id, job_id, after_queue_id, after_id)
);

create index job_edges_waiting on penstock.job_edges (after_queue_id, after_id) where not done;
create index job_edges_age on penstock.job_edges (created_at);
