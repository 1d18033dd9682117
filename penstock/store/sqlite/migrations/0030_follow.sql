-- Following one thing: by trace, and from a publish to its deliveries.

create index messages_trace on messages (trace) where trace is not null;

create index archive_trace on archive (tenant_id, trace) where trace is not null;

create index deliveries_message on deliveries (tenant_id, message_id);
