-- The trace that the producer of a job was in. Only servers that export traces write and read it, so it is not a column
-- of penstock.jobs: jobs without a trace cost nothing more.

create table penstock.job_traces (
  queue_id integer not null,
  job_id bigint not null,
  trace text not null,
  created_at timestamptz not null,
  primary key (queue_id, job_id)
);

create index job_traces_age on penstock.job_traces (created_at);
