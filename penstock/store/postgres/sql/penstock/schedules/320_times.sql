-- The times of schedules that come from SQL, checked by the rules of the engine: penstock/engine/schedules/cron.py and
-- durations.py. A test compares the two. What a fire is worked out from is the canonical form that these functions
-- return; a server computes the fires.

-- A number or a name in a field of a cron expression; null when it is neither or out of bounds.
create or replace function penstock.cron_number(p_text text, p_place integer)
returns integer
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when p_place = 4 and array_position(m.names, p_text) is not null then array_position(m.names, p_text)
    when p_place = 5 and array_position(d.names, p_text) is not null then array_position(d.names, p_text) - 1
    when p_text ~ '^[0-9]{1,4}$' and p_text::integer
      between ('{0,0,0,1,1,0}'::integer[])[p_place + 1] and ('{59,59,23,31,12,7}'::integer[])[p_place + 1]
    then p_text::integer
  end
  from string_to_array('JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC', ' ') as m (names)
  cross join string_to_array('SUN MON TUE WED THU FRI SAT', ' ') as d (names);
$$;

-- The values of a field; null when it cannot be read. Places are 0, seconds, to 5, weekdays. Negative values stand for
-- the last day (-2), the last weekday (-3) and for single weekdays of a month (-1).
create or replace function penstock.cron_values(p_text text, p_place integer)
returns integer[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_low integer := ('{0,0,0,1,1,0}'::integer[])[p_place + 1];
  v_high integer := ('{59,59,23,31,12,7}'::integer[])[p_place + 1];
  v_found text[];
  v_part text;
  v_some integer[];
  v_values integer[] := '{}';
begin
  if p_text = '*' then
    return array(select generate_series(v_low, v_high));
  elsif position(',' in p_text) > 0 then
    foreach v_part in array string_to_array(p_text, ',') loop
      v_some := penstock.cron_values(v_part, p_place);
      if v_some is null then
        return null;
      end if;
      v_values := v_values || v_some;
    end loop;
    return v_values;
  elsif p_place = 5 and p_text ~ '[L#]' then
    v_found := regexp_match(p_text, '^(?:([0-9]{1,4})L|([^#]+)#0*[1-5])$');
    return case when penstock.cron_number(coalesce(v_found[1], v_found[2]), 5) is not null then '{-1}'::integer[] end;
  elsif position('/' in p_text) > 0 then
    v_found := regexp_match(p_text, '^([^/]*)/0*([1-9][0-9]{0,3})$');
    v_some := array(select distinct v from unnest(penstock.cron_values(v_found[1], p_place)) as v order by v);
    return case
      when v_found is null or cardinality(v_some) = 0 then null
      when v_some[1] < 0 then v_some
      when cardinality(v_some) = 1 then array(select generate_series(v_some[1], v_high, v_found[2]::integer))
      else array(select v_some[n] from generate_series(1, cardinality(v_some), v_found[2]::integer) as n)
    end;
  elsif position('-' in p_text) > 0 then
    v_found := regexp_match(p_text, '^([^-]*)-(.*)$');
    v_some := array[penstock.cron_number(v_found[1], p_place), penstock.cron_number(v_found[2], p_place)];
    return case when v_some[1] <= v_some[2] then array(select generate_series(v_some[1], v_some[2])) end;
  elsif p_place = 3 and p_text in ('L', 'LW') then
    return array[case p_text when 'L' then -2 else -3 end];
  end if;
  return case when penstock.cron_number(p_text, p_place) is not null then array[penstock.cron_number(p_text, p_place)] end;
end;
$$;

-- One expression in its canonical form.
create or replace function penstock.read_cron(p_text text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text := btrim(regexp_replace(upper(p_text), '\s+', ' ', 'g'));
  v_aliases jsonb := '{"@YEARLY": "0 0 1 1 *", "@ANNUALLY": "0 0 1 1 *", "@MONTHLY": "0 0 1 * *", "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *", "@MIDNIGHT": "0 0 * * *", "@HOURLY": "0 * * * *"}';
  v_names text[] := '{second,minute,hour,day of month,month,day of week}';
  v_fields text[];
  v_first integer;
  v_day integer;
  v_longest integer;
begin
  if v_text like '@%' then
    perform penstock.check_that('cron', v_aliases ? v_text, 'be one of @yearly, @monthly, @weekly, @daily and @hourly');
    return v_aliases ->> v_text;
  end if;
  v_fields := string_to_array(v_text, ' ');
  if cardinality(v_fields) not in (5, 6) then
    raise exception using errcode = 'PS010', detail = 'cron', message = format(
      'cron: a cron expression has 5 fields (minute hour day month weekday), or 6 with seconds first; this has %s',
      cardinality(v_fields)
    );
  end if;
  -- The place of the first field: minutes, or seconds.
  v_first := 6 - cardinality(v_fields);
  for v_place in v_first .. 5 loop
    if v_place in (3, 5) and v_fields[v_place - v_first + 1] = '?' then
      v_fields[v_place - v_first + 1] := '*';
    end if;
    v_text := v_fields[v_place - v_first + 1];
    if v_text !~ '^[0-9A-Z*,/#?-]{1,80}$' or v_text ~ '[0-9]{5}' or penstock.cron_values(v_text, v_place) is null then
      raise exception using errcode = 'PS010', detail = 'cron',
        message = format('cron: %s cannot be ''%s''', v_names[v_place + 1], left(v_text, 80));
    end if;
  end loop;
  -- A day that no month has.
  if v_fields[4 - v_first] like '*%' or v_fields[6 - v_first] like '*%' then
    select min(d) into v_day from unnest(penstock.cron_values(v_fields[4 - v_first], 3)) as d;
    select max(('{31,29,31,30,31,30,31,31,30,31,30,31}'::integer[])[m]) into v_longest
    from unnest(penstock.cron_values(v_fields[5 - v_first], 4)) as m;
    perform penstock.check_that('cron', v_day <= v_longest, 'mean a day of the calendar');
  end if;
  return array_to_string(v_fields, ' ');
end;
$$;

-- Expressions joined by |, each in its canonical form.
create or replace function penstock.read_crons(p_text text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  perform penstock.check_that('cron', length(p_text) between 1 and 300, 'have 1 to 300 characters');
  perform penstock.check_that('cron', length(p_text) - length(replace(p_text, '|', '')) < 8, 'join at most 8 expressions');
  return (
    select string_agg(penstock.read_cron(t.part), ' | ' order by t.position)
    from unnest(string_to_array(p_text, '|')) with ordinality as t (part, position)
  );
end;
$$;

-- A duration such as 90s, 1h30m, 2 days or PT5M in its canonical form.
create or replace function penstock.read_duration(p_text text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text := regexp_replace(lower(btrim(p_text)), '^every ', '');
  v_part text := '(?:\s*(?:and\s+)?([0-9]{1,9})\s*(?:%s)(?![a-z])\s*)?';
  v_n bigint[];
  v_ms bigint;
begin
  if length(v_text) <= 40 then
    v_n := coalesce(
      regexp_match(
        v_text,
        '^p(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:t(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?)?$'
      ),
      regexp_match(
        v_text,
        '^' || format(v_part, 'w|weeks?') || format(v_part, 'd|days?') || format(v_part, 'h|hrs?|hours?')
          || format(v_part, 'm|mins?|minutes?') || format(v_part, 's|secs?|seconds?')
          || format(v_part, 'ms|milliseconds?') || '$'
      )
    )::bigint[];
  end if;
  v_ms := coalesce(v_n[1], 0) * 604800000 + coalesce(v_n[2], 0) * 86400000 + coalesce(v_n[3], 0) * 3600000
    + coalesce(v_n[4], 0) * 60000 + coalesce(v_n[5], 0) * 1000 + coalesce(v_n[6], 0);
  perform penstock.check_that('every', v_ms > 0, 'be a duration, such as 90s, 1h30m or 2 days');
  perform penstock.check_that('every', v_ms between 1000 and 316224000000, 'be at least 1 second and at most 3660 days');
  return concat(
    nullif(v_ms / 86400000, 0) || 'd', nullif(v_ms / 3600000 % 24, 0) || 'h', nullif(v_ms / 60000 % 60, 0) || 'm',
    nullif(v_ms / 1000 % 60, 0) || 's', nullif(v_ms % 1000, 0) || 'ms'
  );
end;
$$;
