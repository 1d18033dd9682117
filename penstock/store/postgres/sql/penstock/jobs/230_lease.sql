-- Leasing: releases due jobs, applies the limits of the queue, claims ready jobs.
--
-- Every statement uses skip locked: two workers never wait for each other and never get the same job.

-- Makes delayed jobs ready when their time has come. Returns the first place among them.
create or replace function penstock.promote_jobs(p_queue integer, p_since timestamptz, p_now timestamptz, p_limit integer)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_place bigint;
begin
  -- job path: promote
  with promoted as (
    update penstock.jobs as j
    set state = 0
    where j.ctid = any (
      array(
        select n.ctid
        from penstock.jobs as n
        where n.queue_id = p_queue
          and n.state = 2
          and n.due_at >= p_since
          and n.due_at <= p_now
        order by n.due_at
        limit p_limit
        for update skip locked
      )
    )
    returning j.place
  )
  select min(p.place) into v_place from promoted as p;
  -- end
  return v_place;
end;
$$;

-- Recovers jobs whose lease ran out. The attempt counts as failed: the job is ready again at once while retries are
-- left, else dead, so that a job that crashes its workers ends. Returns how many, and the first place among the ready
-- ones.
create or replace function penstock.recover_jobs(
  p_queue integer,
  p_since timestamptz,
  p_now timestamptz,
  p_limit integer,
  out recovered integer,
  out place bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  recovered := 0;
  perform
  from penstock.jobs as j
  where j.queue_id = p_queue
    and j.state = 1
    and j.due_at >= p_since
    and j.due_at <= p_now
  limit 1;
  if not found then
    return;
  end if;
  perform penstock.make_job_day(p_now);

  -- job path: recover
  with lost as materialized (
    select n.ctid as tid
    from penstock.jobs as n
    where n.queue_id = p_queue
      and n.state = 1
      and n.due_at >= p_since
      and n.due_at <= p_now
    order by n.due_at
    limit p_limit
    for update skip locked
  ),
  changed as (
    update penstock.jobs as j
    set state = case when j.retry_count < j.max_retries then 0 else 3 end,
        retry_count = least(j.retry_count + 1, j.max_retries),
        lease_lost_count = j.lease_lost_count + 1,
        lease_token = null,
        run_at = case when j.retry_count < j.max_retries then p_now else j.run_at end,
        updated_at = p_now,
        finished_at = case when j.retry_count < j.max_retries then null else p_now end,
        dead_reason = case when j.retry_count < j.max_retries then null else 'the lease was lost, and no retry is left' end
    where j.ctid = any (array(select l.tid from lost as l))
    returning j.queue_id, j.id, j.place, j.state, j.attempts, j.worker, j.leased_at
  ),
  noted as (
    insert into penstock.job_attempts (queue_id, job_id, attempt, started_at, ended_at, worker, outcome, error)
    select c.queue_id, c.id, c.attempts, c.leased_at, p_now, c.worker, 'lost', 'the lease ran out'
    from changed as c
  ),
  counted as (
    insert into penstock.job_changes (queue_id, processing, pending, dead)
    select c.queue_id, -count(*), count(*) filter (where c.state = 0), count(*) filter (where c.state = 3)
    from changed as c
    group by c.queue_id
  )
  select count(*), min(c.place) filter (where c.state = 0) into recovered, place from changed as c;
  -- end
end;
$$;

-- How many jobs of the queue may start now, at most p_wanted, and when to look again if none may. Locks the queue's row
-- until commit: two nodes must not both use the last start.
create or replace function penstock.allow_jobs(
  p_queue integer,
  p_wanted integer,
  p_now timestamptz,
  out allowed integer,
  out next_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue penstock.job_queues;
  v_running integer;
  v_left double precision;
begin
  select q.* into v_queue from penstock.job_queues as q where q.id = p_queue for update;
  allowed := p_wanted;
  if v_queue.concurrency is not null then
    select count(*)
    into v_running
    from (
      select
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.state = 1
      limit v_queue.concurrency
    ) as r;
    allowed := least(allowed, v_queue.concurrency - v_running);
  end if;
  if v_queue.rate is not null then
    v_left := least(
      coalesce(v_queue.burst, greatest(ceil(v_queue.rate), 1)),
      coalesce(
        v_queue.starts_left + v_queue.rate * greatest(extract(epoch from p_now - v_queue.filled_at), 0),
        'infinity'
      )
    );
    update penstock.job_queues as q set starts_left = v_left, filled_at = p_now where q.id = p_queue;
    allowed := least(allowed, floor(v_left)::integer);
    if v_left < 1 then
      next_at := p_now + make_interval(secs => (1 - v_left) / v_queue.rate);
    end if;
  end if;
end;
$$;

drop function if exists penstock.claim_jobs(integer, text[], bigint, timestamptz, timestamptz);

-- Claims the next ready jobs of a queue, starting at a place, one for each worker. Ends with the job whose payload
-- reaches p_bytes.
create or replace function penstock.claim_jobs(
  p_queue integer,
  p_workers text[],
  p_start bigint,
  p_until timestamptz,
  p_now timestamptz,
  p_bytes bigint
)
returns setof penstock.jobs
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  -- job path: claim
  with picked as materialized (
    select s.tid, s.slot
    from (
      select n.tid, row_number() over (order by n.place) as slot, sum(n.bytes) over before as bytes_before
      from (
        select
          j.ctid as tid,
          j.place,
          -- One job is claimed whatever its size: its payload need not be read for this.
          case when cardinality(p_workers) > 1 then octet_length(j.payload::text) else 0 end as bytes
        from penstock.jobs as j
        where j.queue_id = p_queue
          and j.state = 0
          and j.place >= p_start
        order by j.place
        limit cardinality(p_workers)
        for update skip locked
      ) as n
      window before as (order by n.place rows between unbounded preceding and 1 preceding)
    ) as s
    where coalesce(s.bytes_before, 0) < p_bytes
  ),
  claimed as (
    update penstock.jobs as j
    set state = 1,
        due_at = p_until,
        lease_token = gen_random_uuid(),
        -- Callers read the clock earlier: the previous attempt may have ended a little after p_now.
        leased_at = greatest(p_now, j.updated_at),
        started_at = coalesce(j.started_at, p_now),
        updated_at = greatest(p_now, j.updated_at),
        attempts = j.attempts + 1,
        progress = null,
        note = null,
        worker = p_workers[p.slot]
    from picked as p
    where j.ctid = p.tid
    returning j.*
  )
  select c.*
  from claimed as c
  order by c.place;
  -- end
end;
$$;

drop function if exists penstock.lease_jobs(
  integer[], integer[], integer[], text[], bigint[], timestamptz[], timestamptz
);

-- Leases jobs for many requests. p_workers has p_limits[n] workers for request n, one after another. Rows come in the
-- order of the requests. A request without jobs gets one row without an id, with the time to look again.
--
-- p_places and p_since are hints from earlier leases; null means no hint. A request ends with the job whose payload
-- reaches p_bytes.
create or replace function penstock.lease_jobs(
  p_queues integer[],
  p_seconds integer[],
  p_limits integer[],
  p_workers text[],
  p_places bigint[],
  p_since timestamptz[],
  p_now timestamptz,
  p_bytes bigint default 9223372036854775807
)
returns table (
  request integer, next_due_at timestamptz, place bigint, id bigint, lease_token uuid, due_at timestamptz, payload json,
  priority integer, attempts integer, retry_count integer, max_retries integer, lease_lost_count integer,
  run_at timestamptz, created_at timestamptz, started_at timestamptz, leased_at timestamptz, worker text, error text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c_first constant bigint := -9223372036854775808;
  v_offset integer := 0;
  v_allowed integer;
  v_queue record;
  v_start bigint;
  v_since timestamptz;
  v_count bigint;
begin
  for v_request in 1 .. cardinality(p_queues) loop
    v_allowed := p_limits[v_request];
    v_count := 0;
    v_since := coalesce(p_since[v_request], '-infinity');
    v_start := coalesce(p_places[v_request], c_first);
    next_due_at := null;
    select q.concurrency, q.rate into v_queue from penstock.job_queues as q where q.id = p_queues[v_request];
    -- First with the hints; when nothing is found with them, without.
    loop
      v_start := least(
        v_start,
        penstock.promote_jobs(p_queues[v_request], v_since, p_now, 1000),
        (penstock.recover_jobs(p_queues[v_request], v_since, p_now, 1000)).place
      );
      if v_queue.concurrency is not null or v_queue.rate is not null then
        select a.allowed, a.next_at
        into v_allowed, next_due_at
        from penstock.allow_jobs(p_queues[v_request], p_limits[v_request], p_now) as a;
      end if;
      exit when v_allowed <= 0;
      return query
      select
        v_request, null::timestamptz, c.place, c.id, c.lease_token, c.due_at, c.payload, c.priority, c.attempts,
        c.retry_count, c.max_retries, c.lease_lost_count, c.run_at, c.created_at, c.started_at, c.leased_at, c.worker,
        c.error
      from penstock.claim_jobs(
        p_queues[v_request],
        p_workers[v_offset + 1 : v_offset + v_allowed],
        v_start,
        p_now + make_interval(secs => p_seconds[v_request]),
        p_now, p_bytes
      ) as c;
      get diagnostics v_count = row_count;
      exit when v_count > 0 or (v_start = c_first and v_since = '-infinity');
      v_start := c_first;
      v_since := '-infinity';
    end loop;
    v_offset := v_offset + p_limits[v_request];
    if v_count > 0 then
      insert into penstock.job_changes (queue_id, pending, processing) values (p_queues[v_request], -v_count, v_count);
      if v_queue.rate is not null then
        update penstock.job_queues as q set starts_left = q.starts_left - v_count where q.id = p_queues[v_request];
      end if;
    else
      request := v_request;
      next_due_at := coalesce(next_due_at, penstock.next_job_at(p_queues[v_request], p_now));
      return next;
    end if;
  end loop;
end;
$$;

-- When the next job of a queue becomes due: its run_at is reached, or its lease ends.
create or replace function penstock.next_job_at(p_queue integer, p_now timestamptz)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return least(
    (
      select j.due_at
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.state = 2
        and j.due_at > p_now
      order by j.due_at
      limit 1
    ),
    (
      select j.due_at
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.state = 1
        and j.due_at > p_now
      order by j.due_at
      limit 1
    )
  );
end;
$$;
