-- Failed attempts. Answers are as in 250_finish.sql.

-- Seconds until the next attempt, after p_retries retries. penstock.model.Backoff.delay_s has the same rule.
create or replace function penstock.job_backoff(p_backoff json, p_retries integer, p_spread double precision)
returns double precision
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_delays json := p_backoff -> 'delays';
  v_base double precision := coalesce((p_backoff ->> 'base')::double precision, 1);
  v_cap double precision := coalesce((p_backoff ->> 'cap')::double precision, 3600);
begin
  if v_delays is not null then
    return (v_delays ->> least(p_retries, json_array_length(v_delays) - 1))::double precision;
  end if;
  -- Up to a fifth longer, so that jobs that failed together are not retried together.
  return least(v_base * 2.0 ^ least(p_retries, 60), v_cap) * (1 + 0.2 * p_spread);
end;
$$;

-- Ends attempts that failed. The job runs again later when the worker asks for a retry and one is left, else it is
-- dead. Also returns when the job runs again, and its queue.
drop function if exists penstock.fail_jobs(
  bigint[], integer[], bigint[], uuid[], text[], boolean[], double precision[], double precision[], timestamptz
);
create or replace function penstock.fail_jobs(
  p_tenants bigint[],
  p_queues integer[],
  p_numbers bigint[],
  p_tokens uuid[],
  p_errors text[],
  p_retries boolean[],
  p_waits double precision[],
  p_spreads double precision[],
  p_counts boolean[],
  p_now timestamptz,
  out answers text[],
  out run_ats timestamptz[],
  out queues text[]
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entry record;
  v_job penstock.jobs;
  v_state smallint;
  v_wait double precision;
begin
  perform penstock.make_job_day(p_now);
  answers := array_fill(null::text, array[cardinality(p_numbers)]);
  run_ats := array_fill(null::timestamptz, array[cardinality(p_numbers)]);
  queues := array_fill(null::text, array[cardinality(p_numbers)]);
  for v_entry in
    select e.*
    from unnest(
      p_tenants, p_queues, p_numbers, p_tokens, p_errors, p_retries, p_waits, p_spreads, p_counts
    ) with ordinality as e (tenant_id, queue_id, id, token, error, retry, wait_s, spread, counts, position)
    -- In one order, so that two batches do not deadlock.
    order by e.queue_id, e.id, e.position
  loop
    select j.* into v_job
    from penstock.jobs as j
    where j.queue_id = v_entry.queue_id
      and j.id = v_entry.id
      and j.tenant_id = v_entry.tenant_id
      and j.lease_token = v_entry.token
    for update;
    if not found then
      answers[v_entry.position] := penstock.answer_without_lease(v_entry.tenant_id, v_entry.queue_id, v_entry.id);
      continue;
    end if;
    if v_entry.retry and (v_job.retry_count < v_job.max_retries or v_entry.counts is false) then
      v_wait := coalesce(v_entry.wait_s, penstock.job_backoff(v_job.backoff, v_job.retry_count, v_entry.spread));
      v_state := case when v_wait > 0 then 2 else 0 end;
      run_ats[v_entry.position] := p_now + make_interval(secs => v_wait);
    else
      v_state := 3;
    end if;
    update penstock.jobs as j
    set state = v_state,
        retry_count = case when v_state = 3 or v_entry.counts is false then j.retry_count else j.retry_count + 1 end,
        lease_token = null,
        error = v_entry.error,
        due_at = coalesce(run_ats[v_entry.position], j.due_at),
        run_at = coalesce(run_ats[v_entry.position], j.run_at),
        updated_at = p_now,
        finished_at = case when v_state = 3 then p_now end,
        dead_reason = case when v_state = 3 then 'it failed, and '
          || case when v_entry.retry then 'no retry is left' else 'the worker asked for no retry' end end
    where j.queue_id = v_job.queue_id
      and j.id = v_job.id;
    insert into penstock.job_attempts (queue_id, job_id, attempt, started_at, ended_at, worker, outcome, error)
    values (v_job.queue_id, v_job.id, v_job.attempts, v_job.leased_at, p_now, v_job.worker, 'failed', v_entry.error);
    insert into penstock.job_changes (queue_id, processing, pending, dead)
    values (v_job.queue_id, -1, (v_state <> 3)::integer, (v_state = 3)::integer);
    answers[v_entry.position] := 'done';
    queues[v_entry.position] := (select q.name from penstock.job_queues as q where q.id = v_job.queue_id);
  end loop;
  perform penstock.announce_limited(p_queues, p_now);
end;
$$;
