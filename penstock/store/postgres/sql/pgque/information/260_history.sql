-- What happened lately, in buckets of time. Ticks and the steps of consumers are kept until the tables turn, so history
-- reaches back about two rotation periods; failures are kept for a week.

create or replace function pgque.check_buckets(i_period interval, i_bucket_size interval)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not coalesce(i_bucket_size > '0' and i_period >= i_bucket_size, false) then
    raise exception 'bucket_size must be positive and no longer than period' using errcode = 'invalid_parameter_value';
  elsif extract(epoch from i_period) / extract(epoch from i_bucket_size) > 10000 then
    raise exception 'period holds more than 10000 buckets' using errcode = 'invalid_parameter_value';
  end if;
end;
$$;

-- Every bucket of the period, the current one included, whether anything happened in it or not.
create or replace function pgque.buckets(i_period interval, i_bucket_size interval)
returns setof timestamptz
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select generate_series(date_bin(i_bucket_size, now() - i_period, '2000-01-01 00:00+00'), now(), i_bucket_size);
$$;

create or replace function pgque.throughput(i_queue text, i_period interval, i_bucket_size interval)
returns table (bucket_start timestamptz, events bigint, events_per_sec numeric)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.check_buckets(i_period, i_bucket_size);
  return query
  with steps as (
    select t.tick_time, t.tick_event_seq - lag(t.tick_event_seq) over (order by t.tick_id) as fresh
    from pgque.queue as q
    join pgque.tick as t on t.tick_queue = q.queue_id
    where q.queue_name = i_queue
      and t.tick_id >= q.queue_first_tick
      and t.tick_time > now() - i_period - i_bucket_size
  ),
  sums as (
    select date_bin(i_bucket_size, s.tick_time, '2000-01-01 00:00+00') as start, sum(s.fresh)::bigint as fresh
    from steps as s
    group by 1
  )
  select b.start, coalesce(s.fresh, 0), round(coalesce(s.fresh, 0) / extract(epoch from i_bucket_size), 3)
  from pgque.buckets(i_period, i_bucket_size) as b (start)
  left join sums as s on s.start = b.start
  order by b.start;
end;
$$;

-- How long after the tick a batch was finished, over the batches that held events. Not from the sending of an event:
-- add the time up to the tick, which is ticker_max_lag at most.
create or replace function pgque.latency_percentiles(i_queue text, i_consumer text, i_period interval)
returns table (p50 interval, p95 interval, p99 interval)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    percentile_cont(0.5) within group (order by gaps.gap),
    percentile_cont(0.95) within group (order by gaps.gap),
    percentile_cont(0.99) within group (order by gaps.gap)
  from (
    select steps.sub_active - t.tick_time as gap
    from (
      -- A row may be there twice when the tables have just taken turns.
      select distinct
        s.sub_queue, p.sub_last_tick, p.sub_active, p.sub_batch,
        lag(p.sub_next_tick) over (partition by p.sub_member order by p.sub_step) as finished
      from pgque.queue as q
      join pgque.consumer as c on c.co_name = i_consumer
      join pgque.subscriber as s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
      join pgque.progress as p on p.sub_member = s.sub_member
      where q.queue_name = i_queue
    ) as steps
    join pgque.tick as t on t.tick_queue = steps.sub_queue and t.tick_id = steps.sub_last_tick
    join pgque.tick as b on b.tick_queue = steps.sub_queue and b.tick_id = t.tick_id - 1
    where steps.sub_batch is null
      and steps.finished = steps.sub_last_tick
      and steps.sub_active > now() - i_period
      and t.tick_event_seq > b.tick_event_seq
  ) as gaps;
$$;

create or replace function pgque.error_rate(i_queue text, i_period interval, i_bucket_size interval)
returns table (bucket_start timestamptz, retries bigint, dead_letters bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.check_buckets(i_period, i_bucket_size);
  return query
  with sums as (
    select
      date_bin(i_bucket_size, f.fa_time, '2000-01-01 00:00+00') as start,
      count(*) filter (where not f.fa_dead) as retried,
      count(*) filter (where f.fa_dead) as dead
    from pgque.queue as q
    join pgque.failure as f on f.fa_queue = q.queue_id
    where q.queue_name = i_queue
      and f.fa_time > now() - i_period - i_bucket_size
    group by 1
  )
  select b.start, coalesce(s.retried, 0), coalesce(s.dead, 0)
  from pgque.buckets(i_period, i_bucket_size) as b (start)
  left join sums as s on s.start = b.start
  order by b.start;
end;
$$;
