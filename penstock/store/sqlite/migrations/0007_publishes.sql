-- Queues in other regions can be subscribed, and the limit of a queue counts its own receives only.

-- A queue that is subscribed from another region belongs to another part of the tenant.
alter table subscriptions add column target_tenant_id integer references tenants (id);

-- Receives in the queues that a message was in before.
alter table messages add column receives_before integer not null default 0;

create index deliveries_exhausted on deliveries (finished_at) where state = 3;
