-- What happens to queues and consumers, in the log of PostgreSQL: a line that begins with pgque.<component>.<level>, with
-- its attributes as JSON in the detail.
create or replace function pgque.log_event(
  i_level text,
  i_component text,
  i_message text,
  i_attrs jsonb default '{}'
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  raise log 'pgque.%.% %', i_component, i_level, i_message using detail = coalesce(i_attrs, '{}')::text;
end;
$$;
