-- Finding jobs by a value of their payload, without an index that every lease and report of a job would have to change.

-- For each thousand jobs of a queue, the hashes of all values in their payloads. Written once, when the jobs are
-- certain to be complete: a search reads the hashes of all blocks, and then the jobs of those that may have the value.
create table penstock.job_blocks (
  queue_id integer not null,
  first_id bigint not null,
  last_id bigint not null,
  hashes integer[] not null,
  primary key (queue_id, first_id)
);

-- Hashes do not compress.
alter table penstock.job_blocks alter column hashes set storage external;

-- One row: jobs up to `settled` are committed or will never be. `number` becomes settled once no transaction older
-- than `horizon` runs; `next_number` was read before that horizon.
create table penstock.job_block_state (
  settled bigint not null,
  number bigint not null,
  horizon xid8 not null,
  next_number bigint not null
);

insert into penstock.job_block_state (settled, number, horizon, next_number)
values (0, 0, '0', 0);
