-- Runs of pipelines, recorded by the run itself.

-- Record a new run, and delete runs that are older than 90 days or not among the last thousand of the tenant.
create or replace function penstock.start_pipeline_run(
  p_tenant text,
  p_pipeline text,
  p_settings jsonb,
  p_now timestamptz
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := (select t.id from penstock.tenants as t where t.name = p_tenant);
  v_run bigint;
begin
  if v_tenant is null then
    raise exception using errcode = 'PS020', message = format('Tenant ''%s'' does not exist', p_tenant);
  end if;
  insert into penstock.pipeline_runs (tenant_id, pipeline, settings, state, started_at, seen_at)
  values (v_tenant, p_pipeline, p_settings, 'running', p_now, p_now)
  returning id into v_run;
  delete from penstock.pipeline_runs as r
  where r.tenant_id = v_tenant
    and (
      r.seen_at < p_now - interval '90 days'
      or r.id <= (
        select o.id from penstock.pipeline_runs as o where o.tenant_id = v_tenant order by o.id desc offset 1000 limit 1
      )
    );
  return v_run;
end;
$$;

-- Record the progress of a run, which also shows that it is alive. False when the run was deleted.
create or replace function penstock.report_pipeline_run(
  p_run bigint,
  p_state text,
  p_rows bigint,
  p_batches bigint,
  p_lag_events bigint,
  p_lag_s double precision,
  p_note text,
  p_error text,
  p_progress jsonb,
  p_now timestamptz
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update penstock.pipeline_runs as r
  set state = p_state,
      seen_at = p_now,
      finished_at = case when p_state <> 'running' then p_now end,
      rows = p_rows,
      batches = p_batches,
      lag_events = p_lag_events,
      lag_s = p_lag_s,
      note = p_note,
      error = p_error,
      progress = p_progress
  where r.id = p_run;
  return found;
end;
$$;

-- Lag behind these ticks: the number of later events, and the seconds that the first of them has waited. Ticks are given
-- by name, {"orders": 17, ...}, or with the number of their queue, {"orders": {"tick": 17, "queue": 3}, ...}.
create or replace function penstock.stream_lag(
  p_ticks jsonb,
  p_now timestamptz,
  out lag_events bigint,
  out lag_s double precision
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  select
    sum(b.events)::bigint,
    max(case when b.events > 0 then greatest(extract(epoch from p_now - b.since), 0) else 0 end)::double precision
  into lag_events, lag_s
  from (
    select
      greatest(pgque.event_seq(q) - t.tick_event_seq, 0) as events,
      -- The next tick is the first that can hold what is missing; until it comes, this one is as near as we know.
      coalesce(
        (
          select n.tick_time
          from pgque.tick as n
          where n.tick_queue = t.tick_queue
            and n.tick_id > t.tick_id
            and n.tick_event_seq > t.tick_event_seq
          order by n.tick_id
          limit 1
        ),
        t.tick_time
      ) as since
    from jsonb_each(p_ticks) as p
    join pgque.queue as q on q.queue_id = coalesce(
      (p.value ->> 'queue')::integer,
      (select n.queue_id from pgque.queue as n where n.queue_name = p.key)
    )
    join pgque.tick as t
      on t.tick_queue = q.queue_id
      and t.tick_id = coalesce(p.value ->> 'tick', p.value #>> '{}')::bigint
  ) as b;
end;
$$;

-- Claim names for a run: its session holds an advisory lock for each name, until the session ends. Safe to repeat: locks
-- that the session holds are kept, and locks that were lost with an earlier session are taken again. Returns the names
-- that other sessions hold, with the names of these sessions. Nothing waits, so deadlocks are impossible; names are
-- claimed in one order, so that one of several runs gets all of them.
create or replace function penstock.claim_for_run(p_claimant text, p_names text[])
returns table (name text, claimant text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key bigint;
  v_holder integer;
begin
  perform set_config('application_name', p_claimant, false);
  -- A machine that is gone says nothing; without these its locks would stay for hours.
  perform set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false);
  perform set_config('tcp_keepalives_count', '3', false);
  for name in select n from unnest(p_names) as n order by n collate "C" loop
    v_key := penstock.claim_key(name);
    v_holder := (
      select l.pid
      from pg_locks as l
      where l.locktype = 'advisory'
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and (l.classid::bigint << 32 | l.objid::bigint) = v_key
        and l.granted
      limit 1
    );
    if v_holder is distinct from pg_backend_pid() and not pg_try_advisory_lock(v_key) then
      claimant := (select a.application_name from pg_stat_activity as a where a.pid = v_holder);
      return next;
    end if;
  end loop;
end;
$$;

create or replace function penstock.claim_key(p_name text)
returns bigint
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select hashtextextended(p_name, 1885695607);
$$;
