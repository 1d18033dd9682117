-- Following one thing: by trace, by id in the archive, and from a publish to its deliveries.

-- Only messages with a trace are in these indexes.
create index messages_trace on penstock.messages (trace collate "C") where trace is not null;

create index archive_trace on penstock.archive (tenant_id, trace collate "C") where trace is not null;

create index archive_id on penstock.archive (tenant_id, id);

create index deliveries_message on penstock.deliveries (tenant_id, message_id);
