"""SQS as its SDK sees it, whole lives of queues and batches: boto3 is the judge, in both protocols, on both stores."""

from __future__ import annotations

from uuid import UUID

from penstock.wire.sqs import door
from tests.wire.amazon import Clients, Sqs, refused
from tests.wire.conftest import Live
from tests.wire.sqs.attributes import attribute


async def test_every_action_of_the_service_model_is_served(live: Live, clients: Clients) -> None:
    operations = clients.make("json", live.url).meta.service_model.operation_names

    assert set(door.service(live.engine).actions) == set(operations)


class TestLife:
    async def test_of_a_standard_queue(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        [sent] = await sqs.send(url, "hello", MessageAttributes={"kind": attribute("greeting")})

        [message] = await sqs.receive(url, AttributeNames=["All"], MessageAttributeNames=["All"])

        assert message["MessageId"] == sent["MessageId"]
        assert str(UUID(sent["MessageId"])) == sent["MessageId"]
        assert message["Body"] == "hello"
        assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == "5d41402abc4b2a76b9719d911017c592"
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        assert await sqs.receive(url) == []
        await sqs.hide(url, message, 0)
        [again] = await sqs.receive(url, AttributeNames=["All"])
        assert again["Attributes"]["ApproximateReceiveCount"] == "2"
        assert again["ReceiptHandle"] != message["ReceiptHandle"]
        await sqs.delete(url, again)
        assert (await sqs.attributes(url))["ApproximateNumberOfMessages"] == "0"
        await sqs.call("delete_queue", QueueUrl=url)
        with refused("AWS.SimpleQueueService.NonExistentQueue"):
            await sqs.send(url, "too late")

    async def test_of_a_fifo_queue(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True)
        first, second = [
            (await sqs.send(url, body, MessageGroupId="g", MessageDeduplicationId=body))[0] for body in ("one", "two")
        ]

        [one] = await sqs.receive(url, 1, AttributeNames=["All"])

        assert one["Body"] == "one"
        assert one["Attributes"]["MessageGroupId"] == "g"
        assert one["Attributes"]["MessageDeduplicationId"] == "one"
        assert one["Attributes"]["SequenceNumber"] == first["SequenceNumber"]
        assert len(first["SequenceNumber"]) == 20
        assert first["SequenceNumber"] < second["SequenceNumber"]
        assert await sqs.receive(url) == []
        await sqs.delete(url, one)
        assert await sqs.bodies(url) == ["two"]

    async def test_of_batches(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        entries = [{"Id": f"e{number}", "MessageBody": f"m{number}"} for number in range(10)]

        sent = await sqs.call("send_message_batch", QueueUrl=url, Entries=entries)
        messages = await sqs.receive(url)
        handles = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]} for number, message in enumerate(messages)
        ]
        hidden = [handle | {"VisibilityTimeout": 60} for handle in handles]
        changed = await sqs.call("change_message_visibility_batch", QueueUrl=url, Entries=hidden)
        deleted = await sqs.call("delete_message_batch", QueueUrl=url, Entries=handles)

        assert [entry["Id"] for entry in sent["Successful"]] == [entry["Id"] for entry in entries]
        assert [entry["MessageId"] for entry in sent["Successful"]] == [message["MessageId"] for message in messages]
        assert [entry["Id"] for entry in changed["Successful"]] == [str(number) for number in range(10)]
        assert [entry["Id"] for entry in deleted["Successful"]] == [str(number) for number in range(10)]
        assert all("Failed" not in answer for answer in (sent, changed, deleted))
