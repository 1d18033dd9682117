-- A shop that sells, is clicked at, and makes mistakes: what `make demo-pipeline` feeds its pipelines with.

-- name: tables
do $$
begin
  create schema shop;
  create table shop.customers (
    id bigint primary key,
    name text not null,
    city text,
    credit numeric(12, 2) not null default 0
  );
  create table shop.orders (
    id bigint primary key,
    customer_id bigint not null,
    status text not null,
    total numeric(12, 2) not null,
    placed_at timestamptz not null default clock_timestamp()
  );
end;
$$;

-- name: first_rows
do $$
begin
  insert into shop.customers (id, name, city)
  select n, 'customer ' || n, (array['Bern', 'Lyon', 'Oslo', 'Graz'])[1 + n % 4]
  from generate_series(1, 2000) as n;
  insert into shop.orders (id, customer_id, status, total)
  select n, 1 + n % 2000, 'placed', (n % 900) + 0.95
  from generate_series(1, 5000) as n;
end;
$$;

-- name: changes
do $$
begin
  insert into shop.orders (id, customer_id, status, total)
  select n, 1 + n % 2000, 'placed', (n % 900) + 0.95
  from generate_series(5001, 9000) as n;
  update shop.orders as o set status = 'paid' where o.id % 3 <> 0;
  update shop.customers as c set credit = c.credit + 10, city = 'Kyiv' where c.id % 5 = 0;
  delete from shop.orders as o where o.id % 20 = 0;
  -- Two customers turn out to be one: a key that changes.
  update shop.customers as c set id = c.id + 100000 where c.id % 100 = 1;
  alter table shop.customers add column vip boolean not null default false;
  update shop.customers as c set vip = true where c.id % 50 = 0;
end;
$$;

-- name: click_stream
select pgque.create_queue('clicks'), pgque.set_queue_config('clicks', 'max_retries', '2'),
  pgque.subscribe('clicks', 'basket');

-- name: clicks
select count(*)
from generate_series(1, %(batches)s) as b,
  pgque.send_batch(
    'clicks',
    (array['view', 'search', 'basket', 'buy'])[1 + b %% 4],
    array(
      select json_build_object('visitor', n %% 977, 'page', '/product/' || n %% 311, 'at', b)::text
      from generate_series(1, %(size)s) as n
    )
  );

-- name: tick
select pgque.tick_if_waiting('clicks');

-- name: consume
with batch as materialized (select m from pgque.receive('clicks', 'basket', 5000) as m),
refused as (
  select pgque.nack(
    (b.m).batch_id, b.m, interval '0',
    format('timeout after %s ms at 10.0.%s.7', 900 + (b.m).msg_id % 100, (b.m).msg_id % 250)
  ) as answer
  from batch as b
  where (b.m).msg_id % 211 = 0
    or ((b.m).retry_count > 0 and (b.m).msg_id % 2 = 0)
)
select
  (select count(*) from batch),
  (select coalesce(sum(r.answer), 0) from refused as r),
  (select max((b.m).batch_id) from batch as b);

-- name: acknowledge
select pgque.ack(%(batch)s);

-- name: bring_back
select pgque.maint_retry_events();

-- name: mail_queue
select penstock.create_queue('mail');

-- name: send_mail
select cardinality(penstock.send_batch('mail', array(select 'mail ' || n from generate_series(1, %(count)s) as n)));

-- name: archive_mail
select count(penstock.archive('mail', m.id, m.lease)) from penstock.receive('mail', 30, 10) as m;

-- name: insights
select r.kind, r.name, r.sent, r.done, r.retried, r.dead, round(r.p50_s::numeric, 3)::float as p50_s,
  round(r.p99_s::numeric, 3)::float as p99_s
from penstock.insights as r
where r.step = 'day'
order by r.kind, r.name;

-- name: errors
select e.kind, e.name, sum(e.count)::bigint as count, e.shape, min(e.example) as example
from penstock.insight_errors as e
group by e.kind, e.name, e.shape
order by 3 desc
limit 10;

-- name: customers
select count(*) from shop.customers;

-- name: orders
select count(*) from shop.orders;

-- name: runs
select r.pipeline, r.state, r.rows, r.batches, r.lag_events from penstock.pipeline_runs as r order by r.id;
