-- Leasing: bring back what is due, keep to the limits of the queue, claim what is ready.
--
-- skip locked everywhere: two workers never wait on, nor share, one job.

-- Delayed jobs whose time has come are ready. Answers the foremost place among them.
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

-- Jobs whose lease ran out: the attempt is lost, and counts as one that failed. Ready again at once while retries are
-- left, else dead: a job that kills its workers does not do so for ever. Answers how many, and the foremost place of
-- those ready.
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

-- How many jobs of the queue may start now, at most p_wanted, and when to look again if that is none. Holds the
-- queue's row until commit: two nodes must not both take the last start.
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

-- The next ready jobs of a queue, from a place on, for these workers in turn.
create or replace function penstock.claim_jobs(
  p_queue integer,
  p_workers text[],
  p_start bigint,
  p_until timestamptz,
  p_now timestamptz
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
    select n.tid, row_number() over () as slot
    from (
      select j.ctid as tid
      from penstock.jobs as j
      where j.queue_id = p_queue
        and j.state = 0
        and j.place >= p_start
      order by j.place
      limit cardinality(p_workers)
      for update skip locked
    ) as n
  ),
  claimed as (
    update penstock.jobs as j
    set state = 1,
        due_at = p_until,
        lease_token = gen_random_uuid(),
        -- Callers read the clock before they get here: the attempt before may have ended a little later.
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

-- Lease for many requests: p_limits[n] slots each, whose workers follow one another in p_workers. Rows come in the
-- order of the requests. A request that found nothing gets one row without an id and with the moment to look again.
--
-- p_places and p_since are what the caller remembers of earlier leases; who remembers nothing passes null.
create or replace function penstock.lease_jobs(
  p_queues integer[],
  p_seconds integer[],
  p_limits integer[],
  p_workers text[],
  p_places bigint[],
  p_since timestamptz[],
  p_now timestamptz
)
returns table (
  request integer,
  next_due_at timestamptz,
  place bigint,
  id bigint,
  lease_token uuid,
  due_at timestamptz,
  payload json,
  priority integer,
  attempts integer,
  retry_count integer,
  max_retries integer,
  lease_lost_count integer,
  run_at timestamptz,
  created_at timestamptz,
  started_at timestamptz,
  leased_at timestamptz,
  worker text,
  error text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  c_first constant bigint := -9223372036854775808;
  v_request integer;
  v_offset integer := 0;
  v_allowed integer;
  v_limited boolean;
  v_rated boolean;
  v_next timestamptz;
  v_start bigint;
  v_since timestamptz;
  v_count bigint;
begin
  for v_request in 1 .. cardinality(p_queues) loop
    v_allowed := p_limits[v_request];
    v_next := null;
    v_count := 0;
    v_since := coalesce(p_since[v_request], '-infinity');
    v_start := coalesce(p_places[v_request], c_first);
    select q.concurrency is not null or q.rate is not null, q.rate is not null
    into v_limited, v_rated
    from penstock.job_queues as q
    where q.id = p_queues[v_request];
    loop
      v_start := least(
        v_start,
        penstock.promote_jobs(p_queues[v_request], v_since, p_now, 1000),
        (penstock.recover_jobs(p_queues[v_request], v_since, p_now, 1000)).place
      );
      if v_limited then
        select a.allowed, a.next_at
        into v_allowed, v_next
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
        p_now
      ) as c;
      get diagnostics v_count = row_count;
      exit when v_count > 0 or (v_start = c_first and v_since = '-infinity');
      v_start := c_first;
      v_since := '-infinity';
    end loop;
    v_offset := v_offset + p_limits[v_request];
    if v_count > 0 then
      insert into penstock.job_changes (queue_id, pending, processing) values (p_queues[v_request], -v_count, v_count);
      if v_rated then
        update penstock.job_queues as q set starts_left = q.starts_left - v_count where q.id = p_queues[v_request];
      end if;
    else
      request := v_request;
      next_due_at := coalesce(v_next, penstock.next_job_at(p_queues[v_request], p_now));
      return next;
    end if;
  end loop;
end;
$$;

-- When the next job of a queue becomes ready by itself: its run_at comes, or its lease ends.
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
