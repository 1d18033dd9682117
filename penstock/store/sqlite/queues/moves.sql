-- Redrive: move tasks and the messages they may take.

-- name: insert_move
insert into moves (
  tenant_id, source_id, destination_id, destination, rate, state, moved, to_move, started_at, stepped_at
)
values (:tenant, :source_id, :destination_id, :destination, :rate, 'running', 0, :to_move, :now, :now)
returning id;

-- name: get_move
select t.*, q.name as source
from moves as t
join queues as q on q.id = t.source_id
where t.id = :id
and t.tenant_id = :tenant;

-- name: list_moves
select t.*, q.name as source
from moves as t
join queues as q on q.id = t.source_id
where t.source_id = :source_id
order by t.id desc
limit :limit;

-- name: running_move
select id
from moves
where source_id = :source_id
and state = 'running';

-- name: running_moves
select t.*, q.name as source
from moves as t
join queues as q on q.id = t.source_id
where t.state = 'running'
order by t.id;

-- name: step_move
update moves
set state = :state,
    moved = moved + :moved,
    failure = :failure,
    stepped_at = :stepped_at
where id = :id;

-- name: movable_message
select id, bin_id, priority, source_id, group_id
from messages
where id = :id
and bin_id = :bin_id
and (state in (0, 3) or visible_at <= :now);

-- name: movable_messages
-- Oldest first; what is in flight or delayed stays.
select id, bin_id, priority, source_id, group_id
from messages indexed by messages_bin
where bin_id = :bin_id
and (state in (0, 3) or visible_at <= :now)
order by id
limit :limit;
