-- Following one thing. Contents are not read.

-- name: follow_message
select
  q.name as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers -> '_schedule' ->> 'name' as schedule,
  s.name as dead_letter_source, null::timestamptz as archived_at
from penstock.queues as q
join penstock.messages as m on m.bin_id = q.bin_id and m.id = $2
left join penstock.queues as s on s.id = m.dead_letter_source and s.tenant_id = $1
where q.tenant_id = $1;

-- name: follow_archived
select
  a.queue, a.id, null::smallint as state, a.sent_at, a.first_received_at, null::timestamptz as visible_at,
  null::timestamptz as expires_at, a.receives, 0 as receives_before, a.group_id, a.trace,
  a.headers -> '_schedule' ->> 'name' as schedule, null::text as dead_letter_source, a.archived_at
from penstock.archive as a
where a.tenant_id = $1
  and a.id = $2;

-- name: follow_trace
select
  q.name as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers -> '_schedule' ->> 'name' as schedule,
  s.name as dead_letter_source, null::timestamptz as archived_at
from unnest($2::text[]) as b (beginning)
join penstock.messages as m
  on m.trace is not null
  and m.trace collate "C" >= b.beginning
  and m.trace collate "C" < b.beginning || U&'\+10FFFF'
join penstock.queues as q on q.bin_id = m.bin_id and q.tenant_id = $1
left join penstock.queues as s on s.id = m.dead_letter_source and s.tenant_id = $1
order by m.id
limit $3;

-- name: follow_archived_trace
select
  a.queue, a.id, null::smallint as state, a.sent_at, a.first_received_at, null::timestamptz as visible_at,
  null::timestamptz as expires_at, a.receives, 0 as receives_before, a.group_id, a.trace,
  a.headers -> '_schedule' ->> 'name' as schedule, null::text as dead_letter_source, a.archived_at
from unnest($2::text[]) as b (beginning)
join penstock.archive as a
  on a.tenant_id = $1
  and a.trace is not null
  and a.trace collate "C" >= b.beginning
  and a.trace collate "C" < b.beginning || U&'\+10FFFF'
order by a.id
limit $3;

-- name: follow_deliveries
select
  d.id, d.tenant_id, d.lane, d.due_at, d.lease, d.state, d.attempts, d.last_status, d.subscription_id, d.created_at,
  d.finished_at, d.confirms, d.subscription_key, d.message_id, d.topic, d.routing_key, d.endpoint, d.secret, d.delays,
  d.dead_letter_queue, d.last_error, '' as headers, '' as body
from penstock.deliveries as d
where d.tenant_id = $1
  and d.message_id = $2
order by d.id
limit $3;

-- name: follow_events
select e.* from penstock.follow_events($1, $2, null, null, $3) as e;

-- name: follow_traced_events
select e.* from penstock.follow_events($1, null, $2, $3, $4) as e;

-- name: hidden_messages
select
  q.name as queue, m.id, m.state, m.sent_at, m.first_received_at, m.visible_at, m.expires_at, m.receives,
  m.receives_before, m.group_id, m.trace, m.headers -> '_schedule' ->> 'name' as schedule,
  s.name as dead_letter_source, null::timestamptz as archived_at
from penstock.queues as q
join penstock.messages as m on m.bin_id = q.bin_id and m.state in (1, 2) and m.visible_at > $4
left join penstock.queues as s on s.id = m.dead_letter_source and s.tenant_id = $1
where q.tenant_id = $1
  and q.name = $2
order by m.visible_at, m.id
limit $3;

-- name: fifo_groups
-- A message in flight or delayed comes before the others: they wait for it.
select
  g.group_id, g.messages, f.id as first_id, f.state, f.visible_at, f.receives
from (
  select m.group_id, count(*) as messages, m.bin_id
  from (
    select n.group_id, n.bin_id
    from penstock.queues as q
    join penstock.messages as n on n.bin_id = q.bin_id
    where q.tenant_id = $1
      and q.name = $2
      and n.group_id is not null
    order by n.id
    limit $3
  ) as m
  group by m.group_id, m.bin_id
  order by count(*) desc, m.group_id
  limit $4
) as g
cross join lateral (
  select n.id, n.state, n.visible_at, n.receives
  from penstock.messages as n
  where n.bin_id = g.bin_id
    and n.group_id = g.group_id
  order by n.state = 3, n.id
  limit 1
) as f
order by g.messages desc, g.group_id;
