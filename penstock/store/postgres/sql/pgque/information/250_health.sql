-- Whether anything needs attention, and the same numbers for a collector of metrics.

-- The ticker of each queue. A queue may be dropped meanwhile: its sequence is gone then. An idle queue is ticked once per idle period; one with events waiting much sooner.
create or replace function pgque.ticker_health()
returns table (queue_name text, late boolean, last_tick timestamptz)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    q.queue_name,
    coalesce(
      now() - t.tick_time > greatest(
        interval '10 seconds',
        2 * case
          when pg_sequence_last_value(to_regclass(q.queue_event_seq)) > t.tick_event_seq then q.queue_ticker_max_lag
          else q.queue_ticker_idle_period
        end
      ),
      true
    ),
    t.tick_time
  from pgque.queue as q
  left join lateral (
    select n.tick_time, n.tick_event_seq
    from pgque.tick as n
    where n.tick_queue = q.queue_id
    order by n.tick_id desc
    limit 1
  ) as t on true
  where not q.queue_ticker_paused;
$$;

-- How long the last finished run of pg_cron's ticker took; null without pg_cron, or when its runs are not kept.
create or replace function pgque.ticker_duration()
returns interval
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job bigint := (select c.ticker_job_id from pgque.config as c);
  v_took interval;
begin
  if v_job is null or to_regclass('cron.job_run_details') is null then
    return null;
  end if;
  execute 'select d.end_time - d.start_time from cron.job_run_details as d'
    ' where d.jobid = $1 and d.end_time is not null order by d.runid desc limit 1'
  into v_took
  using v_job;
  return v_took;
end;
$$;

create or replace function pgque.queue_health()
returns table (queue_name text, check_name text, status text, detail text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select
    t.queue_name, 'ticker_running',
    case when t.late then 'critical' else 'ok' end,
    'last tick: ' || coalesce(t.last_tick::text, 'never')
  from pgque.ticker_health() as t
  union all
  select
    q.queue_name, 'consumer_lag:' || p.consumer_name,
    case
      when now() - p.tick_time > q.queue_rotation_period then 'critical'
      when now() - p.tick_time > q.queue_rotation_period / 2 then 'warning'
      else 'ok'
    end,
    p.consumer_name || ' lag: ' || (now() - p.tick_time)
  from pgque.consumer_places() as p
  join pgque.queue as q on q.queue_id = p.queue_id
  where p.sub_role <> 'member'
  union all
  select
    q.queue_name, 'rotation_health',
    case
      when q.queue_switch_step2 is null or now() - q.queue_switch_time > 2 * q.queue_rotation_period then 'warning'
      else 'ok'
    end,
    case
      when q.queue_switch_step2 is null then 'between the two steps of a rotation'
      else 'last rotation: ' || q.queue_switch_time
    end
  from pgque.queue as q
  union all
  select
    q.queue_name, 'dlq_health',
    case when d.found > 1000 then 'warning' else 'ok' end,
    d.found || case when d.found >= 10000 then ' or more' else '' end || ' dead letters'
  from pgque.queue as q
  cross join lateral pgque.count_dead_letters(q.queue_id) as d (found)
  union all
  -- Missing jobs of pg_cron are a problem only when no other program does their work.
  select
    'system', 'pg_cron_ticker',
    case when c.ticker_job_id is null and late.found then 'critical' else 'ok' end,
    coalesce('job ' || c.ticker_job_id, 'not scheduled: ticks come from elsewhere, or not at all')
  from pgque.config as c
  cross join (select coalesce(bool_or(t.late), false) from pgque.ticker_health() as t) as late (found)
  union all
  select
    'system', 'pg_cron_maint',
    case when c.maint_job_id is null and late.found then 'critical' else 'ok' end,
    coalesce('job ' || c.maint_job_id, 'not scheduled: maintenance comes from elsewhere, or not at all')
  from pgque.config as c
  cross join (
    select coalesce(bool_or(now() - q.queue_switch_time > 2 * q.queue_rotation_period), false) from pgque.queue as q
  ) as late (found);
$$;

-- One row per number. Counters only rise; gauges are as of now.
create or replace function pgque.otel_metrics()
returns table (metric_name text, metric_type text, value numeric, labels jsonb)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with queues as materialized (select * from pgque.queue_stats()),
  places as materialized (select * from pgque.consumer_places() as p where p.sub_role <> 'member')
  select m.name, 'gauge', m.value, jsonb_build_object('queue', q.queue_name)
  from queues as q
  cross join lateral (
    values
      ('pgque.queue.depth', q.depth::numeric),
      ('pgque.queue.oldest_message_age_seconds', coalesce(extract(epoch from q.oldest_msg_age), 0)::numeric),
      ('pgque.queue.throughput', coalesce(q.events_per_sec, 0)),
      ('pgque.message.dead_lettered', q.dlq_count::numeric)
  ) as m (name, value)
  union all
  select m.name, m.type, m.value, jsonb_build_object('queue', p.queue_name, 'consumer', p.consumer_name)
  from places as p
  cross join lateral (
    values
      ('pgque.consumer.lag_seconds', 'gauge', extract(epoch from now() - p.tick_time)::numeric),
      ('pgque.consumer.pending_events', 'gauge', (p.newest_event_seq - p.tick_event_seq)::numeric),
      ('pgque.message.acked_total', 'counter', p.tick_event_seq::numeric)
  ) as m (name, type, value)
  where p.tick_id is not null
  union all
  select 'pgque.message.sent_total', 'counter', t.tick_event_seq::numeric, jsonb_build_object('queue', q.queue_name)
  from queues as q
  join pgque.tick as t on t.tick_queue = q.queue_id and t.tick_id = q.last_tick_id
  union all
  -- A queue may be dropped meanwhile: its sequence is gone then.
  select
    'pgque.message.nacked_total', 'counter',
    coalesce(pg_sequence_last_value(to_regclass('pgque.event_' || q.queue_id || '_nack_seq')), 0)::numeric,
    jsonb_build_object('queue', q.queue_name)
  from queues as q
  union all
  select 'pgque.ticker.duration_seconds', 'gauge', extract(epoch from t.took)::numeric, '{}'::jsonb
  from pgque.ticker_duration() as t (took)
  where t.took is not null;
$$;
