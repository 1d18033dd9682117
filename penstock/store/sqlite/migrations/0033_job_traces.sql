-- The trace that the producer of a job was in. Only servers that export traces write and read it.

create table job_traces (
  job_id integer primary key,
  trace text not null,
  created_at integer not null
) strict;

create index job_traces_age on job_traces (created_at);
