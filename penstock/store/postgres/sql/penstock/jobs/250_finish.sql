-- The end of a lease: ack, heartbeat and release; and cancelling. Nacks are in 240_fail.sql.
--
-- Answers come in the order of the entries: 'done', 'stale' when the job exists but not with that lease token, or
-- 'absent'. The holder of the token may act, even late, until another worker leases the job.
--
-- Only a job in processing has a token. A statement that asks for a token must not ask for the state too: PostgreSQL
-- could then read the whole index of leases instead of looking up the job.

-- The state of a job, finished or not; null when the tenant has no such job.
create or replace function penstock.job_state(p_tenant bigint, p_queue integer, p_number bigint)
returns smallint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return coalesce(
    (
      select j.state
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.id = p_number
        and j.tenant_id = p_tenant
    ),
    (
      select f.state
      from penstock.finished_jobs as f
      where f.queue_id = p_queue
        and f.id = p_number
        and f.tenant_id = p_tenant
      limit 1
    )
  );
end;
$$;

-- The answer for a job that is not under the given lease token.
create or replace function penstock.answer_without_lease(p_tenant bigint, p_queue integer, p_number bigint)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if penstock.job_state(p_tenant, p_queue, p_number) is null then
    return 'absent';
  end if;
  return 'stale';
end;
$$;

drop function if exists penstock.complete_jobs(bigint[], integer[], bigint[], uuid[], text[], timestamptz);

-- Completes jobs. Answers also the queues in which jobs became ready that had waited for these.
create function penstock.complete_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_tokens uuid[],
  p_results text[],
  p_now timestamptz,
  out answers text[],
  out tenants bigint[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_position integer;
begin
  perform penstock.make_job_day(p_now);
  answers := penstock.complete_leased(p_tenants, p_queues, p_numbers, p_tokens, p_results, p_now);
  if array_position(answers, null) is not null then
    for v_position in
      select a.position from unnest(answers) with ordinality as a (answer, position) where a.answer is null
    loop
      answers[v_position] := penstock.complete_missed(
        p_tenants[v_position], p_queues[v_position], p_numbers[v_position], p_tokens[v_position],
        p_results[v_position], p_now
      );
    end loop;
  end if;
  perform penstock.announce_limited(p_queues, p_now);
  select r.tenants, r.queues
  into tenants, queues
  from penstock.release_waiting(
    array(select e.queue_id from unnest(p_queues, answers) as e (queue_id, answer) where e.answer = 'done'),
    array(select e.id from unnest(p_numbers, answers) as e (id, answer) where e.answer = 'done'),
    p_now
  ) as r;
end;
$$;

-- Moves completed jobs, with their results, to the table of their day. The answer is null for a job that was not found
-- under its token.
create or replace function penstock.complete_leased(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_tokens uuid[],
  p_results text[],
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answers text[];
begin
  -- job path: complete
  with entry as materialized (
    select e.*
    from unnest(p_tenants, p_queues, p_numbers, p_tokens, p_results) with ordinality as e (
      tenant_id, queue_id, id, token, result, position
    )
  ),
  hit as materialized (
    -- Looks up each job by its key. The limit keeps the planner from a join that reads the whole queue.
    select n.ctid as tid
    from entry as e
    cross join lateral (
      select j.ctid
      from penstock.jobs as j
      where j.queue_id = e.queue_id
        and j.id = e.id
        and j.tenant_id = e.tenant_id
        and j.lease_token = e.token
      limit 1
    ) as n
  ),
  gone as (
    delete from penstock.jobs as j
    where j.ctid = any (array(select h.tid from hit as h))
    returning j.*
  ),
  done as materialized (
    -- Of equal entries, the first completes the job.
    select distinct on (g.queue_id, g.id) g.*, e.position, e.result
    from gone as g
    join entry as e on e.queue_id = g.queue_id and e.id = g.id and e.token = g.lease_token
    order by g.queue_id, g.id, e.position
  ),
  kept as (
    insert into penstock.finished_jobs (
      queue_id, id, tenant_id, run_at, created_at, started_at, finished_at, priority, max_retries, retry_count,
      attempts, lease_lost_count, state, progress, worker, note, error, backoff, payload, result
    )
    select
      d.queue_id, d.id, d.tenant_id, d.run_at, d.created_at, d.started_at, p_now, d.priority, d.max_retries,
      d.retry_count, d.attempts, d.lease_lost_count, 4, d.progress, d.worker, d.note, d.error, d.backoff, d.payload,
      d.result::json
    from done as d
  ),
  noted as (
    insert into penstock.job_attempts (queue_id, job_id, attempt, started_at, ended_at, worker, outcome)
    select g.queue_id, g.id, g.attempts, g.leased_at, p_now, g.worker, 'completed'
    from gone as g
  ),
  counted as (
    insert into penstock.job_changes (queue_id, processing, completed)
    select g.queue_id, -count(*), count(*)
    from gone as g
    group by g.queue_id
  )
  select array_agg(case when d.id is not null then 'done' end order by e.position)
  into v_answers
  from entry as e
  left join done as d on d.position = e.position;
  -- end
  return v_answers;
end;
$$;

-- Completes a job that was not found: a heartbeat may have changed the row at that moment. Locks it and tries again.
create or replace function penstock.complete_missed(
  p_tenant bigint,
  p_queue integer,
  p_number bigint,
  p_token uuid,
  p_result text,
  p_now timestamptz
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_state smallint := penstock.job_state(p_tenant, p_queue, p_number);
begin
  if v_state is null then
    return 'absent';
  elsif v_state <> 1 then
    return 'stale';
  end if;
  perform
  from penstock.jobs as j
  where j.queue_id = p_queue
    and j.id = p_number
    and j.lease_token = p_token
  for update;
  if not found then
    return 'stale';
  end if;
  return coalesce(
    (
      penstock.complete_leased(
        array[p_tenant], array[p_queue], array[p_number], array[p_token], array[p_result], p_now
      )
    )[1],
    'stale'
  );
end;
$$;

-- A finished job may let another one of a queue with limited concurrency start. Wakes all nodes, this one too: it does
-- not know the queue of the job.
create or replace function penstock.announce_limited(p_queues integer[], p_now timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limited integer[];
begin
  select array_agg(q.id)
  into v_limited
  from (select distinct e.queue_id from unnest(p_queues) as e (queue_id)) as n
  join penstock.job_queues as q on q.id = n.queue_id
  where q.concurrency is not null;
  if v_limited is not null then
    perform penstock.announce_jobs(v_limited, p_now, true);
  end if;
end;
$$;

-- Extends leases, and stores the progress that the worker reports.
create or replace function penstock.beat_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_tokens uuid[],
  p_seconds integer[],
  p_progress integer[],
  p_notes text[],
  p_now timestamptz
)
returns text[]
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry record;
  v_answers text[] := array_fill(null::text, array[cardinality(p_numbers)]);
begin
  for v_entry in
    select e.*
    from unnest(p_tenants, p_queues, p_numbers, p_tokens, p_seconds, p_progress, p_notes) with ordinality as e (
      tenant_id, queue_id, id, token, seconds, progress, note, position
    )
    order by e.queue_id, e.id, e.position
  loop
    update penstock.jobs as j
    set due_at = p_now + make_interval(secs => v_entry.seconds),
        progress = coalesce(v_entry.progress, j.progress),
        note = coalesce(v_entry.note, j.note),
        updated_at = p_now
    where j.queue_id = v_entry.queue_id
      and j.id = v_entry.id
      and j.tenant_id = v_entry.tenant_id
      and j.lease_token = v_entry.token;
    v_answers[v_entry.position] := case
      when found then 'done'
      else penstock.answer_without_lease(v_entry.tenant_id, v_entry.queue_id, v_entry.id)
    end;
  end loop;
  return v_answers;
end;
$$;

-- Undoes leases that did not reach a worker.
create or replace function penstock.release_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_tokens uuid[],
  p_now timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry record;
begin
  for v_entry in
    select e.*
    from unnest(p_tenants, p_queues, p_numbers, p_tokens) as e (tenant_id, queue_id, id, token)
    order by e.queue_id, e.id
  loop
    update penstock.jobs as j
    set state = 0,
        lease_token = null,
        attempts = j.attempts - 1,
        worker = null,
        updated_at = p_now
    where j.queue_id = v_entry.queue_id
      and j.id = v_entry.id
      and j.tenant_id = v_entry.tenant_id
      and j.lease_token = v_entry.token;
    if found then
      insert into penstock.job_changes (queue_id, processing, pending) values (v_entry.queue_id, -1, 1);
    end if;
  end loop;
end;
$$;

-- Cancels a pending job, and all that wait for it. Returns false when the job is not pending.
create or replace function penstock.cancel_job(p_tenant bigint, p_queue integer, p_number bigint, p_now timestamptz)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.make_job_day(p_now);
  if penstock.job_state(p_tenant, p_queue, p_number) is null or not penstock.end_job(p_queue, p_number, null, p_now) then
    return false;
  end if;
  perform penstock.cancel_waiting(array[p_queue], array[p_number], p_now);
  return true;
end;
$$;
