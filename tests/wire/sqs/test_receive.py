"""SQS as its SDK sees it, receiving: receipts, visibility, long polls, dead letters."""

from __future__ import annotations

import asyncio
import json
from time import monotonic

from penstock.clock import FakeClock
from penstock.engine.queues import receipts
from penstock.model import DEFAULT_TENANT, Handle, Outcome
from tests.wire.amazon import Clients, Sqs, refused
from tests.wire.conftest import Live, running
from tests.wire.sqs.attributes import attribute


class TestReceipts:
    async def test_every_receive_gives_a_new_handle(self, sqs: Sqs) -> None:
        url = await sqs.queue(VisibilityTimeout=0)
        await sqs.send(url, "x")

        handles = {(await sqs.receive(url))[0]["ReceiptHandle"] for _ in range(3)}

        assert len(handles) == 3

    async def test_an_expired_handle_still_deletes(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")
        [message] = await sqs.receive(url)
        clock.advance(seconds=6)

        await sqs.delete(url, message)

        assert await sqs.receive(url) == []

    async def test_an_earlier_handle_deletes_while_a_later_receive_holds_the_message(
        self, sqs: Sqs, clock: FakeClock
    ) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")
        [old] = await sqs.receive(url)
        clock.advance(seconds=6)
        await sqs.receive(url)

        await sqs.delete(url, old)

        clock.advance(seconds=6)
        assert await sqs.bodies(url) == []

    async def test_an_earlier_handle_changes_the_visibility_of_a_message_that_was_received_again(
        self, sqs: Sqs, clock: FakeClock
    ) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")
        [old] = await sqs.receive(url)
        clock.advance(seconds=6)
        await sqs.receive(url)

        await sqs.hide(url, old, 0)

        assert await sqs.bodies(url) == ["x"]

    async def test_the_native_door_keeps_to_the_last_receipt(self, live: Live, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        name = url.rpartition("/")[2]
        await sqs.send(url, "x")
        [old] = await sqs.receive(url)
        clock.advance(seconds=6)
        await sqs.receive(url)

        lease = receipts.decode(name, old["ReceiptHandle"])
        handle = Handle(tenant=DEFAULT_TENANT, queue=name, id=lease[0], lease=lease[1])

        assert await live.engine.messages.delete(handle) is Outcome.STALE

    async def test_handles_have_neither_hyphens_nor_underscores(self, sqs: Sqs) -> None:
        url = await sqs.queue(VisibilityTimeout=0)
        await sqs.send(url, *map(str, range(10)))
        handles = [message["ReceiptHandle"] for _ in range(10) for message in await sqs.receive(url)]

        assert len(handles) == 100
        assert not any({"-", "_"} & set(handle) for handle in handles)

    async def test_changing_visibility_after_expiry_is_fine(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")
        [message] = await sqs.receive(url)
        clock.advance(seconds=6)

        await sqs.hide(url, message, 1)

    async def test_deleting_twice_is_fine(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x")
        [message] = await sqs.receive(url)

        await sqs.delete(url, message, message)

    async def test_garbage_is_refused(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        text = 'The input receipt handle "garbage" is not a valid receipt handle.'
        with refused("ReceiptHandleIsInvalid", text):
            await sqs.delete(url, {"ReceiptHandle": "garbage"})
        with refused("ReceiptHandleIsInvalid", text):
            await sqs.hide(url, {"ReceiptHandle": "garbage"}, 0)

    async def test_changing_visibility_after_deletion_is_refused(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x")
        [message] = await sqs.receive(url)
        await sqs.delete(url, message)

        handle = message["ReceiptHandle"]
        text = (
            f"Value {handle} for parameter ReceiptHandle is invalid. "
            "Reason: Message does not exist or is not available for visibility timeout change."
        )
        with refused("InvalidParameterValue", text):
            await sqs.hide(url, message, 0)

    async def test_of_a_queue_deleted_and_made_again_reach_nothing(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x")
        [message] = await sqs.receive(url)
        await sqs.call("delete_queue", QueueUrl=url)
        await sqs.queue(url.rpartition("/")[2])
        await sqs.send(url, "y")

        await sqs.delete(url, message)

        assert await sqs.bodies(url) == ["y"]


class TestVisibility:
    async def test_zero_on_receive_counts_as_a_receive(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x")

        await sqs.receive(url, VisibilityTimeout=0)
        [message] = await sqs.receive(url, AttributeNames=["ApproximateReceiveCount"])

        assert message["Attributes"]["ApproximateReceiveCount"] == "2"

    async def test_given_on_receive_does_not_stick_to_the_queue(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")

        assert await sqs.bodies(url, VisibilityTimeout=60) == ["x"]
        clock.advance(seconds=61)
        assert await sqs.bodies(url) == ["x"]
        clock.advance(seconds=6)
        assert await sqs.bodies(url) == ["x"]

    async def test_an_expired_message_returns_to_the_front(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "first", "second")
        assert await sqs.bodies(url, 1) == ["first"]
        clock.advance(seconds=6)

        assert await sqs.bodies(url, 1) == ["first"]

    async def test_a_purge_takes_delayed_and_hidden_ones_too(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue()
        await sqs.send(url, "hidden", "visible")
        await sqs.send(url, "delayed", DelaySeconds=5)
        await sqs.receive(url, 1)

        await sqs.call("purge_queue", QueueUrl=url)

        clock.advance(seconds=60)
        assert await sqs.receive(url) == []

    async def test_a_delay_holds_a_message_back(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(DelaySeconds=10)
        await sqs.send(url, "queue's")
        await sqs.send(url, "own", DelaySeconds=0)

        assert await sqs.bodies(url) == ["own"]
        clock.advance(seconds=11)
        assert await sqs.bodies(url) == ["queue's"]


class TestWaiting:
    async def test_returns_at_the_first_message(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        begun = monotonic()
        waiting = asyncio.create_task(sqs.bodies(url, WaitTimeSeconds=10))
        await asyncio.sleep(0.2)

        await sqs.send(url, "x")

        assert await waiting == ["x"]
        assert monotonic() - begun < 5

    async def test_returns_in_time_without_one(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        begun = monotonic()

        assert await sqs.receive(url, WaitTimeSeconds=1) == []

        assert 0.9 <= monotonic() - begun < 2

    async def test_of_zero_answers_at_once_on_a_queue_that_waits(self, sqs: Sqs) -> None:
        url = await sqs.queue(ReceiveMessageWaitTimeSeconds=20)
        begun = monotonic()

        assert await sqs.receive(url, WaitTimeSeconds=0) == []

        assert monotonic() - begun < 2

    async def test_several_waiters_share_fairly(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        waiters = [asyncio.create_task(sqs.bodies(url, 1, WaitTimeSeconds=10)) for _ in range(4)]
        await asyncio.sleep(0.3)

        await sqs.send(url, *"abcd")

        assert sorted(await asyncio.gather(*waiters)) == [["a"], ["b"], ["c"], ["d"]]

    async def test_ends_with_the_server(self, clients: Clients) -> None:
        async with running() as live:
            sqs = Sqs(clients.make("json", live.url))
            url = await sqs.queue()
            waiting = asyncio.create_task(sqs.receive(url, WaitTimeSeconds=20))
            await asyncio.sleep(0.3)
            begun = monotonic()
            await live.stop()

            assert await waiting == []
            assert monotonic() - begun < 5


class TestDeadLetters:
    async def test_come_on_the_receive_after_the_last(self, sqs: Sqs, clock: FakeClock) -> None:
        source, dead = await sqs.with_dead_letters(2)
        given = {"a": attribute("1")}
        trace = {"AWSTraceHeader": attribute("Root=1-2-3")}
        [sent] = await sqs.send(source, "poison", MessageAttributes=given, MessageSystemAttributes=trace)
        for _ in range(2):
            assert await sqs.bodies(source) == ["poison"]
            assert await sqs.receive(dead) == []
            clock.advance(seconds=11)

        assert await sqs.receive(source) == []

        [message] = await sqs.receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"])
        assert message["MessageId"] == sent["MessageId"]
        assert message["MessageAttributes"] == given
        assert message["Attributes"]["AWSTraceHeader"] == "Root=1-2-3"
        assert message["Attributes"]["ApproximateReceiveCount"] == "3"
        assert message["Attributes"]["DeadLetterQueueSourceArn"] == await sqs.arn(source)

    async def test_may_go_in_circles(self, sqs: Sqs, clock: FakeClock) -> None:
        source, dead = await sqs.with_dead_letters(1)
        policy = json.dumps({"deadLetterTargetArn": await sqs.arn(source), "maxReceiveCount": 5})

        await sqs.set(dead, RedrivePolicy=policy, VisibilityTimeout=10)

        await sqs.send(source, "x")
        await sqs.receive(source)
        clock.advance(seconds=11)
        assert await sqs.receive(source) == []
        assert await sqs.bodies(dead) == ["x"]
