-- Queues that were created by their first use, and the numbers of their messages.

alter table queues add column implicit integer not null default 0;

alter table messages add column sequence integer;

-- The last number each implicit queue gave out.
create table queue_sequences (
  queue_id integer primary key references queues (id) on delete cascade,
  last integer not null
) strict;
