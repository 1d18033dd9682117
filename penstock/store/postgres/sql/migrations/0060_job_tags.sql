-- Tags of jobs. Most jobs have none, so they are not a column of penstock.jobs. Rows are looked at again from look_at on:
-- those whose job is gone are removed, the others get a later look_at.

create table penstock.job_tags (
  tenant_id bigint not null,
  tag text not null,
  queue_id integer not null,
  job_id bigint not null,
  look_at timestamptz not null,
  primary key (queue_id, job_id, tag)
);

create index job_tags_tag on penstock.job_tags (tenant_id, tag, job_id);
create index job_tags_age on penstock.job_tags (look_at);
