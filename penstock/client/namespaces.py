"""The namespaces of `Client`."""

from __future__ import annotations

from penstock.client.api import admin, queues, schedules, streams, topics
from penstock.client.shells import Namespace, blocking


class Queues(Namespace):
    """Queues and their messages."""

    create = blocking(queues.create)
    list = blocking(queues.list_queues)
    get = blocking(queues.get)
    change = blocking(queues.change)
    delete = blocking(queues.delete)
    purge = blocking(queues.purge)
    send = blocking(queues.send)
    send_many = blocking(queues.send_many)
    send_entries = blocking(queues.send_entries)
    receive = blocking(queues.receive)
    peek = blocking(queues.peek)
    delete_message = blocking(queues.delete_message)
    delete_messages = blocking(queues.delete_messages)
    archive = blocking(queues.archive)
    change_visibility = blocking(queues.change_visibility)
    sources = blocking(queues.sources)
    redrive = blocking(queues.redrive)
    redrive_messages = blocking(queues.redrive_messages)
    redrives = blocking(queues.redrives)
    cancel_redrive = blocking(queues.cancel_redrive)


class Topics(Namespace):
    """Topics, events by routing key, subscriptions, deliveries and the outbox."""

    create = blocking(topics.create)
    list = blocking(topics.list_topics)
    delete = blocking(topics.delete)
    publish = blocking(topics.publish)
    subscribe = blocking(topics.subscribe)
    publish_event = blocking(topics.publish_event)
    subscribe_pattern = blocking(topics.subscribe_pattern)
    topic_subscriptions = blocking(topics.topic_subscriptions)
    pattern_subscriptions = blocking(topics.pattern_subscriptions)
    subscriptions = blocking(topics.subscriptions)
    unsubscribe = blocking(topics.unsubscribe)
    deliveries = blocking(topics.deliveries)
    delivery = blocking(topics.delivery)
    replay_delivery = blocking(topics.replay_delivery)
    delete_delivery = blocking(topics.delete_delivery)
    outbox = blocking(topics.outbox)
    clear_outbox = blocking(topics.clear_outbox)
    opt_out = blocking(topics.opt_out)


class Streams(Namespace):
    """Streams, their events and consumers."""

    create = blocking(streams.create)
    list = blocking(streams.list_streams)
    get = blocking(streams.get)
    change = blocking(streams.change)
    delete = blocking(streams.delete)
    health = blocking(streams.health)
    tick = blocking(streams.tick)
    send = blocking(streams.send)
    send_many = blocking(streams.send_many)
    send_later = blocking(streams.send_later)
    add_consumer = blocking(streams.add_consumer)
    consumers = blocking(streams.consumers)
    delete_consumer = blocking(streams.delete_consumer)
    receive = blocking(streams.receive)
    ack = blocking(streams.ack)
    nack = blocking(streams.nack)
    dead_letters = blocking(streams.dead_letters)
    replay = blocking(streams.replay)
    delete_dead_letters = blocking(streams.delete_dead_letters)


class Schedules(Namespace):
    """Schedules."""

    create = blocking(schedules.create)
    put = blocking(schedules.put)
    list = blocking(schedules.list_schedules)
    get = blocking(schedules.get)
    change = blocking(schedules.change)
    delete = blocking(schedules.delete)
    run = blocking(schedules.run)
    preview = blocking(schedules.preview)


class Admin(Namespace):
    """Tenants, tokens, the audit log, the state of the server, pipelines and insights."""

    create_tenant = blocking(admin.create_tenant)
    tenants = blocking(admin.tenants)
    create_token = blocking(admin.create_token)
    tokens = blocking(admin.tokens)
    rotate_token = blocking(admin.rotate_token)
    revoke_token = blocking(admin.revoke_token)
    audit = blocking(admin.audit)
    status = blocking(admin.status)
    follow = blocking(admin.follow)
    version = blocking(admin.version)
    pipelines = blocking(admin.pipelines)
    pipeline_runs = blocking(admin.pipeline_runs)
    insights = blocking(admin.insights)
    insight_errors = blocking(admin.insight_errors)
    findings = blocking(admin.findings)
