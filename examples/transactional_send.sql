-- A row and the message about it, stored together or not at all.
--
--   psql "$DATABASE_URL" -f examples/transactional_send.sql
--
-- The database is one that `penstock serve` or `penstock migrate` has prepared.

select penstock.create_queue('invoices');

create table if not exists invoices (
  id bigint generated always as identity primary key,
  customer text not null,
  amount numeric not null
);

begin;
with stored as (
  insert into invoices (customer, amount) values ('ada', 40) returning id
)
select penstock.send('invoices', jsonb_build_object('invoice', stored.id))
from stored;
commit;

-- The customer cancels: neither the row nor the message is stored.
begin;
with stored as (
  insert into invoices (customer, amount) values ('bob', 60) returning id
)
select penstock.send('invoices', jsonb_build_object('invoice', stored.id))
from stored;
rollback;

select queue_name, visible from penstock.metrics('invoices');
