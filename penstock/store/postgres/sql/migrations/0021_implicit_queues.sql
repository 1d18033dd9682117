-- Queues that were created by their first use, and the numbers of their messages.

alter table penstock.queues add column implicit boolean not null default false;

-- Null in other queues, and for messages that a user's own transaction sent: a counter would make transactions wait
-- for each other's commit.
alter table penstock.messages add column sequence bigint;

-- The last number each implicit queue gave out. Not a column of queues: every send writes it.
create table penstock.queue_sequences (
  queue_id bigint primary key references penstock.queues (id) on delete cascade,
  last bigint not null
);
