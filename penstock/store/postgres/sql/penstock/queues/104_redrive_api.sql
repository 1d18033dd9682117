-- Redrive from SQL: in the caller's transaction, so no server need run. A server redrives in the background, within a rate.

-- Moves up to max_messages of the oldest visible messages of a dead-letter queue back to the queues they came from, or to
-- a destination. Returns how many were moved; repeat until that is 0.
create or replace function penstock.redrive(
  queue text, destination text default null, max_messages integer default 1000
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant bigint := penstock.current_tenant();
  v_now timestamptz := clock_timestamp();
  v_source penstock.queues := penstock.find_queue(v_tenant, queue);
  v_ids bigint[];
begin
  perform penstock.check_range('max_messages', max_messages, 1, 1000);
  perform penstock.check_that('destination', destination is distinct from queue, 'differ from the queue');
  v_ids := array(
    select m.id
    from penstock.messages as m
    where m.bin_id = v_source.bin_id
      and (m.state in (0, 3) or m.visible_at <= v_now)
    order by m.id
    limit coalesce(max_messages, 1000)
  );
  -- The messages may come before those that a receive of this session starts at.
  perform set_config('penstock.receive_hint', '', false);
  return (penstock.move_by_ids(v_tenant, queue, v_ids, destination, v_now)).moved;
end;
$$;
