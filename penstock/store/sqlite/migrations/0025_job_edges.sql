-- Jobs that wait for others: the job waits until the one it comes after is completed. A waiting job is delayed with a
-- due_at that never comes, 9000-01-01. Edges that are done are kept, to be shown, until upkeep removes them.

create table job_edges (
  queue_id integer not null,
  job_id integer not null,
  after_queue_id integer not null,
  after_id integer not null,
  done integer not null,
  created_at integer not null,
  primary key (job_id, after_id)
) strict, without rowid;

create index job_edges_waiting on job_edges (after_id) where done = 0;

create index job_edges_age on job_edges (created_at);
