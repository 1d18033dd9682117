-- 0: nobody has set the queue's visibility timeout, and the store keeps it at the server's default.
alter table queues add column own_visibility_timeout integer not null default 1;
