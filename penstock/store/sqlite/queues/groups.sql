-- FIFO groups. Their state is read index entry by index entry, so a long group costs no more than a short one.

-- name: group_is_empty
select not exists (
  select 1
  from messages indexed by messages_group
  where bin_id = :bin_id
  and group_id = :group_id
);

-- name: group_heads
-- The oldest message of each state: ready, in flight, delayed, blocked.
select
  (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 0),
  (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 1),
  (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 2),
  (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 3);

-- name: line_up
-- Last in the line of groups.
update messages
set rank = :rank
where id = :id;

-- name: was_received
select receives > 0
from messages
where id = :id;

-- name: set_state
update messages
set state = :state
where id = :id;

-- name: ready_groups
-- One ready message is one group: its oldest.
select rank, group_id
from messages indexed by messages_ready
where bin_id = :bin_id
and state = 0
and priority = :priority
and rank > :after
order by rank
limit :limit;

-- name: group_messages
-- What the group can hand out, in order: its ready message, and those blocked behind it that precede any hidden one.
select m.*, s.name as source
from (
  select id
  from messages indexed by messages_group
  where bin_id = :bin_id
  and group_id = :group_id
  and state = 0
  union all
  select id
  from (
    select id
    from messages indexed by messages_group
    where bin_id = :bin_id
    and group_id = :group_id
    and state = 3
    and id < min(
      coalesce(
        (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 1),
        9223372036854775807
      ),
      coalesce(
        (select min(id) from messages indexed by messages_group where bin_id = :bin_id and group_id = :group_id and state = 2),
        9223372036854775807
      )
    )
    order by id
    limit :limit
  )
) as near
join messages as m on m.id = near.id
left join queues as s on s.id = m.source_id
order by m.id
limit :limit;
