"""FIFO queues and move tasks at the SQS door."""

from __future__ import annotations

import asyncio
import base64
import json
from time import monotonic
from typing import Any
from uuid import UUID

import pytest

from penstock.clock import FakeClock
from tests.wire.amazon import Clients, Sqs, refused
from tests.wire.conftest import Live, running

TWICE = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"


async def fill(sqs: Sqs, url: str, *messages: str) -> None:
    """Send `g1-m1` to group `g1`."""
    for body in messages:
        await sqs.send(url, body, MessageGroupId=body.partition("-")[0])


class TestGroups:
    async def test_a_receive_drains_one_before_the_next(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1", "g2-m1", "g1-m2", "g1-m3")

        assert await sqs.bodies(url) == ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]

    async def test_one_with_anything_in_flight_is_locked_whole(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1", "g1-m2", "g1-m3", "g2-m1", "g2-m2", "g3-m1")
        first, second = await sqs.receive(url, 2)
        await sqs.delete(url, first)

        assert await sqs.bodies(url) == ["g2-m1", "g2-m2", "g3-m1"]
        await fill(sqs, url, "g1-m4")
        assert await sqs.receive(url) == []
        await sqs.delete(url, second)
        assert await sqs.bodies(url) == ["g1-m3", "g1-m4"]

    async def test_deleting_what_is_in_flight_frees_it_and_wakes_a_long_poll(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1", "g1-m2")
        [message] = await sqs.receive(url, 1)
        waiting = asyncio.create_task(sqs.bodies(url, WaitTimeSeconds=15))
        await asyncio.sleep(0.2)
        begun = monotonic()

        await sqs.delete(url, message)

        assert await waiting == ["g1-m2"]
        assert monotonic() - begun < 5

    async def test_new_sends_do_not_free_it(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1")
        await sqs.receive(url)
        waiting = asyncio.create_task(sqs.bodies(url, WaitTimeSeconds=1))
        await asyncio.sleep(0.1)

        await fill(sqs, url, "g1-m2")

        assert await waiting == []

    async def test_keep_their_order_after_a_timeout(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=5)
        await fill(sqs, url, "g1-m1", "g1-m2", "g1-m3")
        for _ in range(2):
            assert await sqs.bodies(url) == ["g1-m1", "g1-m2", "g1-m3"]
            clock.advance(seconds=6)

    async def test_received_go_to_the_end_of_the_line(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=5)
        await fill(sqs, url, "g1-m1", "g1-m2", "g1-m3", "g1-m4", "g2-m1", "g3-m1")
        assert await sqs.bodies(url, 2) == ["g1-m1", "g1-m2"]
        assert await sqs.bodies(url, 1) == ["g2-m1"]
        clock.advance(seconds=6)

        assert await sqs.bodies(url, VisibilityTimeout=0) == ["g3-m1", "g1-m1", "g1-m2", "g1-m3", "g1-m4", "g2-m1"]

    async def test_received_for_no_time_go_to_the_end_of_the_line(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1", "g2-m1", "g2-m2", "g3-m1", "g1-m2")

        assert await sqs.bodies(url, 3, VisibilityTimeout=0) == ["g1-m1", "g1-m2", "g2-m1"]
        assert await sqs.bodies(url, VisibilityTimeout=0) == ["g3-m1", "g1-m1", "g1-m2", "g2-m1", "g2-m2"]

    async def test_partly_released_hand_out_what_comes_before_the_rest(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1", "g1-m2", "g2-m1")
        first, _ = await sqs.receive(url, 2)

        await sqs.hide(url, first, 0)

        assert await sqs.bodies(url, 3) == ["g2-m1", "g1-m1"]

    async def test_a_changed_visibility_hides_the_message_and_all_after_it(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=5)
        await fill(sqs, url, "g1-m1", "g1-m2", "g1-m3")
        _, second, _ = await sqs.receive(url)
        await sqs.hide(url, second, 20)
        clock.advance(seconds=6)

        [first] = await sqs.receive(url)
        assert first["Body"] == "g1-m1"
        await sqs.delete(url, first)
        assert await sqs.receive(url) == []
        clock.advance(seconds=20)
        assert await sqs.bodies(url) == ["g1-m2", "g1-m3"]

    async def test_a_shortened_visibility_brings_back_one(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=30)
        await fill(sqs, url, "g1-m1", "g1-m2", "g2-m1")
        first, _ = await sqs.receive(url, 2)
        await sqs.hide(url, first, 1)
        clock.advance(seconds=2)

        assert await sqs.bodies(url, 3) == ["g2-m1", "g1-m1"]


class TestReceipts:
    async def test_an_expired_one_does_not_delete(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=5)
        await fill(sqs, url, "g1-m1")
        [message] = await sqs.receive(url)
        clock.advance(seconds=6)

        handle = message["ReceiptHandle"]
        text = f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        with refused("InvalidParameterValue", text):
            await sqs.delete(url, message)
        assert await sqs.bodies(url) == ["g1-m1"]

    async def test_deleting_twice_is_fine(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await fill(sqs, url, "g1-m1")
        [message] = await sqs.receive(url)

        await sqs.delete(url, message, message)

    async def test_an_attempt_repeated_gets_the_same_messages(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(VisibilityTimeout=10)
        await fill(sqs, url, "g1-m1", "g1-m2", "g2-m1")
        first = await sqs.receive(url, 2, ReceiveRequestAttemptId="attempt-1")
        clock.advance(seconds=8)

        again = await sqs.receive(url, 2, ReceiveRequestAttemptId="attempt-1")

        assert again == first
        clock.advance(seconds=8)  # hidden anew
        assert await sqs.bodies(url) == ["g2-m1"]
        await sqs.delete(url, *again)
        assert await sqs.receive(url, ReceiveRequestAttemptId="attempt-1") == []

    async def test_an_attempt_is_a_matter_of_fifo_queues(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        with refused("InvalidParameterValue"):
            await sqs.receive(url, ReceiveRequestAttemptId="attempt-1")


class TestDeduplication:
    async def send(self, sqs: Sqs, url: str, body: str, dedup: str | None = None, group: str = "g1") -> dict[str, Any]:
        more = {} if dedup is None else {"MessageDeduplicationId": dedup}
        [sent] = await sqs.send(url, body, MessageGroupId=group, **more)
        return sent

    async def test_the_second_send_succeeds_with_the_first_id(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)

        first = await self.send(sqs, url, "one", "id")
        second = await self.send(sqs, url, "two", "id")

        assert second["MessageId"] == first["MessageId"]
        assert second["MD5OfMessageBody"] != first["MD5OfMessageBody"]
        assert await sqs.bodies(url) == ["one"]

    async def test_is_per_queue_unless_said_otherwise(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)
        await self.send(sqs, url, "one", "id", "g1")
        await self.send(sqs, url, "two", "id", "g2")
        assert await sqs.bodies(url) == ["one"]

    async def test_may_be_per_group_without_high_throughput(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True, DeduplicationScope="messageGroup")
        await self.send(sqs, url, "one", "id", "g1")
        await self.send(sqs, url, "two", "id", "g2")
        await self.send(sqs, url, "three", "id", "g2")
        assert await sqs.bodies(url) == ["one", "two"]

    async def test_a_changed_scope_changes_nothing(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True, DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")

        await sqs.set(url, DeduplicationScope="queue", FifoThroughputLimit="perQueue")

        found = await sqs.attributes(url)
        assert (found["DeduplicationScope"], found["FifoThroughputLimit"]) == ("queue", "perQueue")
        await self.send(sqs, url, "one", "id", "g1")
        await self.send(sqs, url, "two", "id", "g2")
        assert await sqs.bodies(url) == ["one", "two"]

    async def test_outlives_the_message_for_five_minutes(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(fifo=True)
        await self.send(sqs, url, "one", "id")
        await sqs.delete(url, *await sqs.receive(url))

        await self.send(sqs, url, "two", "id")
        assert await sqs.receive(url) == []
        clock.advance(seconds=301)
        await self.send(sqs, url, "three", "id")
        assert await sqs.bodies(url) == ["three"]

    async def test_by_content_looks_at_the_body_alone(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        await self.send(sqs, url, "same")
        await sqs.send(
            url, "same", MessageGroupId="g1", MessageAttributes={"a": {"DataType": "String", "StringValue": "x"}}
        )
        await self.send(sqs, url, "same", "of-its-own")

        assert await sqs.bodies(url) == ["same", "same"]

    async def test_is_forgotten_by_a_purge(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)
        await self.send(sqs, url, "one", "id")
        await sqs.call("purge_queue", QueueUrl=url)

        await self.send(sqs, url, "two", "id")

        assert await sqs.bodies(url) == ["two"]

    async def test_ids_are_required(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)
        with refused("InvalidParameterValue", TWICE):
            await sqs.send(url, "x", MessageGroupId="g")
        with refused("MissingParameter", "The request must contain the parameter MessageGroupId."):
            await sqs.send(url, "x", MessageDeduplicationId="d")

    async def test_ids_missing_in_a_batch_refuse_all_of_it(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)
        good = {"Id": "a", "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "1"}

        with refused("InvalidParameterValue", "The request must contain the parameter MessageGroupId."):
            entry = {"Id": "b", "MessageBody": "y", "MessageDeduplicationId": "2"}
            await sqs.call("send_message_batch", QueueUrl=url, Entries=[good, entry])
        with refused("InvalidParameterValue", TWICE):
            entry = {"Id": "b", "MessageBody": "y", "MessageGroupId": "g"}
            await sqs.call("send_message_batch", QueueUrl=url, Entries=[good, entry])
        assert await sqs.receive(url) == []


class TestDelays:
    async def test_of_a_message_are_refused(self, sqs: Sqs) -> None:
        url = await sqs.fifo()
        text = (
            "Value 2 for parameter DelaySeconds is invalid. "
            "Reason: The request include parameter that is not valid for this queue type."
        )
        with refused("InvalidParameterValue", text):
            await sqs.send(url, "x", MessageGroupId="g", DelaySeconds=2)

    async def test_of_zero_mean_that_of_the_queue(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.fifo(DelaySeconds=10)
        await sqs.send(url, "one", MessageGroupId="g", DelaySeconds=0)
        await sqs.send(url, "two", "three", MessageGroupId="g")

        assert await sqs.receive(url) == []
        clock.advance(seconds=11)
        assert await sqs.bodies(url) == ["one", "two", "three"]


class TestMoveTasks:
    async def dead(self, sqs: Sqs, clock: FakeClock, *bodies: str, fifo: bool = False) -> tuple[str, str]:
        """A queue, and its dead-letter queue with these messages in it."""
        source, dead = await sqs.with_dead_letters(1, fifo=fifo)
        for body in bodies:
            await sqs.send(source, body, **({"MessageGroupId": "g"} if fifo else {}))
            await sqs.receive(source)
            clock.advance(seconds=11)
            assert await sqs.receive(source) == []
        return source, dead

    async def tasks(self, sqs: Sqs, url: str, most: int = 10) -> list[dict[str, Any]]:
        answer = await sqs.call("list_message_move_tasks", SourceArn=await sqs.arn(url), MaxResults=most)
        found: list[dict[str, Any]] = answer.get("Results", [])
        return found

    async def test_bring_messages_home(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        source, dead = await self.dead(sqs, clock, "a", "b")
        arn = await sqs.arn(dead)

        started = await sqs.call("start_message_move_task", SourceArn=arn)

        [task] = await self.tasks(sqs, dead)
        assert task["TaskHandle"] == started["TaskHandle"]
        assert task["Status"] == "RUNNING"
        assert "DestinationArn" not in task
        handle = json.loads(base64.b64decode(started["TaskHandle"]))
        assert handle["sourceArn"] == arn
        assert str(UUID(handle["taskId"])) == handle["taskId"]
        await live.engine.queues.run_moves()
        [task] = await self.tasks(sqs, dead)
        assert task["Status"] == "COMPLETED"
        assert "TaskHandle" not in task
        assert task["ApproximateNumberOfMessagesMoved"] == 2
        assert task["ApproximateNumberOfMessagesToMove"] == 2
        assert task["StartedTimestamp"] == int(clock.now().timestamp() * 1000)
        assert await sqs.bodies(source) == ["a", "b"]

    async def test_go_where_they_are_told(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        _, dead = await self.dead(sqs, clock, "a")
        target = await sqs.queue()

        await sqs.call("start_message_move_task", SourceArn=await sqs.arn(dead), DestinationArn=await sqs.arn(target))
        await live.engine.queues.run_moves()

        assert await sqs.bodies(target) == ["a"]
        [task] = await self.tasks(sqs, dead)
        assert task["DestinationArn"] == await sqs.arn(target)

    async def test_keep_to_their_rate_and_can_be_cancelled(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        source, dead = await self.dead(sqs, clock, "a", "b", "c", "d")
        arn = await sqs.arn(dead)
        started = await sqs.call("start_message_move_task", SourceArn=arn, MaxNumberOfMessagesPerSecond=1)
        clock.advance(seconds=2)
        await live.engine.queues.run_moves()
        [task] = await self.tasks(sqs, dead)
        assert task["MaxNumberOfMessagesPerSecond"] == 1

        answer = await sqs.call("cancel_message_move_task", TaskHandle=started["TaskHandle"])

        assert answer["ApproximateNumberOfMessagesMoved"] == 2
        clock.advance(seconds=10)
        await live.engine.queues.run_moves()
        assert await sqs.bodies(source) == ["a", "b"]
        [task] = await self.tasks(sqs, dead)
        assert task["Status"] == "CANCELLED"
        with refused("InvalidParameterValue"):
            await sqs.call("cancel_message_move_task", TaskHandle=started["TaskHandle"])

    async def test_run_one_at_a_time(self, sqs: Sqs, clock: FakeClock) -> None:
        _, dead = await self.dead(sqs, clock, "a")
        arn = await sqs.arn(dead)
        await sqs.call("start_message_move_task", SourceArn=arn, MaxNumberOfMessagesPerSecond=1)

        text = (
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
        )
        with refused("InvalidParameterValue", text):
            await sqs.call("start_message_move_task", SourceArn=arn)

    async def test_need_a_dead_letter_queue(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        with refused("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue."):
            await sqs.call("start_message_move_task", SourceArn=await sqs.arn(url))

    async def test_fail_when_their_destination_goes(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        _, dead = await self.dead(sqs, clock, "a", "b")
        target = await sqs.queue()
        await sqs.call("start_message_move_task", SourceArn=await sqs.arn(dead), DestinationArn=await sqs.arn(target))
        await sqs.call("delete_queue", QueueUrl=target)

        await live.engine.queues.run_moves()

        [task] = await self.tasks(sqs, dead)
        assert task["Status"] == "FAILED"
        assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"

    async def test_fail_when_a_message_was_sent_to_the_dead_letter_queue_itself(self, sqs: Sqs, live: Live) -> None:
        dead = await sqs.queue()
        policy = json.dumps({"deadLetterTargetArn": await sqs.arn(dead), "maxReceiveCount": 1})
        await sqs.queue(RedrivePolicy=policy)
        await sqs.send(dead, "a")
        await sqs.call("start_message_move_task", SourceArn=await sqs.arn(dead))

        await live.engine.queues.run_moves()

        [task] = await self.tasks(sqs, dead)
        assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
        assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (0, 1)

    async def test_keep_the_order_of_a_group(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        source, dead = await self.dead(sqs, clock, "g-1", "g-2", "g-3", fifo=True)

        await sqs.call("start_message_move_task", SourceArn=await sqs.arn(dead))
        await live.engine.queues.run_moves()

        assert await sqs.bodies(source) == ["g-1", "g-2", "g-3"]

    async def test_are_listed_newest_first_and_one_by_default(self, sqs: Sqs, live: Live, clock: FakeClock) -> None:
        _, dead = await self.dead(sqs, clock, "a")
        for _ in range(3):
            await sqs.call("start_message_move_task", SourceArn=await sqs.arn(dead))
            await live.engine.queues.run_moves()
            clock.advance(seconds=1)

        found = await self.tasks(sqs, dead)
        answer = await sqs.call("list_message_move_tasks", SourceArn=await sqs.arn(dead))

        assert [task["StartedTimestamp"] for task in found] == sorted(
            (task["StartedTimestamp"] for task in found), reverse=True
        )
        assert answer["Results"] == found[:1]

    @pytest.mark.parametrize("what", ["task", "source"])
    async def test_that_do_not_exist_are_not_found(self, sqs: Sqs, what: str) -> None:
        url = await sqs.queue()
        arn = await sqs.arn(url) if what == "task" else "arn:aws:sqs:us-east-1:000000000000:nowhere"
        handle = base64.b64encode(json.dumps({"taskId": str(UUID(int=7)), "sourceArn": arn}).encode()).decode()
        text = (
            "Task does not exist."
            if what == "task"
            else "The resource that you specified for the SourceArn parameter doesn't exist."
        )
        with refused("ResourceNotFoundException", text, 404):
            await sqs.call("cancel_message_move_task", TaskHandle=handle)


async def test_too_many_in_flight_are_told_when_strict(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.wire.sqs import in_flight_limit as sqs_crowding

    monkeypatch.setattr(sqs_crowding.InFlightLimit.__init__, "__kwdefaults__", {"standard": 2, "fifo": 2})
    async with running(strict=True) as live:
        sqs = Sqs(clients.make("json", live.url))
        url = await sqs.queue()
        await sqs.send(url, "a", "b", "c")
        assert await sqs.bodies(url, 2) == ["a", "b"]
        await asyncio.sleep(sqs_crowding.LOOK_S + 0.1)

        with refused("OverLimit"):
            await sqs.receive(url)
        assert await sqs.receive(url, WaitTimeSeconds=1) == []
