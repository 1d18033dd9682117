"""Every command that asks a server, over HTTP and on databases: the same output everywhere."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.wire.jobs import types as jobs
from penstock.wire.rest import deliveries, events, pipelines, schedule_types, status, stream_types, tenants, topics
from penstock.wire.rest import types as rest
from tests.cli.commands import Target, penstock


class Sent(msgspec.Struct):
    id: int


class Schedule(schedule_types.Schedule, kw_only=True):
    message: Any


class Message(rest.Message, kw_only=True):
    """msgspec decodes no choice of raw JSON and text."""

    message: Any


def test_the_life_of_a_queue(target: Target) -> None:
    made = target.json(rest.Queue, "queue", "create", "orders", "--visibility-timeout", "1m", "--set", 'tags={"a":"b"}')
    assert (made.settings.visibility_timeout, made.settings.tags) == (60, {"a": "b"})

    assert target.json(rest.SentOne, "queue", "send", "orders", '{"order": 1}').id > 0
    sent = target.json(list[Sent], "queue", "send", "orders", "-", stdin='{"order": 2}\n\ntext\n')
    assert len(sent) == 2

    [listed] = [one for one in target.json(list[status.QueueStatus], "queue", "list") if one.queue == "orders"]
    assert (listed.visible, listed.in_flight, listed.delayed) == (3, 0, 0)
    assert target.json(rest.QueueMetrics, "queue", "show", "orders").visible == 3
    assert len(target.json(list[Message], "queue", "peek", "orders")) == 3

    [first] = target.json(list[Message], "queue", "receive", "orders")
    assert first.read_count == 1
    gone = json.loads(target.run("queue", "receive", "orders", "--max", "10", "--delete", "--json").out)
    assert [one["message"] for one in gone] == [{"order": 2}, "text"]
    assert json.loads(target.run("queue", "purge", "orders", "--dry-run", "--json").out)["would_delete"] == 1
    assert target.json(rest.Deleted, "queue", "purge", "orders").deleted == 1

    assert target.run("queue", "drop", "orders", "--dry-run").err == "queue orders would be deleted, with 0 messages\n"
    dropped = target.run("queue", "drop", "orders")
    assert (dropped.out, "orders is deleted" in dropped.err) == ("", True)
    missing = target.run("queue", "show", "orders", code=4)
    assert missing.err == "penstock: Queue 'orders' does not exist\n"


def test_messages_that_are_refused_make_a_partial_success(target: Target) -> None:
    target.run("queue", "create", "small", "--set", "max_message_bytes=1024")
    done = target.run("queue", "send", "small", "-", "--json", stdin=f"fits\n{'x' * 2000}\n", code=3)
    assert len(json.loads(done.out)) == 1
    assert "2000 bytes" in done.err or "larger than" in done.err
    target.run("queue", "drop", "small")


def test_messages_sent_before_a_failure_are_listed(target: Target) -> None:
    target.run("queue", "create", "short", "--set", "max_length=500")
    lines = "".join(f"{number}\n" for number in range(501))

    done = target.run("queue", "send", "short", "-", "--json", stdin=lines, code=3)

    assert len(json.loads(done.out)) == 500
    assert done.err.startswith("penstock: not confirmed from message 501 on: ")
    target.run("queue", "drop", "short")


def dead_letters(target: Target, *bodies: str) -> list[int]:
    """Make these messages dead letters of `failed`, which come from `mail`."""
    target.run("queue", "create", "failed")
    target.run("queue", "create", "mail", "--max-receives", "1", "--dead-letter-queue", "failed")
    target.run("queue", "send", "mail", "-", stdin="\n".join(bodies))
    for _ in range(2):
        target.run("queue", "receive", "mail", "--max", "10", "--visibility-timeout", "0s")
    return [one.id for one in target.json(list[Message], "queue", "peek", "failed", "--max", "100")]


def test_dead_letters_are_previewed_and_redriven_by_id_by_text_and_all(target: Target) -> None:
    one, two, *_ = numbers = dead_letters(target, "ada", "grace", "alan", "tony")
    assert len(numbers) == 4

    preview = target.json(list[Message], "queue", "redrive", "failed", "--dry-run")
    assert [found.dead_letter_source for found in preview] == ["mail"] * 4
    assert target.json(rest.Redriven, "queue", "redrive", "failed", "--id", str(one)).moved == 1
    assert target.json(rest.Redriven, "queue", "redrive", "failed", "--match", "alan").moved == 1
    assert target.json(rest.Redriven, "queue", "redrive", "failed", "--match", "nobody").moved == 0
    again = target.run("queue", "redrive", "failed", "--id", str(one), "--id", str(two), code=3)
    assert "left alone: 1" in again.err

    task = target.json(rest.RedriveTask, "queue", "redrive", "failed")
    assert (task.state, task.moved) == ("completed", 1)
    waiting = target.json(list[Message], "queue", "peek", "mail")
    assert len(waiting) == 4
    assert target.json(list[Message], "queue", "peek", "failed") == []
    target.run("queue", "redrive", "failed", "--id", "1", "--rate", "5", code=2)
    for name in ("mail", "failed"):
        target.run("queue", "drop", name)


def test_a_preview_says_how_much_it_does_not_show(target: Target) -> None:
    target.run("queue", "create", "many")
    target.run("queue", "send", "many", "-", stdin="".join(f"{number}\n" for number in range(1001)))

    shown = target.run("queue", "redrive", "many", "--dry-run", "--json")
    assert (len(json.loads(shown.out)), shown.err) == (1000, "penstock: these are the first 1000 of 1001 messages\n")
    searched = target.run("queue", "redrive", "many", "--match", "1000", "--json")
    assert (json.loads(searched.out), searched.err) == (
        {"moved": 0},
        "penstock: searched only the first 1000 of 1001 messages\n",
    )
    target.run("queue", "drop", "many")


def test_dead_letters_can_go_to_another_queue(target: Target) -> None:
    [number] = dead_letters(target, "ada")
    target.run("queue", "create", "elsewhere")

    assert target.json(rest.Redriven, "queue", "redrive", "failed", "--id", str(number), "--to", "elsewhere").moved == 1

    assert [one.id for one in target.json(list[Message], "queue", "peek", "elsewhere")] == [number]
    target.run("queue", "redrive", "failed", "--id", "1", "--to", "nowhere", code=4)
    for name in ("mail", "failed", "elsewhere"):
        target.run("queue", "drop", name)


def test_the_life_of_a_job(target: Target) -> None:
    made = target.json(jobs.EnqueuedJob, "job", "enqueue", "emails", "-", stdin='{"to": "ada@example.org"}')
    target.run("job", "enqueue", "emails", '{"to": "grace"}', "--priority", "5")

    listed = target.json(list[jobs.Job], "job", "list", "--queue", "emails", "--status", "pending")
    assert {one.queue_name for one in listed} == {"emails"}
    assert [one.id for one in target.json(list[jobs.Job], "job", "find", "ada@example.org")] == [made.job_id]
    shown = target.json(jobs.Job, "job", "show", made.job_id)
    assert (shown.status, shown.attempts) == ("pending", [])
    assert target.run("job", "show", made.job_id, "--columns", "status").out == "status  pending\n"
    assert target.json(list[jobs.JobQueueStats], "job", "queues")[0].pending == 2

    assert target.json(jobs.JobState, "job", "cancel", made.job_id).status == "cancelled"
    target.run("job", "retry", made.job_id, code=3)
    target.run("job", "show", "00000000-0000-0000-0000-000000000000", code=4)
    assert target.json(jobs.RequeuedJobs, "job", "retry", "--queue", "emails").requeued == 0
    assert target.json(list[jobs.Job], "job", "retry", "--queue", "emails", "--dry-run") == []
    target.run("job", "retry", code=2)
    assert "not valid JSON" in target.run("job", "enqueue", "emails", "{", code=2).err


def test_the_life_of_a_schedule(target: Target) -> None:
    target.run("queue", "create", "reports")
    preview = target.json(schedule_types.Preview, "schedule", "preview", "every weekday at 9am", "--count", "2")
    assert (preview.cron, len(preview.next_fires)) == ("0 9 * * 1-5", 2)
    made = target.json(
        *(Schedule, "schedule", "create", "nightly", "reports", "--cron", "0 2 * * *"),
        *("--message", '{"kind": "daily"}'),
    )
    assert (made.name, made.target) == ("nightly", "reports")

    assert target.json(Schedule, "schedule", "pause", "nightly").status == "paused"
    assert target.json(Schedule, "schedule", "resume", "nightly").status == "active"
    assert target.json(schedule_types.Run, "schedule", "run", "nightly").out_of_band
    assert target.json(rest.QueueMetrics, "queue", "show", "reports").visible == 1
    assert [one.name for one in target.json(list[schedule_types.ScheduleItem], "schedule", "list")] == ["nightly"]
    target.json(Schedule, "schedule", "show", "nightly")
    target.run("schedule", "create", "other", "reports", code=2)
    target.run("schedule", "drop", "nightly")
    target.run("schedule", "drop", "nightly", code=4)
    target.run("queue", "drop", "reports")


def test_topics_subscriptions_and_deliveries(target: Target) -> None:
    target.run("queue", "create", "kitchen")
    assert target.json(topics.Topic, "topic", "create", "news").name == "news"
    made = target.json(events.EventSubscription, "subscription", "create", "orders.#", "--queue", "kitchen")
    published = target.json(events.PublishedEvent, "topic", "publish", "orders.made", '{"order": 1}', "--event")
    assert [one.queue_name for one in published.messages] == ["kitchen"]
    assert target.json(events.PublishedEvent, "topic", "publish", "news", "-", stdin="hello").queues_matched == 0

    assert [one.name for one in target.json(list[topics.Topic], "topic", "list")] == ["news"]
    [listed] = target.json(list[topics.Subscription], "subscription", "list")
    assert (listed.id, listed.pattern, listed.topic) == (made.id, "orders.#", None)
    assert target.json(list[topics.Subscription], "subscription", "list", "--topic", "news") == []
    target.run("subscription", "drop", str(made.id))
    target.run("subscription", "drop", str(made.id), code=4)
    target.run("topic", "drop", "news")
    target.run("topic", "drop", "news", code=4)

    hook = target.json(
        *(events.EventSubscription, "subscription", "create", "orders.paid", "--endpoint", "http://127.0.0.1:9/hook")
    )
    target.run("topic", "publish", "orders.paid", "{}", "--event")
    listing = ("delivery", "list", "--subscription", str(hook.id))
    [delivery] = target.json(list[deliveries.DeliveryItem], *listing)
    assert target.json(deliveries.Delivery, "delivery", "show", str(delivery.id)).endpoint == "http://127.0.0.1:9/hook"
    assert "still in progress" in target.run("delivery", "replay", str(delivery.id), code=3).err
    assert target.json(list[deliveries.DeliveryItem], "delivery", "replay", "--exhausted", "--dry-run") == []
    target.run("delivery", "replay", code=2)
    target.run("queue", "drop", "kitchen")


def test_streams(target: Target) -> None:
    if target.kind != "postgres":
        refused = target.run("stream", "list", code=1)
        assert "streams require PostgreSQL" in refused.err
        return
    target.json(stream_types.Stream, "stream", "create", "orders", "--max-retries", "0", "--consumer", "shop")
    target.run("stream", "send", "orders", '{"order": 1}', "--type", "paid")
    assert [one.name for one in target.json(list[stream_types.StreamStats], "stream", "list")] == ["orders"]
    assert target.json(stream_types.StreamStats, "stream", "show", "orders").consumers == 1
    assert [one.name for one in target.json(list[stream_types.ConsumerStats], "stream", "consumers", "orders")] == [
        "shop"
    ]
    target.json(list[stream_types.Check], "stream", "health", "orders")
    assert "still has 1 event " in target.run("stream", "drain", "orders", "--timeout", "0s", code=1).err
    assert target.run("stream", "depth", "orders", "--watch", "--count", "2", "--every", "0s").out.count("█") == 3
    assert json.loads(target.run("stream", "depth", "orders", "--json").out)["depth"] == 1
    watched = target.run("stream", "depth", "orders", "--watch", "--count", "2", "--every", "0s", "--json").out
    assert [json.loads(line)["depth"] for line in watched.splitlines()] == [1, 1]
    assert target.json(stream_types.Stream, "stream", "pause", "orders").settings.paused
    assert not target.json(stream_types.Stream, "stream", "resume", "orders").settings.paused
    assert target.json(list[stream_types.DeadLetter], "stream", "dead", "orders") == []
    assert target.json(list[stream_types.DeadLetter], "stream", "replay", "orders", "--dry-run") == []
    assert target.json(stream_types.Replayed, "stream", "replay", "orders").replayed == 0
    assert json.loads(target.run("stream", "purge", "orders", "--dry-run", "--json").out)["would_delete"] == 0
    assert target.json(rest.Deleted, "stream", "purge", "orders").deleted == 0
    assert json.loads(target.run("stream", "drop", "orders", "--dry-run", "--json").out)["deleted"] is None
    target.run("stream", "drop", "orders")
    target.run("stream", "show", "orders", code=4)


def test_pipelines_are_listed(target: Target) -> None:
    if target.kind != "postgres":
        target.run("pipeline", "list", code=1)
        return
    assert {one.name for one in target.json(list[pipelines.Pipeline], "pipeline", "list")} >= {"archive", "cdc"}
    assert "archive" in target.run("pipeline", "list").out
    assert target.json(list[pipelines.PipelineRun], "pipeline", "runs", "archive") == []


def test_tokens_and_the_audit_log(target: Target) -> None:
    made = target.json(tenants.Token, "token", "create", "--name", "billing", "--scope", "send", "--queues", "orders-*")
    assert (made.name, made.scopes, made.queues) == ("billing", ["send"], "orders-*")
    assert str(made.token).startswith(made.prefix)

    rotated = target.json(tenants.Token, "token", "rotate", str(made.id), "--overlap", "1h")
    assert rotated.token != made.token
    assert target.run("token", "revoke", str(rotated.id)).err == f"token {rotated.id} is revoked\n"
    listed = {one.id: one for one in target.json(list[tenants.Token], "token", "list")}
    assert listed[rotated.id].revoked_at is not None
    assert str(made.token) not in target.run("token", "list").out
    target.run("token", "revoke", "999999", code=4)
    target.run("token", "create", "--tenant", "nobody", code=4)
    acts = target.json(list[tenants.Act], "audit", "--limit", "3")
    assert [one.act for one in acts] == ["token revoked", "token rotated", "token created"]
    assert len(target.json(list[tenants.Tenant], "tenant", "list")) >= 1


def test_status_shows_everything_and_check_names_the_problems(target: Target) -> None:
    target.run("queue", "create", "busy")
    for name in ("kept", "dead"):
        target.run("queue", "create", name)
    target.run("queue", "create", "lossy", "--max-receives", "1", "--dead-letter-queue", "dead")
    assert target.json(status.Overview, "status").problems == []
    assert (target.run("check").out, target.run("check").err) == ("", "No problems.\n")

    target.run("queue", "send", "dead", "lost")
    found = target.json(status.Overview, "status")
    assert {one.queue for one in found.queues if one.dead_letters} == {"dead"}
    checked = target.run("check", "--json", code=1)
    assert json.loads(checked.out) == [{"kind": "dead letters", "name": "dead", "problem": "holds 1 dead letter"}]
    target.run("check", "--ignore", "dead letters")
    screen = target.run("status").out
    assert "\nqueues (" in screen
    assert "problems (1)" in screen
    assert target.run("top", "--count", "2", "--every", "0s").out.count("\nqueues (") == 2
    part = target.run("status", "--columns", "problems").out
    assert ("queues (" in part, "problems (1)" in part) == (False, True)
    assert set(json.loads(target.run("status", "--columns", "jobs,queues", "--json").out)) == {"jobs", "queues"}
    target.run("status", "--columns", "nothing", code=2)
    for name in ("busy", "kept", "lossy", "dead"):
        target.run("queue", "drop", name)


def test_columns_are_chosen_by_name(target: Target) -> None:
    target.run("queue", "create", "columns")
    heading, *lines = target.run("queue", "list", "--columns", "visible,queue").out.splitlines()
    assert heading.split() == ["visible", "queue"]
    assert ["0", "columns"] in [line.split() for line in lines]
    assert {"queue": "columns"} in json.loads(target.run("queue", "list", "--columns", "queue", "--json").out)
    assert "the columns are: queue, visible" in target.run("queue", "list", "--columns", "nothing", code=2).err
    target.run("queue", "drop", "columns")


def test_what_is_printed_cannot_act_on_the_terminal(target: Target) -> None:
    target.run("queue", "create", "hostile")
    target.run("queue", "send", "hostile", "-", "--whole", stdin="\x1b[2J\x07red\nblue")
    shown = target.run("queue", "peek", "hostile", "--columns", "message").out
    assert shown == "message\n\\x1b[2J\\x07red\\nblue\n"
    target.run("queue", "drop", "hostile")


def test_a_token_that_is_not_allowed_exits_with_5(memory_server: Any) -> None:
    tenant = memory_server.new_tenant()
    url = ("--url", memory_server.url)
    assert penstock("queue", "list", *url, "--token", "pst_wrong").code == 5
    made = penstock("token", "create", "--scope", "read", *url, "--token", tenant.token).out.strip()
    done = penstock("queue", "create", "orders", *url, "--token", made)
    assert (done.code, done.err) == (5, "penstock: this token lacks the scope 'manage'\n")


def test_an_administrator_of_a_tenant_manages_only_its_own_tokens(memory_server: Any) -> None:
    one, other = memory_server.new_tenant("one"), memory_server.new_tenant("other")
    mine = Target("memory", ("--url", memory_server.url, "--token", one.token))
    theirs = Target("memory", ("--url", memory_server.url, "--token", other.token))
    [first, *_] = theirs.json(list[tenants.Token], "token", "list")

    assert {found.tenant for found in mine.json(list[tenants.Token], "token", "list")} == {"one"}
    assert [found.name for found in mine.json(list[tenants.Tenant], "tenant", "list")] == ["one"]
    mine.run("token", "revoke", str(first.id), code=4)
    mine.run("token", "rotate", str(first.id), code=4)
    mine.run("token", "list", "--tenant", "other", code=4)
    mine.run("token", "create", "--tenant", "other", code=4)
    mine.run("tenant", "create", "third", code=5)
    assert {found.tenant for found in mine.json(list[tenants.Act], "audit")} == {"one"}
    narrow = mine.json(tenants.Token, "token", "create", "--queues", "orders-*")
    limited = Target("memory", ("--url", memory_server.url, "--token", str(narrow.token)))
    limited.run("token", "create", code=5)


def test_an_unknown_command_lists_the_commands() -> None:
    done = penstock("queue", "delete", "orders")

    assert done.code == 2
    assert "No such command 'delete'; commands: " in done.err
    assert {"create", "purge", "drop"} <= set(done.err.replace(",", " ").split())
    assert "Did you mean 'list'?" in penstock("queue", "lst").err
