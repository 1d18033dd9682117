-- Following one thing. Contents are not read.

-- name: follow_message
select
  q.name as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers, s.name as dead_letter_source, null as archived_at
from messages as m
join queues as q on q.bin_id = m.bin_id
left join queues as s on s.id = m.source_id and s.tenant_id = :tenant
where q.tenant_id = :tenant
and m.id = :id
union all
select
  a.queue, a.id, null, a.sent_at, a.first_received_at, null, null, a.receives, 0, a.group_id, a.trace, a.headers,
  null, a.deleted_at
from archive as a
where a.tenant_id = :tenant
and a.id = :id;

-- name: follow_trace
select
  q.name as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers, s.name as dead_letter_source, null as archived_at
from messages as m indexed by messages_trace
join queues as q on q.bin_id = m.bin_id
left join queues as s on s.id = m.source_id and s.tenant_id = :tenant
where q.tenant_id = :tenant
and m.trace >= :beginning
and m.trace < :beginning || char(1114111)
union all
select
  a.queue, a.id, null, a.sent_at, a.first_received_at, null, null, a.receives, 0, a.group_id, a.trace, a.headers,
  null, a.deleted_at
from archive as a indexed by archive_trace
where a.tenant_id = :tenant
and a.trace >= :beginning
and a.trace < :beginning || char(1114111)
limit :limit;

-- name: follow_deliveries
select
  id, tenant_id, lane, due_at, lease, state, attempts, last_status, subscription_id, created_at,
  finished_at, confirms, subscription_key, message_id, topic, routing_key, endpoint, secret, delays,
  dead_letter_queue, last_error, '' as headers, '' as body
from deliveries indexed by deliveries_message
where tenant_id = :tenant
and message_id = :message_id
order by id
limit :limit;

-- name: hidden_messages
select
  :queue as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers, s.name as dead_letter_source, null as archived_at
from (
  select *
  from (
    select m.*
    from queues as q
    join messages as m indexed by messages_in_flight on m.bin_id = q.bin_id and m.state = 1
    where q.tenant_id = :tenant
    and q.name = :queue
    and m.visible_at > :now
    order by m.visible_at
    limit :limit
  )
  union all
  select *
  from (
    select m.*
    from queues as q
    join messages as m indexed by messages_delayed on m.bin_id = q.bin_id and m.state = 2
    where q.tenant_id = :tenant
    and q.name = :queue
    and m.visible_at > :now
    order by m.visible_at
    limit :limit
  )
) as m
left join queues as s on s.id = m.source_id and s.tenant_id = :tenant
order by m.visible_at, m.id
limit :limit;

-- name: fifo_groups
select g.group_id, g.messages, f.id as first_id, f.state, f.visible_at, f.receives
from (
  select looked_at.group_id, looked_at.bin_id, count(*) as messages
  from (
    select n.group_id, n.bin_id
    from queues as q
    join messages as n on n.bin_id = q.bin_id
    where q.tenant_id = :tenant
    and q.name = :queue
    and n.group_id is not null
    limit :among
  ) as looked_at
  group by looked_at.group_id, looked_at.bin_id
  order by messages desc, looked_at.group_id
  limit :limit
) as g
join messages as f on f.id = (
  select n.id
  from messages as n indexed by messages_group
  where n.bin_id = g.bin_id
  and n.group_id = g.group_id
  order by n.state = 3, n.id
  limit 1
)
order by g.messages desc, g.group_id;
