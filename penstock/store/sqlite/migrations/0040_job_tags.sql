-- Tags of jobs, which most jobs do not have.

create table job_tags (
  tenant_id integer not null,
  tag text not null,
  job_id integer not null,
  created_at integer not null,
  primary key (job_id, tag)
) strict, without rowid;

create index job_tags_tag on job_tags (tenant_id, tag, job_id);
create index job_tags_age on job_tags (created_at);
