-- What the functions for users do, as psql and docs/sql-reference.md show it. A function without a comment is internal.

do $comments$
declare
  v_comment record;
  v_function regprocedure;
begin
  for v_comment in
    select c.name, c.text
    from (
      values
        ('version', 'Version of the schema.'),
        ('status', 'State of the ticker and of maintenance.'),
        ('get_queue_info', 'Settings and position of one stream, or of all.'),
        ('get_consumer_info', 'Position and lag of consumers.'),
        ('queue_stats', 'Depth, age of the oldest event, rate, rotation, ticks and dead letters of each stream.'),
        ('consumer_stats', 'Lag, pending events and open batch of each consumer.'),
        ('queue_health', 'Checks of each stream: ok, warning or critical.'),
        ('throughput', 'Events over time.'),
        ('latency_percentiles', 'Time from the tick of a batch to its acknowledgement.'),
        ('error_rate', 'Failures and dead letters over time.'),
        ('in_flight', 'Open batches of a stream.'),
        ('stuck_consumers', 'Consumers whose lag exceeds the threshold.'),
        ('otel_metrics', 'All counters and gauges, for a collector of OpenTelemetry.'),
        ('insert_event', 'Sends an event, as in PgQ; returns its id.'),
        ('insert_events', 'Sends events with one statement; returns their ids.'),
        ('send', 'Sends an event; returns its id.'),
        ('send_batch', 'Sends events of one type with one statement; returns their ids.'),
        ('send_once', 'Sends an event unless its key was used within the window; returns the id that the key stands for.'),
        ('send_at', 'Sends an event later; returns the number it is kept under, or its id if it is due.'),
        ('register_consumer', 'Registers a consumer at the newest tick; returns 1 if it is new.'),
        ('register_consumer_at', 'Registers a consumer at a tick, or moves it there.'),
        ('unregister_consumer', 'Removes a consumer.'),
        ('subscribe', 'As register_consumer.'),
        ('unsubscribe', 'As unregister_consumer.'),
        ('next_batch', 'Opens the next batch of a consumer, or of a subconsumer; returns its id, or null.'),
        ('next_batch_info', 'As next_batch, with the ticks of the batch.'),
        ('next_batch_custom', 'As next_batch_info, for batches of a minimum lag, size or duration.'),
        ('get_batch_info', 'Ticks, size and age of an open batch.'),
        ('get_batch_events', 'Events of an open batch.'),
        ('get_batch_cursor', 'Opens a cursor over the events of a batch.'),
        ('finish_batch', 'Acknowledges a whole batch.'),
        ('event_retry', 'Has an event of an open batch delivered again later.'),
        ('batch_retry', 'Has all events of an open batch delivered again later.'),
        ('receive', 'Events of the open batch of a consumer, or of the next one.'),
        (
          'receive_coop',
          'The same for a subconsumer, which may take over the batch of one that was silent for '
          'i_dead_interval.'
        ),
        ('ack', 'Acknowledges the events that were received; returns 0 if the batch is no longer open.'),
        ('nack', 'Has a received event delivered again later; a dead letter when its retries are used up.'),
        ('event_dead', 'Makes a received event a dead letter.'),
        ('dlq_inspect', 'Dead letters of a stream.'),
        ('dlq_replay', 'Sends a dead letter again.'),
        ('dlq_replay_all', 'Sends all dead letters of a stream again; returns how many.'),
        ('dlq_purge', 'Deletes dead letters older than this; returns how many.'),
        ('subscribe_subconsumer', 'Registers a worker that shares the position of a consumer.'),
        ('unsubscribe_subconsumer', 'Removes such a worker; with i_batch_handling 1 its open batch becomes retries.'),
        (
          'touch_subconsumer',
          'Heartbeat of such a worker: its open batch is not taken over for another dead interval. Returns 0 '
          'if it is not registered.'
        ),
        ('subscribe_partitioned', 'Divides a consumer into parts that keep the order of each key.'),
        ('unsubscribe_partitioned', 'Removes all parts of a consumer.'),
        ('claim_part', 'Claims a free part for this transaction; returns its name as a consumer.'),
        ('ticker', 'Ticks one stream, or all that are due.'),
        ('force_tick', 'Ticks even without events.'),
        ('force_next_tick', 'Has the next call of ticker make a tick.'),
        ('tick_if_waiting', 'Ticks when events wait for a tick; returns the tick, or null.'),
        ('tick_now', 'The same, and waits for a ticker that is at work.'),
        ('expect_events', 'Has senders notify the channel pgque_wake_STREAM for a while.'),
        ('test_send', 'For tests: sends an event of type test.'),
        ('test_consume', 'For tests: ticks, receives one event and acknowledges it.'),
        ('assert_empty', 'For tests: an error if a consumer has events to come.'),
        ('assert_dlq_empty', 'For tests: an error if there are dead letters.'),
        ('jsontriga', 'Trigger that sends changes of a table as JSON.'),
        ('logutriga', 'Trigger that sends changes of a table URL-encoded.'),
        ('sqltriga', 'Trigger that sends changes of a table as SQL.'),
        ('track_table', 'Creates the triggers of a table, and the stream.'),
        ('untrack_table', 'Drops these triggers.'),
        ('change_triggers', 'Change triggers of a table.'),
        ('create_queue', 'Creates a stream; returns 1 if it is new.'),
        ('drop_queue', 'Deletes a stream with its events.'),
        ('set_queue_config', 'Changes a setting of a stream.'),
        ('pause_queue', 'Stops the ticks of a stream.'),
        ('resume_queue', 'Resumes the ticks of a stream.'),
        ('open_load', 'Creates a table for many events of a stream.'),
        ('close_load', 'Closes such a table and builds its index; returns the number of events.'),
        ('publish_loads', 'Makes closed loads part of the stream.'),
        ('discard_loads', 'Drops loads that will not be published.'),
        ('grant_queue', 'Allows a role to produce to a stream or to consume it.'),
        ('revoke_queue', 'Takes such a right away.'),
        ('open_queue', 'Opens a stream to all roles again.'),
        ('start', 'Has pg_cron run the ticker and maintenance.'),
        ('stop', 'Removes these jobs.'),
        ('maint', 'Rotates tables, delivers what is due, deletes what has expired.'),
        ('maint_deliver_delayed', 'Sends delayed events that are due; returns how many.'),
        ('maint_retry_events', 'Delivers failed events that are due; returns how many.'),
        ('upgrade', 'Brings an older installation up to date.'),
        ('uninstall', 'Drops the schema with all streams.')
    ) as c (name, text)
  loop
    for v_function in
      select p.oid from pg_proc as p where p.pronamespace = 'pgque'::regnamespace and p.proname = v_comment.name
    loop
      execute format('comment on function %s is %L', v_function, v_comment.text);
    end loop;
  end loop;
end;
$comments$;
