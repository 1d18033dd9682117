-- Checks of input that comes from SQL, where no engine has looked at it. The bounds are those of penstock/limits.py;
-- a test compares them.

create or replace function penstock.check_range(p_field text, p_value bigint, p_low bigint, p_high bigint)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_value < p_low or p_value > p_high then
    raise exception using errcode = 'PS010', detail = p_field,
      message = format('%s must be between %s and %s', p_field, p_low, p_high);
  end if;
end;
$$;

create or replace function penstock.check_that(p_field text, p_holds boolean, p_rule text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not p_holds then
    raise exception using errcode = 'PS010', detail = p_field, message = format('%s must %s', p_field, p_rule);
  end if;
end;
$$;

-- Only moments that every client can read back; infinity is none.
create or replace function penstock.check_moments(p_field text, p_moments timestamptz[])
returns void
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select penstock.check_that(
    p_field,
    '1970-01-01 00:00:00+00'::timestamptz <= all (p_moments) and '9000-01-01 00:00:00+00'::timestamptz >= all (p_moments),
    'be between 1970-01-01 and 9000-01-01'
  );
$$;

-- JSON that the clients' parsers can read: not nested too deeply, and without numbers that exceed a double. Only texts
-- that may be at fault are looked at closely.
create or replace function penstock.check_json(p_field text, p_texts text[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_outside text;
begin
  for v_outside in
    -- Without what is inside of strings.
    select regexp_replace(t, '"(?:[^"\\]|\\.)*"', '""', 'g')
    from unnest(p_texts) as t
    where length(t) - length(translate(t, '[{', '')) > 500
      or t ~ '[0-9][eE][+]?[0-9]{3}|[0-9]{200}'
  loop
    perform penstock.check_that(
      p_field, penstock.json_depth(v_outside) <= 500, 'not be nested more than 500 levels deep'
    );
    perform penstock.check_that(
      p_field, not penstock.has_large_number(v_outside), 'not contain a number beyond 1.8e+308'
    );
  end loop;
end;
$$;

-- How many arrays and objects lie inside each other, in a JSON text without the contents of its strings.
create or replace function penstock.json_depth(p_text text)
returns bigint
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(max(d.depth), 0)
  from (
    select sum(case when b.bracket in ('[', '{') then 1 else -1 end) over (order by b.position) as depth
    from string_to_table(regexp_replace(p_text, '[^][{}]', '', 'g'), null) with ordinality as b (bracket, position)
  ) as d;
$$;

create or replace function penstock.has_large_number(p_text text)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (
    select
    from regexp_matches(p_text, '[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?', 'g') as n (found)
    where (n.found)[1]::numeric > 1.7976931348623157e308
  );
exception
  when numeric_value_out_of_range then
    return true;
end;
$$;

-- How much a message counts for in an answer. Large bodies are not read: PostgreSQL keeps their length beside them.
create or replace function penstock.message_bytes(p_body text, p_attributes json, p_headers json)
returns integer
language sql
immutable
begin atomic
  select octet_length(p_body)
    + coalesce(octet_length(p_attributes::text), 0)
    + coalesce(octet_length(p_headers::text), 0);
end;
