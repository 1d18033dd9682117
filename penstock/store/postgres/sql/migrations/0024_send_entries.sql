-- A message to send, with the settings that apply to it: its own, or those of its queue.
create type penstock.send_entry as (
  position integer,
  queue_id bigint,
  bin_id bigint,
  fifo boolean,
  lifo boolean,
  implicit boolean,
  max_length bigint,
  group_id text,
  dedup_id text,
  -- '' when deduplication covers the whole queue.
  dedup_group text,
  dedup_window_s integer,
  priority integer,
  delay_s integer,
  retention_s integer
);
