-- Queues, their bins and their counts.

-- name: queue
-- What the hot verbs need to know of a queue, in the order of the fields of QueueRow.
select
  q.id,
  q.tenant_id,
  q.name,
  q.fifo,
  q.bin_id,
  q.visibility_timeout_s,
  q.delay_s,
  q.retention_s,
  q.max_message_bytes,
  q.max_length,
  q.max_receives,
  q.dead_letter_queue_id,
  q.lifo,
  q.archive,
  q.content_dedup,
  q.dedup_window_s,
  q.dedup_scope,
  b.total,
  s.last
from queues as q
join bins as b on b.id = q.bin_id
left join queue_sequences as s on s.queue_id = q.id
where q.tenant_id = :tenant
and q.name = :name;

-- name: queue_by_id
select
  q.id,
  q.tenant_id,
  q.name,
  q.fifo,
  q.bin_id,
  q.visibility_timeout_s,
  q.delay_s,
  q.retention_s,
  q.max_message_bytes,
  q.max_length,
  q.max_receives,
  q.dead_letter_queue_id,
  q.lifo,
  q.archive,
  q.content_dedup,
  q.dedup_window_s,
  q.dedup_scope,
  b.total,
  s.last
from queues as q
join bins as b on b.id = q.bin_id
left join queue_sequences as s on s.queue_id = q.id
where q.id = :id;

-- name: get_queue
select q.*, d.name as dead_letter_queue
from queues as q
left join queues as d on d.id = q.dead_letter_queue_id
where q.tenant_id = :tenant
and q.name = :name;

-- name: list_queues
select q.*, d.name as dead_letter_queue
from queues as q
left join queues as d on d.id = q.dead_letter_queue_id
where q.tenant_id = :tenant
and q.name > :after
and q.name >= :prefix
and substr(q.name, 1, length(:prefix)) = :prefix
order by q.name
limit :limit;

-- name: insert_queue
insert into queues (
  tenant_id, name, fifo, bin_id, visibility_timeout_s, delay_s, retention_s, receive_wait_s, max_message_bytes,
  max_length, max_receives, dead_letter_queue_id, lifo, archive, content_dedup, dedup_window_s, dedup_scope,
  throughput_limit, tags, labels, created_at, updated_at, implicit, own_visibility_timeout
)
values (
  :tenant, :name, :fifo, :bin_id, :visibility_timeout_s, :delay_s, :retention_s, :receive_wait_s, :max_message_bytes,
  :max_length, :max_receives, :dead_letter_queue_id, :lifo, :archive, :content_dedup, :dedup_window_s, :dedup_scope,
  :throughput_limit, :tags, :labels, :now, :now, :implicit, :own_visibility_timeout
)
returning id;

-- name: insert_sequence
insert into queue_sequences (queue_id, last)
values (:queue_id, 0);

-- name: set_sequence
update queue_sequences
set last = :last
where queue_id = :queue_id;

-- name: implicit_bins
select bin_id
from queues
where implicit = 1
order by id;

-- name: set_default_visibility_timeout
update queues
set visibility_timeout_s = :visibility_timeout_s
where own_visibility_timeout = 0;

-- name: update_queue
update queues
set visibility_timeout_s = :visibility_timeout_s,
    own_visibility_timeout = max(own_visibility_timeout, :own_visibility_timeout),
    delay_s = :delay_s,
    retention_s = :retention_s,
    receive_wait_s = :receive_wait_s,
    max_message_bytes = :max_message_bytes,
    max_length = :max_length,
    max_receives = :max_receives,
    dead_letter_queue_id = :dead_letter_queue_id,
    lifo = :lifo,
    archive = :archive,
    content_dedup = :content_dedup,
    dedup_window_s = :dedup_window_s,
    dedup_scope = :dedup_scope,
    throughput_limit = :throughput_limit,
    tags = :tags,
    labels = :labels,
    updated_at = :now
where tenant_id = :tenant
and name = :name;

-- name: delete_queue
delete from queues
where id = :id;

-- name: set_queue_bin
update queues
set bin_id = :bin_id
where id = :id;

-- name: dead_letter_sources
select name
from queues
where dead_letter_queue_id = :id
order by name;

-- name: insert_bin
insert into bins (fifo, sent)
values (:fifo, :sent)
returning id;

-- name: bin_sent
select sent
from bins
where id = :bin_id;

-- name: orphan_bin
update bins
set orphaned = 1
where id = :bin_id;

-- name: count_bin
update bins
set total = total + :total,
    sent = sent + :sent
where id = :bin_id;

-- name: queue_counts
select
  q.tenant_id,
  q.name,
  b.total,
  b.sent,
  (
    select count(*)
    from messages as m indexed by messages_in_flight
    where m.bin_id = b.id
    and m.state = 1
    and m.visible_at > :now
  ) as in_flight,
  (
    select count(*)
    from messages as m indexed by messages_delayed
    where m.bin_id = b.id
    and m.state = 2
    and m.visible_at > :now
  ) as delayed,
  (select m.sent_at from messages as m indexed by messages_bin where m.bin_id = b.id order by m.id limit 1) as oldest,
  (select m.sent_at from messages as m indexed by messages_bin where m.bin_id = b.id order by m.id desc limit 1) as newest
from queues as q
join bins as b on b.id = q.bin_id
where (:tenant is null or q.tenant_id = :tenant)
and (:names is null or q.name in (select value from json_each(:names)))
order by q.tenant_id, q.name;
