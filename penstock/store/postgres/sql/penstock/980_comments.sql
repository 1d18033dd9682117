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
        ('list_queues', 'Queues of the tenant.'),
        ('list_topics', 'Topics of the tenant.'),
        ('list_schedules', 'Schedules of the tenant. next_fire_at is null until a server has computed it.'),
        ('metrics', 'Counts and ages of one queue, or of all.'),
        ('peek', 'What a receive would return. Hides nothing.'),
        ('send', 'Sends a message, text or JSON; returns its id.'),
        ('send_batch', 'Sends all messages, or raises an error and sends none; returns their ids.'),
        (
          'receive',
          'Returns up to max_messages messages and hides them for visibility_timeout_s seconds, by default '
          'that of the queue.'
        ),
        ('receive_wait', 'As receive, but waits up to wait_s seconds (0 to 20) for the first message.'),
        (
          'expect_messages',
          'For expect_s seconds (1 to 300), sends to the queue are announced on the channel penstock_arrivals; '
          'returns the text of the announcement.'
        ),
        ('pop', 'Receives and deletes in one step.'),
        ('delete', 'Deletes a message; with a lease only if that delivery is the latest. Returns whether it existed.'),
        ('delete_batch', 'Deletes messages, optionally by their leases; returns the ids of those that existed.'),
        ('archive', 'As delete, but keeps a copy in the table penstock.archive.'),
        ('archive_batch', 'As delete_batch, but keeps copies in the table penstock.archive.'),
        (
          'change_visibility',
          'Hides a message for so many seconds from now; returns when it becomes visible, or null if it is '
          'gone or the lease is not the latest.'
        ),
        ('publish', 'Publishes a message to a topic; returns its id.'),
        ('publish_event', 'Publishes an event by routing key; returns its id.'),
        ('enqueue_job', 'Enqueues a job; returns its id.'),
        ('create_queue', 'Creates a queue with these settings; returns whether it is new.'),
        ('alter_queue', 'Changes the settings that are given.'),
        ('drop_queue', 'Deletes a queue with its messages; returns whether it existed.'),
        ('purge_queue', 'Deletes all messages of a queue; returns how many.'),
        (
          'redrive',
          'Moves up to max_messages dead letters back to the queues they came from, or to a destination; '
          'returns how many.'
        ),
        ('create_topic', 'Creates a topic; returns whether it is new.'),
        ('drop_topic', 'Deletes a topic with its subscriptions; returns whether it existed.'),
        ('subscribe', 'Subscribes a queue to a topic.'),
        ('subscribe_events', 'Subscribes a queue to events whose routing key matches a pattern.'),
        ('unsubscribe', 'Removes the subscription of a queue to a topic or a pattern.'),
        ('create_schedule', 'Creates a schedule with these settings; returns whether it is new.'),
        ('pause_schedule', 'Pauses a schedule; returns whether it was active.'),
        ('resume_schedule', 'Resumes a schedule with the next fire after now; returns whether it was paused.'),
        ('drop_schedule', 'Deletes a schedule; returns whether it existed.')
    ) as c (name, text)
  loop
    for v_function in
      select p.oid from pg_proc as p where p.pronamespace = 'penstock'::regnamespace and p.proname = v_comment.name
    loop
      execute format('comment on function %s is %L', v_function, v_comment.text);
    end loop;
  end loop;
end;
$comments$;
