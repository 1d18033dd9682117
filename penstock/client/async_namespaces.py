"""The namespaces of `AsyncClient`."""

from __future__ import annotations

from penstock.client.api import admin, queues, schedules, streams, topics
from penstock.client.shells import AsyncNamespace, awaited


class AsyncQueues(AsyncNamespace):
    """Queues and their messages."""

    create = awaited(queues.create)
    list = awaited(queues.list_queues)
    get = awaited(queues.get)
    change = awaited(queues.change)
    delete = awaited(queues.delete)
    purge = awaited(queues.purge)
    send = awaited(queues.send)
    send_many = awaited(queues.send_many)
    send_entries = awaited(queues.send_entries)
    receive = awaited(queues.receive)
    peek = awaited(queues.peek)
    delete_message = awaited(queues.delete_message)
    delete_messages = awaited(queues.delete_messages)
    archive = awaited(queues.archive)
    change_visibility = awaited(queues.change_visibility)
    sources = awaited(queues.sources)
    redrive = awaited(queues.redrive)
    redrive_messages = awaited(queues.redrive_messages)
    redrives = awaited(queues.redrives)
    cancel_redrive = awaited(queues.cancel_redrive)


class AsyncTopics(AsyncNamespace):
    """Topics, events by routing key, subscriptions, deliveries and the outbox."""

    create = awaited(topics.create)
    list = awaited(topics.list_topics)
    delete = awaited(topics.delete)
    publish = awaited(topics.publish)
    subscribe = awaited(topics.subscribe)
    publish_event = awaited(topics.publish_event)
    subscribe_pattern = awaited(topics.subscribe_pattern)
    topic_subscriptions = awaited(topics.topic_subscriptions)
    pattern_subscriptions = awaited(topics.pattern_subscriptions)
    subscriptions = awaited(topics.subscriptions)
    unsubscribe = awaited(topics.unsubscribe)
    deliveries = awaited(topics.deliveries)
    delivery = awaited(topics.delivery)
    replay_delivery = awaited(topics.replay_delivery)
    delete_delivery = awaited(topics.delete_delivery)
    outbox = awaited(topics.outbox)
    clear_outbox = awaited(topics.clear_outbox)
    opt_out = awaited(topics.opt_out)


class AsyncStreams(AsyncNamespace):
    """Streams, their events and consumers."""

    create = awaited(streams.create)
    list = awaited(streams.list_streams)
    get = awaited(streams.get)
    change = awaited(streams.change)
    delete = awaited(streams.delete)
    health = awaited(streams.health)
    tick = awaited(streams.tick)
    send = awaited(streams.send)
    send_many = awaited(streams.send_many)
    send_later = awaited(streams.send_later)
    add_consumer = awaited(streams.add_consumer)
    consumers = awaited(streams.consumers)
    delete_consumer = awaited(streams.delete_consumer)
    receive = awaited(streams.receive)
    ack = awaited(streams.ack)
    nack = awaited(streams.nack)
    dead_letters = awaited(streams.dead_letters)
    replay = awaited(streams.replay)
    delete_dead_letters = awaited(streams.delete_dead_letters)


class AsyncSchedules(AsyncNamespace):
    """Schedules."""

    create = awaited(schedules.create)
    put = awaited(schedules.put)
    list = awaited(schedules.list_schedules)
    get = awaited(schedules.get)
    change = awaited(schedules.change)
    delete = awaited(schedules.delete)
    run = awaited(schedules.run)
    preview = awaited(schedules.preview)


class AsyncAdmin(AsyncNamespace):
    """Tenants, tokens, the audit log, the state of the server, pipelines and insights."""

    create_tenant = awaited(admin.create_tenant)
    tenants = awaited(admin.tenants)
    create_token = awaited(admin.create_token)
    tokens = awaited(admin.tokens)
    rotate_token = awaited(admin.rotate_token)
    revoke_token = awaited(admin.revoke_token)
    audit = awaited(admin.audit)
    status = awaited(admin.status)
    follow = awaited(admin.follow)
    version = awaited(admin.version)
    pipelines = awaited(admin.pipelines)
    pipeline_runs = awaited(admin.pipeline_runs)
    insights = awaited(admin.insights)
    insight_errors = awaited(admin.insight_errors)
    findings = awaited(admin.findings)
