-- Upkeep of jobs: what any node may do at any time, a bounded piece per call.

-- Jobs whose lease ran out or whose time has come are ready, for queues nobody leases from just now; days ahead exist;
-- what is older than the retention goes. Answers how much was done, and the queues that have something to lease.
create or replace function penstock.tend_jobs(
  p_retention interval,
  p_limit integer,
  p_now timestamptz,
  out done integer,
  out tenants bigint[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue penstock.job_queues;
  v_recovered integer;
  v_place bigint;
begin
  done := 0;
  tenants := '{}';
  queues := '{}';
  -- One node at a time; who comes second has nothing to add.
  if not pg_try_advisory_xact_lock(1885695604, 2) then
    return;
  end if;
  perform penstock.make_job_day(p_now);
  perform penstock.make_job_day(p_now + interval '1 day');
  for v_queue in
    select q.*
    from penstock.job_queues as q
    where (select true from penstock.jobs as j where j.queue_id = q.id and j.state = 1 and j.due_at <= p_now limit 1)
      or (select true from penstock.jobs as j where j.queue_id = q.id and j.state = 2 and j.due_at <= p_now limit 1)
  loop
    select r.recovered, r.place
    into v_recovered, v_place
    from penstock.recover_jobs(v_queue.id, '-infinity', p_now, p_limit) as r;
    v_place := least(v_place, penstock.promote_jobs(v_queue.id, '-infinity', p_now, p_limit));
    if v_place is not null then
      tenants := tenants || v_queue.tenant_id;
      queues := queues || v_queue.name;
      perform penstock.announce_jobs(array[v_queue.id], p_now);
    end if;
    done := done + v_recovered + (v_place is not null)::integer;
  end loop;
  delete from penstock.job_keys as k
  where k.ctid = any (
    array(select e.ctid from penstock.job_keys as e where e.expires_at <= p_now limit p_limit for update skip locked)
  );
  delete from penstock.job_waiting as w where w.until <= p_now;
  delete from penstock.rate_buckets as b where b.filled_at < p_now - interval '1 hour';
  perform penstock.fold_job_counts();
  perform penstock.forget_job_traces(p_now - p_retention, p_limit);
  perform penstock.forget_job_tags(p_now - p_retention, p_limit);
  -- Last, because it holds the days back from everyone until the commit.
  done := done + penstock.forget_jobs(p_now - p_retention, p_limit, p_now);
end;
$$;

-- Dead jobs from before a moment, and the days that ended before it.
drop function if exists penstock.forget_jobs(timestamptz, integer);
create or replace function penstock.forget_jobs(p_before timestamptz, p_limit integer, p_now timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
  v_queues integer[];
  v_numbers bigint[];
begin
  with gone as (
    delete from penstock.jobs as j
    where j.ctid = any (
      array(
        select n.ctid
        from penstock.jobs as n
        where n.state = 3
          and n.finished_at < p_before
        order by n.finished_at
        limit p_limit
        for update skip locked
      )
    )
    returning j.queue_id, j.id
  ),
  counted as (
    insert into penstock.job_changes (queue_id, dead)
    select g.queue_id, -count(*)
    from gone as g
    group by g.queue_id
  )
  select count(*), array_agg(g.queue_id), array_agg(g.id) into v_count, v_queues, v_numbers from gone as g;
  if v_count > 0 then
    v_count := v_count + penstock.cancel_waiting(v_queues, v_numbers, p_now);
  end if;
  delete from penstock.job_edges as e
  where e.ctid = any (
    array(select n.ctid from penstock.job_edges as n where n.created_at < p_before and n.done limit p_limit)
  );
  return v_count + penstock.drop_job_days(p_before);
end;
$$;

-- Fold what changed into the counters.
create or replace function penstock.fold_job_counts()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  with taken as (
    delete from penstock.job_changes
    returning *
  )
  insert into penstock.job_counts as c (queue_id, pending, processing, completed, cancelled, dead)
  select t.queue_id, sum(t.pending), sum(t.processing), sum(t.completed), sum(t.cancelled), sum(t.dead)
  from taken as t
  group by t.queue_id
  on conflict (queue_id) do update
  set pending = c.pending + excluded.pending,
      processing = c.processing + excluded.processing,
      completed = c.completed + excluded.completed,
      cancelled = c.cancelled + excluded.cancelled,
      dead = c.dead + excluded.dead;
end;
$$;
