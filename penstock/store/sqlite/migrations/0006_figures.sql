-- How many jobs there are, kept as they come and go, so that nobody has to count them; and paused schedules, likewise.

create table job_counts (
  queue_id integer not null,
  state integer not null,
  jobs integer not null,
  primary key (queue_id, state)
) strict, without rowid;

insert into job_counts (queue_id, state, jobs)
select queue_id, state, count(*)
from jobs
group by queue_id, state
union all
select queue_id, state, count(*)
from finished_jobs
group by queue_id, state;

create trigger jobs_come after insert on jobs begin
  insert into job_counts (queue_id, state, jobs)
  values (new.queue_id, new.state, 1)
  on conflict (queue_id, state) do update set jobs = jobs + 1;
end;

create trigger jobs_change after update of state on jobs when new.state <> old.state begin
  update job_counts set jobs = jobs - 1 where queue_id = old.queue_id and state = old.state;
  insert into job_counts (queue_id, state, jobs)
  values (new.queue_id, new.state, 1)
  on conflict (queue_id, state) do update set jobs = jobs + 1;
end;

create trigger jobs_go after delete on jobs begin
  update job_counts set jobs = jobs - 1 where queue_id = old.queue_id and state = old.state;
end;

create trigger finished_jobs_come after insert on finished_jobs begin
  insert into job_counts (queue_id, state, jobs)
  values (new.queue_id, new.state, 1)
  on conflict (queue_id, state) do update set jobs = jobs + 1;
end;

create trigger finished_jobs_go after delete on finished_jobs begin
  update job_counts set jobs = jobs - 1 where queue_id = old.queue_id and state = old.state;
end;

create index schedules_paused on schedules (id) where status = 'paused';
