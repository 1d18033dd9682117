-- The days that finished jobs and attempts lie in.
--
-- Partitions have names that are made here, so these statements are built: of table names written below and of dates,
-- quoted all the same.

-- The partitions for a day exist afterwards. Attaching takes a lock that neither readers nor writers mind; creating a
-- partition in place would make them all wait.
create or replace function penstock.make_job_day(p_moment timestamptz)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_day date := (p_moment at time zone 'UTC')::date;
  v_table text;
  v_part text;
begin
  if to_regclass('penstock.job_attempts_' || to_char(v_day, 'YYYYMMDD')) is not null then
    return;
  end if;
  perform pg_advisory_xact_lock(1885695604, 3);
  foreach v_table in array array['finished_jobs', 'job_attempts'] loop
    v_part := v_table || '_' || to_char(v_day, 'YYYYMMDD');
    continue when to_regclass('penstock.' || v_part) is not null;
    execute format('create table penstock.%I (like penstock.%I including defaults including constraints)', v_part, v_table);
    execute format(
      'alter table penstock.%I attach partition penstock.%I for values from (%L) to (%L)',
      v_table, v_part, to_char(v_day, 'YYYY-MM-DD') || ' 00:00+00', to_char(v_day + 1, 'YYYY-MM-DD') || ' 00:00+00'
    );
  end loop;
end;
$$;

-- Dropping a day waits for everyone who is reading or writing days, and they for it: it gives up soon, and upkeep
-- comes again.
create or replace function penstock.drop_job_days(p_before timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_part record;
  v_dropped integer := 0;
begin
  for v_part in
    select p.relname as parent, c.relname as name
    from pg_inherits as i
    join pg_class as p on p.oid = i.inhparent
    join pg_class as c on c.oid = i.inhrelid
    where i.inhparent in ('penstock.finished_jobs'::regclass, 'penstock.job_attempts'::regclass)
      and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC' <= p_before
    order by c.relname
  loop
    begin
      if v_part.parent = 'finished_jobs' then
        execute format(
          'insert into penstock.job_changes (queue_id, completed, cancelled)'
          ' select f.queue_id, -count(*) filter (where f.state = 4), -count(*) filter (where f.state = 5)'
          ' from penstock.%I as f group by f.queue_id',
          v_part.name
        );
      end if;
      execute format('lock table penstock.%I in access exclusive mode', v_part.parent);
      execute format('drop table penstock.%I', v_part.name);
      v_dropped := v_dropped + 1;
    exception
      when lock_not_available then return v_dropped;
    end;
  end loop;
  return v_dropped;
end;
$$;
