-- Starting and stopping the ticker in the database, with pg_cron, for databases without a Penstock server. A server
-- ticks by itself, and any scheduler may call pgque.ticker() and pgque.maint().

-- What belongs to pg_cron is named in texts only: its schema may be missing.
create or replace function pgque.has_cron()
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select (
    select true
    from pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'cron'
      and p.proname = 'schedule_in_database'
    limit 1
  ) is not null;
$$;

-- Two jobs: the ticker every two seconds, maintenance every thirty. Calling it again leaves two jobs.
create or replace function pgque.start()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ticker bigint;
  v_maint bigint;
begin
  if not pgque.has_cron() then
    raise exception 'pg_cron is not installed in this database'
      using errcode = 'feature_not_supported',
        hint = 'Install pg_cron, or run "penstock serve", or call pgque.ticker() every second '
          'and pgque.maint() every 30 seconds from a scheduler of your own.';
  end if;
  -- Two that start at once would both schedule.
  perform 1 from pgque.config as c for update;
  perform pgque.stop();
  execute 'select cron.schedule_in_database($1, $2, $3, $4)' into v_ticker
    using 'pgque_ticker', '2 seconds', 'set statement_timeout = ''1500ms''; select pgque.ticker()', current_database();
  execute 'select cron.schedule_in_database($1, $2, $3, $4)' into v_maint
    using 'pgque_maint', '30 seconds', 'set statement_timeout = ''25s''; select pgque.maint()', current_database();
  update pgque.config as c set ticker_job_id = v_ticker, maint_job_id = v_maint;
end;
$$;

create or replace function pgque.stop()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_config pgque.config;
begin
  select * into v_config from pgque.config as c for update;
  if num_nonnulls(v_config.ticker_job_id, v_config.maint_job_id) > 0 and pgque.has_cron() then
    -- A job that was removed by hand is not in cron.job.
    execute 'select cron.unschedule(j.jobid) from cron.job as j where j.jobid in ($1, $2)'
    using v_config.ticker_job_id, v_config.maint_job_id;
  end if;
  update pgque.config as c
  set ticker_job_id = null, maint_job_id = null
  where c.ticker_job_id is not null or c.maint_job_id is not null;
end;
$$;

create or replace function pgque.status()
returns table (component text, status text, detail text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_config record;
begin
  select c.ticker_job_id, c.maint_job_id into v_config from pgque.config as c;
  return query values
    ('pgque', 'ok', pgque.version()),
    ('postgresql', 'ok', current_setting('server_version')),
    (
      'pg_cron',
      case when pgque.has_cron() then 'installed' else 'not installed' end,
      case when pgque.has_cron() then null else 'tick from a server or a scheduler of your own' end
    ),
    (
      'ticker',
      case when v_config.ticker_job_id is null then 'not scheduled' else 'scheduled' end,
      'job ' || v_config.ticker_job_id
    ),
    (
      'maint',
      case when v_config.maint_job_id is null then 'not scheduled' else 'scheduled' end,
      'job ' || v_config.maint_job_id
    ),
    ('queues', 'ok', (select count(*)::text from pgque.queue)),
    ('consumers', 'ok', (select count(*)::text from pgque.subscription));
end;
$$;

-- Everything goes: queues, events, and the triggers that feed them. The roles stay, since other databases of the
-- server may use them.
create or replace function pgque.uninstall()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgque.stop();
  -- A server that looks after this database would otherwise take it for installed.
  if to_regclass('penstock.migrations') is not null then
    delete from penstock.migrations as m where m.name = 'streams';
  end if;
  drop schema pgque cascade;
end;
$$;
