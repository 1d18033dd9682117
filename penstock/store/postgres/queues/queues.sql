-- What the server says to PostgreSQL. The rules are in the functions; these are the calls.

-- name: ping
select 1;

-- name: create_queue
select penstock.create_queue_row($1, $2, $3::jsonb, $4);

-- name: create_implicit_queue
select penstock.create_implicit_queue_row($1, $2, $3::jsonb, $4);

-- name: update_queue
select penstock.update_queue_row($1, $2, $3::jsonb, $4);

-- name: get_queue
select q.* from penstock.queue_list as q where q.tenant_id = $1 and q.name = $2;

-- name: list_queues
select q.*
from penstock.queue_list as q
where q.tenant_id = $1
  and q.name collate "C" >= $2
  and starts_with(q.name, $2)
  and q.name collate "C" > $3
order by q.name collate "C"
limit $4;

-- name: drop_queue
select penstock.drop_queue_row($1, $2);

-- name: purge_queue
select penstock.purge_queue_row($1, $2);

-- name: count_queues
select c.* from penstock.count_queues($1, $2, $3) as c;

-- name: dead_letter_sources
select s.name
from penstock.queues as s
where s.dead_letter_queue_id = (penstock.find_queue($1, $2)).id
order by s.name collate "C";

-- name: send
select s.ids, s.codes, s.duplicates, s.sequences
from penstock.send_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) as s;

-- name: send_without_sync
select s.ids, s.codes, s.duplicates, s.sequences
from set_config('synchronous_commit', 'off', true),
  penstock.send_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) as s;

-- name: receive
select r.* from penstock.receive_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $10, $11) as r;

-- name: finish
select penstock.finish_many($1, $2, $3, $4, $5, $6);

-- name: exchange
-- Sends, deletes and receives in one transaction: one round trip and one commit. In this order, because a send may lock
-- queues, and messages are locked after queues. The arrays of a part without entries are null, and it is not run.
select
  s.ids, s.codes, s.duplicates, s.sequences, null::text[] as answers,
  null::integer as request, null::text as code, null::timestamptz as next_due_at, null::bigint as place,
  null::bigint as id, null::bigint as lease, null::text as body, null::boolean as is_json, null::smallint as priority,
  null::integer as receives, null::timestamptz as sent_at, null::timestamptz as first_received_at,
  null::timestamptz as visible_at, null::text as group_id, null::text as dedup_id, null::json as attributes,
  null::json as headers, null::text as trace, null::text as dead_letter_source, null::bigint as sequence
from penstock.send_many($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $1) as s
where $2::bigint[] is not null
union all
select
  null, null, null, null, penstock.finish_many($16, $17, $18, $19, false, $1),
  null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
where $16::bigint[] is not null
union all
select
  null, null, null, null, null, r.request, r.code, r.next_due_at, r.place, r.id, r.lease, r.body, r.is_json,
  r.priority, r.receives, r.sent_at, r.first_received_at, r.visible_at, r.group_id, r.dedup_id, r.attributes, r.headers,
  r.trace, r.dead_letter_source, r.sequence
from penstock.receive_many($20, $21, $22, $23, $24, $25, $26, $27, $28, $1, $31, $29, $30) as r
where $20::bigint[] is not null;

-- name: change_visibility
select c.answers, c.visible_at from penstock.change_visibility_many($1, $2, $3, $4, $5, $6) as c;

-- name: peek
select p.*
from (
  select
    m.*,
    (select q.name from penstock.queues as q where q.id = m.dead_letter_source) as dead_letter_queue,
    sum(penstock.message_bytes(m.body, m.attributes, m.headers)) over before as bytes_before
  from penstock.peek_many($1, $2, $3, $4, $5) with ordinality as m
  window before as (order by m.ordinality rows between unbounded preceding and 1 preceding)
) as p
where coalesce(p.bytes_before, 0) < $6
order by p.ordinality;

-- name: find_messages
select m.id
from penstock.queues as q
join penstock.messages as m on m.bin_id = q.bin_id
where q.tenant_id = $1
  and q.name = $2
  and m.state = 0
  and m.expires_at > $6
  and ($3::text is null or strpos(m.body, $3) > 0 or strpos(m.headers::text, $3) > 0)
  and (
    $4::text is null
    or m.dead_letter_source = (select s.id from penstock.queues as s where s.tenant_id = $1 and s.name = $4)
  )
order by m.place
limit $5;

-- name: start_move
select penstock.start_move_task($1, $2, $3, $4, $5);

-- name: cancel_move
select penstock.cancel_move_task($1, $2);

-- name: get_move
select t.*, s.name as source
from penstock.move_tasks as t
join penstock.queues as s on s.id = t.source_id
where t.tenant_id = $1
  and t.id = $2;

-- name: list_moves
select t.*, s.name as source
from penstock.move_tasks as t
join penstock.queues as s on s.id = t.source_id
where t.source_id = $1
order by t.id desc
limit $2;

-- name: run_moves
select r.moved, r.tenants, r.queues from penstock.run_move_tasks($1) as r;

-- name: move_by_ids
select r.moved, r.tenants, r.queues from penstock.move_by_ids($1, $2, $3, $4, $5) as r;

-- name: sweep
select penstock.sweep($1, $2);

-- name: sweep_poison
select penstock.sweep_poison($1, $2, $3);

-- name: expect
with expected as (
  insert into penstock.waiting (queue_id, node, until)
  select q.id, $3, $4::timestamptz + interval '30 s'
  from penstock.queues as q
  where q.tenant_id = $1
    and q.name = $2
  on conflict (queue_id, node) do update
  set until = excluded.until
  returning until
)
select penstock.note_waiting(e.until) from expected as e;

-- name: create_tenant
insert into penstock.tenants (name, created_at) values ($1, $2) on conflict (name) do nothing;

-- name: get_tenant
select t.* from penstock.tenants as t where t.name = $1;

-- name: list_tenants
select t.* from penstock.tenants as t order by t.name collate "C";

-- name: add_token
with added as (
  insert into penstock.tokens (tenant_id, name, prefix, sha256, scopes, queues, created_at, expires_at, aws_secret)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
  returning *
)
select k.*, t.name as tenant_name
from added as k
join penstock.tenants as t on t.id = k.tenant_id;

-- name: find_tokens
select k.*, t.name as tenant_name
from penstock.tokens as k
join penstock.tenants as t on t.id = k.tenant_id
where k.prefix = $1;

-- name: list_tokens
select k.*, t.name as tenant_name
from penstock.tokens as k
join penstock.tenants as t on t.id = k.tenant_id
where $1::bigint is null
  or k.tenant_id = $1
order by k.id;

-- name: end_token
with ended as (
  update penstock.tokens as k
  set revoked_at = least(k.revoked_at, $2)
  where k.id = $1
  returning k.*
)
select k.*, t.name as tenant_name
from ended as k
join penstock.tenants as t on t.id = k.tenant_id;

-- name: saw_token
update penstock.tokens set last_seen_at = $2 where id = $1;
