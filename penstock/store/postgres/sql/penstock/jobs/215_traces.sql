-- The traces of jobs, on servers that export them.

-- As penstock.enqueue_jobs, with a trace for each entry or null. A job that was there already keeps its own.
create or replace function penstock.enqueue_traced_jobs(
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
  from penstock.enqueue_jobs(
    p_tenants, p_queues, p_payloads, p_priorities, p_retries, p_run_ats, p_backoffs, p_keys, p_windows, p_now
  ) as e;
  insert into penstock.job_traces (queue_id, job_id, trace, created_at)
  select coalesce(e.queue_id, p_queues[1]), e.id, e.trace, p_now
  from unnest(p_queues, numbers, p_traces) as e (queue_id, id, trace)
  where e.trace is not null
  on conflict (queue_id, job_id) do nothing;
end;
$$;

create or replace function penstock.forget_job_traces(p_before timestamptz, p_limit integer)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from penstock.job_traces as t
  where t.ctid = any (
    array(
      select o.ctid
      from penstock.job_traces as o
      where o.created_at < p_before
      order by o.created_at
      limit p_limit
      for update skip locked
    )
  );
$$;
