-- Tags of jobs.

-- As penstock.enqueue_jobs_after, with a JSON array of tags for each entry or null. Edges may be null. A job that was
-- there already by its key keeps its own tags.
create or replace function penstock.enqueue_tagged_jobs(
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
  p_tags text[],
  out numbers bigint[],
  out existing boolean[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_positions is null then
    select e.numbers, e.existing
    into numbers, existing
    from penstock.enqueue_traced_jobs(
      p_tenants, p_queues, p_payloads, p_priorities, p_retries, p_run_ats, p_backoffs, p_keys, p_windows, p_now, p_traces
    ) as e;
  else
    select e.numbers, e.existing
    into numbers, existing
    from penstock.enqueue_jobs_after(
      p_tenants, p_queues, p_payloads, p_priorities, p_retries, p_run_ats, p_backoffs, p_keys, p_windows, p_now,
      p_traces, p_positions, p_after_queues, p_after_numbers, p_after_positions
    ) as e;
  end if;
  perform penstock.tag_job(
    coalesce(p_tenants[e.position], p_tenants[1]),
    coalesce(p_queues[e.position], p_queues[1]),
    numbers[e.position],
    array(select t.tag from json_array_elements_text(e.tags::json) as t (tag)),
    p_now
  )
  from unnest(p_tags) with ordinality as e (tags, position)
  where e.tags is not null
    and existing[e.position] is not true;
end;
$$;

create or replace function penstock.tag_job(
  p_tenant bigint, p_queue integer, p_job bigint, p_tags text[], p_now timestamptz
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into penstock.job_tags (tenant_id, tag, queue_id, job_id, look_at)
  select p_tenant, t.tag, p_queue, p_job, p_now
  from unnest(p_tags) as t (tag)
  on conflict do nothing;
$$;

-- Remove tags of jobs that are gone. Those of jobs that are still there are looked at again after a day.
create or replace function penstock.forget_job_tags(p_before timestamptz, p_limit integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rows tid[] := array(
    select t.ctid
    from penstock.job_tags as t
    where t.look_at < p_before
    order by t.look_at
    limit p_limit
    for update skip locked
  );
begin
  if v_rows = '{}' then
    return;
  end if;
  delete from penstock.job_tags as t
  where t.ctid = any (v_rows)
    and penstock.job_state(t.tenant_id, t.queue_id, t.job_id) is null;
  update penstock.job_tags as t
  set look_at = p_before + interval '1 day'
  where t.ctid = any (v_rows);
end;
$$;

create or replace function penstock.check_tags(p_tags text[])
returns void
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select
    penstock.check_that('tags', coalesce(cardinality(p_tags), 0) <= 20, 'have at most 20 entries'),
    penstock.check_that(
      'tags', (select bool_and(length(t.tag) between 1 and 100) from unnest(p_tags) as t (tag)),
      'have 1 to 100 characters each'
    );
$$;
