-- The SQL API of jobs: functions users call inside their own transactions.

drop function if exists penstock.enqueue_job(text, jsonb, integer, integer, timestamptz, text, integer, jsonb);
drop function if exists penstock.enqueue_job(text, jsonb, integer, integer, timestamptz, text, integer, jsonb, uuid[]);

-- Answers the id of the job, or of the earlier job that has the same unique_key.
create or replace function penstock.enqueue_job(
  queue text,
  payload jsonb,
  priority integer default 0,
  max_retries integer default 3,
  run_at timestamptz default null,
  unique_key text default null,
  unique_s integer default 3600,
  backoff jsonb default null,
  after uuid[] default null,
  tags text[] default null
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
  v_existing boolean;
begin
  perform penstock.check_jobs(array[payload::text], array[priority], array[unique_key], array[run_at]);
  perform penstock.check_range('max_retries', max_retries, 0, 1000);
  perform penstock.check_range('unique_s', unique_s, 1, 2592000);
  perform penstock.check_backoff(backoff);
  perform penstock.check_tags(tags);
  v_queue := (penstock.make_job_queues(array[v_tenant], array[queue], v_now))[1];
  select e.numbers[1], e.existing[1]
  into v_number, v_existing
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
  if cardinality(after) > 0 and v_existing is not true then
    perform penstock.check_that('after', bool_and(n.number is not null), 'name jobs of this database')
    from unnest(after) as a (id)
    cross join lateral penstock.job_name(a.id) as n;
    perform penstock.hold_jobs(
      array_agg(v_tenant), array_agg(v_queue), array_agg(v_number), array_agg(n.queue_id), array_agg(n.number), v_now
    )
    from unnest(after) as a (id)
    cross join lateral penstock.job_name(a.id) as n;
  end if;
  if cardinality(tags) > 0 and v_existing is not true then
    perform penstock.tag_job(v_tenant, v_queue, v_number, tags, v_now);
  end if;
  return penstock.job_uuid(v_queue, v_number);
end;
$$;
