-- Null: nobody has set the queue's visibility timeout, and the server's default applies.
alter table penstock.queues alter column visibility_timeout_s drop not null;
alter table penstock.queues alter column visibility_timeout_s drop default;
