-- Jobs that wait for others.

-- The due_at of a job that waits for others: the end of the calendar.
create or replace function penstock.job_waits()
returns timestamptz
language sql
immutable
parallel safe
as $$
  select timestamptz '9000-01-01 00:00:00+00';
$$;

-- Stores jobs of which some come after others. Edge n says that entry p_positions[n] comes after the job with
-- p_after_numbers[n] in queue p_after_queues[n], or after the earlier entry p_after_positions[n].
create or replace function penstock.enqueue_jobs_after(
  p_tenants bigint[],
  p_queues integer[],
  p_payloads text[],
  p_priorities integer[],
  p_retries integer[],
  p_run_ats timestamptz[],
  p_backoffs text[],
  p_keys text[],
  p_windows integer[],
  p_now timestamptz,
  p_traces text[],
  p_positions integer[],
  p_after_queues integer[],
  p_after_numbers bigint[],
  p_after_positions integer[],
  out numbers bigint[],
  out existing boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  select e.numbers, e.existing
  into numbers, existing
  from penstock.enqueue_traced_jobs(
    p_tenants, p_queues, p_payloads, p_priorities, p_retries, p_run_ats, p_backoffs, p_keys, p_windows, p_now, p_traces
  ) as e;
  -- A job that was there already by its key waits for what it waited for.
  perform penstock.hold_jobs(
    array_agg(coalesce(p_tenants[e.position], p_tenants[1])),
    array_agg(coalesce(p_queues[e.position], p_queues[1])),
    array_agg(numbers[e.position]),
    array_agg(coalesce(e.after_queue, p_queues[e.after_position], p_queues[1])),
    array_agg(coalesce(e.after_number, numbers[e.after_position])),
    p_now
  )
  from unnest(p_positions, p_after_queues, p_after_numbers, p_after_positions) as e (
    position, after_queue, after_number, after_position
  )
  where existing[e.position] is not true;
end;
$$;

-- Makes new jobs wait: job n for the job p_afters[n] of queue p_after_queues[n]. The caller has just stored them.
create or replace function penstock.hold_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_after_queues integer[],
  p_afters bigint[],
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  -- Until the commit none of these jobs can end without seeing the edges.
  perform
  from penstock.jobs as j
  where (j.queue_id, j.id) in (select e.queue_id, e.id from unnest(p_after_queues, p_afters) as e (queue_id, id))
  order by j.id
  for key share;
  select e.queue_id, e.id, penstock.job_state(e.tenant_id, e.queue_id, e.id) as state
  into v_bad
  from unnest(p_tenants, p_after_queues, p_afters) as e (tenant_id, queue_id, id)
  where coalesce(penstock.job_state(e.tenant_id, e.queue_id, e.id), 5) = 5
  limit 1;
  if found then
    raise exception using
      errcode = case when v_bad.state is null then 'PS028' else 'PS030' end,
      message = format(
        'after: job %s %s', penstock.job_uuid(v_bad.queue_id, v_bad.id),
        case when v_bad.state is null then 'does not exist' else 'is cancelled' end
      );
  end if;
  insert into penstock.job_edges (queue_id, job_id, after_queue_id, after_id, done, created_at)
  select
    e.queue_id, e.id, e.after_queue, e.after_id, penstock.job_state(e.tenant_id, e.after_queue, e.after_id) = 4, p_now
  from unnest(p_tenants, p_queues, p_numbers, p_after_queues, p_afters) as e (
    tenant_id, queue_id, id, after_queue, after_id
  )
  on conflict do nothing;
  update penstock.jobs as j
  set state = 2,
      due_at = penstock.job_waits()
  where (j.queue_id, j.id) in (
    select e.queue_id, e.job_id
    from unnest(p_queues, p_numbers) as n (queue_id, id)
    join penstock.job_edges as e on e.queue_id = n.queue_id and e.job_id = n.id
    where not e.done
  );
end;
$$;

-- These jobs are completed: what waited for nothing else is ready. Answers the queues that have something to lease.
create or replace function penstock.release_waiting(
  p_queues integer[],
  p_numbers bigint[],
  p_now timestamptz,
  out tenants bigint[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queues integer[];
  v_numbers bigint[];
  v_ready integer[];
begin
  perform from penstock.job_edges as e where not e.done limit 1;
  if not found then
    return;
  end if;
  with met as (
    update penstock.job_edges as e
    set done = true
    where (e.after_queue_id, e.after_id) in (select d.queue_id, d.id from unnest(p_queues, p_numbers) as d (queue_id, id))
      and not e.done
    returning e.queue_id, e.job_id
  )
  select array_agg(m.queue_id), array_agg(m.job_id)
  into v_queues, v_numbers
  from (select distinct n.queue_id, n.job_id from met as n) as m;
  if v_numbers is null then
    return;
  end if;
  -- Two transactions may each meet one edge of a job. Who locks the job second sees what the first did.
  perform
  from penstock.jobs as j
  where (j.queue_id, j.id) in (select n.queue_id, n.id from unnest(v_queues, v_numbers) as n (queue_id, id))
  order by j.id
  for update;
  with freed as (
    update penstock.jobs as j
    set state = case when j.run_at > p_now then 2 else 0 end,
        due_at = greatest(j.run_at, p_now),
        updated_at = p_now
    where (j.queue_id, j.id) in (select n.queue_id, n.id from unnest(v_queues, v_numbers) as n (queue_id, id))
      and j.state = 2
      and j.due_at = penstock.job_waits()
      and not exists (
        select from penstock.job_edges as e where e.queue_id = j.queue_id and e.job_id = j.id and not e.done
      )
    returning j.queue_id
  )
  select array_agg(distinct f.queue_id) into v_ready from freed as f;
  if v_ready is not null then
    perform penstock.announce_jobs(v_ready, p_now);
    select array_agg(q.tenant_id), array_agg(q.name)
    into tenants, queues
    from penstock.job_queues as q
    where q.id = any (v_ready);
  end if;
end;
$$;

-- These jobs will never be completed: cancels all that wait for them, and all that wait for those.
create or replace function penstock.cancel_waiting(p_queues integer[], p_numbers bigint[], p_now timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job record;
  v_queues integer[] := p_queues;
  v_numbers bigint[] := p_numbers;
  v_count integer := 0;
begin
  loop
    with ended as (
      update penstock.job_edges as e
      set done = true
      where (e.after_queue_id, e.after_id) in (select d.queue_id, d.id from unnest(v_queues, v_numbers) as d (queue_id, id))
        and not e.done
      returning e.queue_id, e.job_id
    )
    select array_agg(n.queue_id order by n.job_id), array_agg(n.job_id order by n.job_id)
    into v_queues, v_numbers
    from (select distinct e.queue_id, e.job_id from ended as e) as n;
    exit when v_numbers is null;
    for v_job in
      select n.queue_id, n.id from unnest(v_queues, v_numbers) as n (queue_id, id)
    loop
      v_count := v_count
        + penstock.end_job(v_job.queue_id, v_job.id, 'a job that this one comes after was cancelled', p_now)::integer;
    end loop;
  end loop;
  return v_count;
end;
$$;

-- Moves a pending job to the cancelled ones. Returns false when it is not pending.
create or replace function penstock.end_job(p_queue integer, p_number bigint, p_error text, p_now timestamptz)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job penstock.jobs;
begin
  delete from penstock.jobs as j
  where j.queue_id = p_queue
    and j.id = p_number
    and j.state in (0, 2)
  returning j.* into v_job;
  if not found then
    return false;
  end if;
  insert into penstock.finished_jobs (
    queue_id, id, tenant_id, run_at, created_at, started_at, finished_at, priority, max_retries, retry_count, attempts,
    lease_lost_count, state, progress, worker, note, error, backoff, payload
  )
  values (
    v_job.queue_id, v_job.id, v_job.tenant_id, v_job.run_at, v_job.created_at, v_job.started_at, p_now,
    v_job.priority, v_job.max_retries, v_job.retry_count, v_job.attempts, v_job.lease_lost_count, 5, v_job.progress,
    v_job.worker, v_job.note, coalesce(p_error, v_job.error), v_job.backoff, v_job.payload
  );
  insert into penstock.job_changes (queue_id, pending, cancelled) values (p_queue, -1, 1);
  return true;
end;
$$;

-- The queue and the number in the id of a job; null for anything that is no id of this database.
create or replace function penstock.job_name(p_id uuid, out queue_id integer, out number bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    ('x' || substr(h.digits, 25, 8))::bit(32)::integer,
    ('x0' || substr(h.digits, 1, 12) || substr(h.digits, 14, 3))::bit(64)::bigint
  from (select replace(p_id::text, '-', '') as digits) as h
  where penstock.job_uuid(
    ('x' || substr(h.digits, 25, 8))::bit(32)::integer,
    ('x0' || substr(h.digits, 1, 12) || substr(h.digits, 14, 3))::bit(64)::bigint
  ) = p_id;
$$;
