-- The SQL API of jobs: functions users call inside their own transactions.

-- Answers the id of the job, or of the earlier job that has the same unique_key.
create or replace function penstock.enqueue_job(
  queue text,
  payload jsonb,
  priority integer default 0,
  max_retries integer default 3,
  run_at timestamptz default null,
  unique_key text default null,
  unique_s integer default 3600,
  backoff jsonb default null
)
returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_tenant bigint := penstock.current_tenant();
  v_queue integer;
  v_number bigint;
begin
  perform penstock.check_jobs(array[payload::text], array[priority], array[unique_key], array[run_at]);
  perform penstock.check_range('max_retries', max_retries, 0, 1000);
  perform penstock.check_range('unique_s', unique_s, 1, 2592000);
  perform penstock.check_backoff(backoff);
  v_queue := (penstock.make_job_queues(array[v_tenant], array[queue], v_now))[1];
  select e.numbers[1]
  into v_number
  from penstock.enqueue_jobs(
    array[v_tenant],
    array[v_queue],
    array[payload::text],
    array[priority],
    array[max_retries],
    array[run_at],
    array[backoff::text],
    case when unique_key is not null then array[unique_key] end,
    array[unique_s],
    v_now
  ) as e;
  return penstock.job_uuid(v_queue, v_number);
end;
$$;
