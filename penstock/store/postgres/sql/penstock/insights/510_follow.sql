-- Events of streams for a timeline, without their contents: the one with an id, or those of a trace among the last
-- p_recent events. Consumers are told apart by what the snapshot of their last tick sees.
create or replace function penstock.follow_events(
  p_queues text[],
  p_id bigint,
  p_beginnings text[],
  p_recent integer,
  p_limit integer
)
returns table (
  queue_name text,
  ev_id bigint,
  ev_type text,
  ev_time timestamptz,
  ev_retry integer,
  trace text,
  read_by text[],
  unread_by text[],
  deaths json
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue record;
begin
  for v_queue in
    select q.queue_id, q.queue_name, q.queue_data_pfx::regclass::text as events
    from pgque.queue as q
    where q.queue_name = any (p_queues)
    order by q.queue_name
  loop
    return query execute format(
      $query$
        select
          $1, e.ev_id, e.ev_type, e.ev_time, coalesce(e.ev_retry, 0), e.ev_extra1,
          array(
            select p.co_name from penstock.stream_places($2, e.ev_txid) as p where p.has_read order by p.co_name
          ),
          array(
            select p.co_name from penstock.stream_places($2, e.ev_txid) as p where not p.has_read order by p.co_name
          ),
          (
            select json_agg(json_build_array(d.dl_time, coalesce(d.dl_consumer_name, ''), coalesce(d.dl_reason, '')))
            from pgque.dead_letter as d
            where d.dl_queue_id = $2
              and d.ev_id = e.ev_id
          )
        from (
          select n.*
          from %1$s as n
          where %2$s
          order by n.ev_id desc
          limit $4
        ) as e
        where $5::text[] is null
          or exists (select from unnest($5::text[]) as b (beginning) where starts_with(e.ev_extra1, b.beginning))
        order by e.ev_id
        limit $6
      $query$,
      v_queue.events,
      -- Two plans: the index on ev_id finds the one event, or is walked from its end.
      case when p_id is null then '$3::bigint is null' else 'n.ev_id = $3' end
    )
    using v_queue.queue_name, v_queue.queue_id, p_id, coalesce(p_recent, 10), p_beginnings, p_limit;
  end loop;
end;
$$;

-- The consumers of a stream, and whether a transaction is over for them.
create or replace function penstock.stream_places(p_queue integer, p_txid xid8)
returns table (co_name text, has_read boolean)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select c.co_name, coalesce(pg_visible_in_snapshot(p_txid, t.tick_snapshot), false)
  from pgque.subscription as s
  join pgque.consumer as c on c.co_id = s.sub_consumer
  left join pgque.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
  where s.sub_queue = p_queue
    and s.sub_role <> 'member';
$$;
