-- Messages: in, out, hidden, gone.
--
-- `indexed by` pins the plan: without statistics SQLite may prefer the expiry index and read the whole queue. The
-- partial indexes apply only where a query repeats their condition in its own words.

-- name: next_message_ids
update last_message
set id = id + :count
returning id;

-- name: find_dedup
select message_id
from dedups
where bin_id = :bin_id
and scope = :scope
and dedup_id = :dedup_id
and expires_at > :now;

-- name: insert_dedup
insert or replace into dedups (bin_id, scope, dedup_id, message_id, expires_at)
values (:bin_id, :scope, :dedup_id, :id, :expires_at);

-- name: insert_message
insert into messages (
  id, bin_id, state, priority, rank, visible_at, expires_at, receives, lease, sent_at,
  json, group_id, dedup_id, trace, attributes, headers, body, sequence
)
values (
  :id, :bin_id, :state, :priority, :rank, :visible_at, :expires_at, 0, 0, :now,
  :json, :group_id, :dedup_id, :trace, :attributes, :headers, :body, :sequence
);

-- name: release_due
update messages
set state = :state
where id in (
  select id
  from messages indexed by messages_in_flight
  where bin_id = :bin_id
  and state = 1
  and visible_at <= :now
  union all
  select id
  from messages indexed by messages_delayed
  where bin_id = :bin_id
  and state = 2
  and visible_at <= :now
  limit :limit
)
returning group_id;

-- name: find_messages
select m.id
from messages as m
left join queues as s on s.id = m.source_id
where m.bin_id = :bin_id
  and m.state = 0
  and m.expires_at > :now
  and (:text is null or instr(m.body, :text) > 0 or instr(m.headers, :text) > 0)
  and (:source is null or s.name = :source)
order by m.priority desc, m.rank
limit :limit;

-- name: ready_messages
select m.*, s.name as source
from messages as m indexed by messages_ready
left join queues as s on s.id = m.source_id
where m.bin_id = :bin_id
and m.state = 0
and m.expires_at > :now
order by m.priority desc, m.rank
limit :limit;

-- name: ready_messages_shuffled
-- Drawn from the first :window, so that a long queue costs no more than a short one.
select m.*, s.name as source
from (
  select id
  from (
    select id
    from messages indexed by messages_ready
    where bin_id = :bin_id
    and state = 0
    and expires_at > :now
    order by priority desc, rank
    limit :window
  )
  order by random()
  limit :limit
) as chosen
join messages as m on m.id = chosen.id
left join queues as s on s.id = m.source_id;

-- name: claim_message
update messages
set state = case when :visible_at > :now then 1 else state end,
    visible_at = :visible_at,
    receives = receives + 1,
    lease = lease + 1,
    first_received_at = coalesce(first_received_at, :now)
where id = :id;

-- name: next_due
select min(due)
from (
  select min(visible_at) as due
  from messages indexed by messages_in_flight
  where bin_id = :bin_id
  and state = 1
  union all
  select min(visible_at)
  from messages indexed by messages_delayed
  where bin_id = :bin_id
  and state = 2
);

-- name: locate_message
select id, bin_id, state, lease, receives, visible_at, group_id
from messages
where id = :id
and bin_id = :bin_id;

-- name: delete_from_bin
delete from messages
where id = :id
and bin_id = :bin_id
and (:lease is null or lease = :lease);

-- name: delete_message
delete from messages
where id = :id;

-- name: archive_message
insert or replace into archive (
  id, tenant_id, queue, priority, receives, sent_at, first_received_at, deleted_at,
  json, group_id, dedup_id, trace, attributes, headers, body
)
select
  id, :tenant, :queue, priority, receives, sent_at, first_received_at, :now,
  json, group_id, dedup_id, trace, attributes, headers, body
from messages
where id = :id;

-- name: hide_message
update messages
set state = :state,
    visible_at = :visible_at
where id = :id;

-- name: move_message
-- The lease rises, so that a receipt from before the move stays dead should the message ever come back.
update messages
set bin_id = :bin_id,
    state = :state,
    priority = :priority,
    rank = :rank,
    visible_at = :now,
    receives = case when :reset then 0 else receives end,
    receives_before = case when :reset then 0 else receives end,
    lease = lease + 1,
    source_id = :source_id,
    group_id = :group_id
where id = :id;

-- name: expired_messages
select m.id, m.bin_id, m.group_id, b.fifo
from messages as m indexed by messages_expiry
join bins as b on b.id = m.bin_id
where m.expires_at <= :now
limit :limit;

-- name: poison_messages
select id
from messages indexed by messages_bin
where bin_id = :bin_id
and receives >= :max_receives
and (state <> 1 or visible_at <= :now)
limit :limit;

-- name: delete_expired_dedups
delete from dedups
where (bin_id, scope, dedup_id) in (
  select bin_id, scope, dedup_id
  from dedups indexed by dedups_expiry
  where expires_at <= :now
  limit :limit
);

-- name: orphaned_bins
select id
from bins indexed by bins_orphaned
where orphaned = 1
order by id;

-- name: delete_bin_messages
delete from messages
where id in (
  select id
  from messages indexed by messages_bin
  where bin_id = :bin_id
  limit :limit
);

-- name: delete_bin_dedups
delete from dedups
where (bin_id, scope, dedup_id) in (
  select bin_id, scope, dedup_id
  from dedups
  where bin_id = :bin_id
  limit :limit
);

-- name: delete_bin
delete from bins
where id = :bin_id;
