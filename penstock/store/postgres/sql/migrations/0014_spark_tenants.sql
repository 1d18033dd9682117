-- Spark writes to streams of tenants: the function takes the tenant now.

drop function if exists penstock.publish_staged_events(bigint[], text);
