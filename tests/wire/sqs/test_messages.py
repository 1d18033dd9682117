"""SQS as its SDK sees it, messages: checksums, attributes, bodies, batches."""

from __future__ import annotations

import pytest

from penstock.clock import FakeClock
from tests.wire.amazon import Sqs, refused
from tests.wire.sqs.attributes import attribute


class TestChecksums:
    async def test_of_attributes_cover_only_those_returned(self, sqs: Sqs) -> None:
        url = await sqs.queue(VisibilityTimeout=0)
        given = {"Hello": attribute("There"), "General": attribute("Kenobi"), "Help.Me": attribute("Me")}
        [sent] = await sqs.send(url, "msg", MessageAttributes=given)
        assert sent["MD5OfMessageAttributes"] == "4c360f3fdafd970e05fae2f149d997f5"

        async def ask(*names: str) -> tuple[set[str], str | None]:
            [message] = await sqs.receive(url, MessageAttributeNames=list(names))
            return set(message.get("MessageAttributes", ())), message.get("MD5OfMessageAttributes")

        everything = ({"Hello", "General", "Help.Me"}, "4c360f3fdafd970e05fae2f149d997f5")
        assert await ask() == (set(), None)
        assert await ask("All") == everything
        assert await ask("*") == everything
        assert await ask(".*") == everything
        assert await ask("Foo", "Help") == (set(), None)
        assert await ask("Hello", "General") == ({"Hello", "General"}, "fca026605781cb4126a1e9044df24232")
        assert await ask("Foo", "Hello") == ({"Hello"}, "a311262e065454b75da111d535b8dacd")
        assert await ask("Hel.*") == ({"Hello", "Help.Me"}, "83fee93c1bcd8b9a5a923ffacdc636c7")
        assert await ask("AWS.") == (set(), None)
        assert await ask("..foo") == (set(), None)

    async def test_of_the_binary_value_on_record(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        value = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"

        [sent] = await sqs.send(url, "test", MessageAttributes={"attr1": attribute(value)})
        [message] = await sqs.receive(url, MessageAttributeNames=["All"])

        assert sent["MD5OfMessageAttributes"] == "8cbe4db156db8a94db8b801b7addb984"
        assert message["MessageAttributes"] == {"attr1": attribute(value)}

    async def test_of_every_type_with_a_suffix_of_its_own(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        given = {
            "s": attribute("x", "String.uuid"),
            "n": attribute("-1.5e3", "Number.float"),
            "b": attribute(b"\x00\xff", "Binary.png"),
        }

        await sqs.send(url, "body", MessageAttributes=given)  # boto3 compares the sums itself
        [message] = await sqs.receive(url, MessageAttributeNames=["All"])

        assert message["MessageAttributes"] == given

    async def test_of_system_attributes_are_apart(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

        [sent] = await sqs.send(url, "x", MessageSystemAttributes={"AWSTraceHeader": attribute(trace)})

        assert sent["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
        assert "MD5OfMessageAttributes" not in sent


class TestSystemAttributes:
    async def test_all_of_a_message(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x")
        clock.advance(seconds=2)

        [message] = await sqs.receive(url, AttributeNames=["All"])

        found = message["Attributes"]
        assert found["SentTimestamp"] == "1767225600000"
        assert found["ApproximateFirstReceiveTimestamp"] == "1767225602000"
        assert found["ApproximateReceiveCount"] == "1"
        assert found["SenderId"].startswith("AIDA")
        assert len(found["SenderId"]) == 21
        assert set(found) == {
            "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp",
        }  # fmt: skip

    async def test_old_and_new_parameter_are_merged(self, sqs: Sqs) -> None:
        url = await sqs.queue(VisibilityTimeout=0)
        await sqs.send(url, "x")

        [neither] = await sqs.receive(url)
        [both] = await sqs.receive(
            url, AttributeNames=["SenderId"], MessageSystemAttributeNames=["ApproximateReceiveCount"]
        )
        [new] = await sqs.receive(url, MessageSystemAttributeNames=["All"])

        assert "Attributes" not in neither
        assert set(both["Attributes"]) == {"SenderId", "ApproximateReceiveCount"}
        assert len(new["Attributes"]) == 4

    async def test_the_trace_header_comes_back(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "x", MessageSystemAttributes={"AWSTraceHeader": attribute("Root=1-2-3")})

        [message] = await sqs.receive(url, AttributeNames=["AWSTraceHeader"])

        assert message["Attributes"] == {"AWSTraceHeader": "Root=1-2-3"}

    async def test_a_group_on_a_standard_queue_is_kept_without_order(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        [sent] = await sqs.send(url, "a", MessageGroupId="tenant-1")
        await sqs.send(url, "b", MessageGroupId="tenant-1")

        messages = await sqs.receive(url, AttributeNames=["All"])

        assert "SequenceNumber" not in sent
        assert len(messages) == 2
        assert messages[0]["Attributes"]["MessageGroupId"] == "tenant-1"
        assert "SequenceNumber" not in messages[0]["Attributes"]
        for bad in ("", "x" * 129, "with space"):
            text = (
                f"Value {bad} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include "
                "alphanumeric and punctuation characters. 1 to 128 in length."
            )
            with refused("InvalidParameterValue", text):
                await sqs.send(url, "x", MessageGroupId=bad)


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            "a\rb\r\nc",
            "quote \" and &quot; and ' too",
            "emoji 😇 \U0001f468‍💻",
            "<a>&amp;</a>",
            "\t\n",
            "]]>",
            "\ue000\ufffd",
        ],
    )
    async def test_survive_as_they_are(self, sqs: Sqs, body: str) -> None:
        url = await sqs.queue()

        await sqs.send(url, body, MessageAttributes={"a": attribute(body)})
        [message] = await sqs.receive(url, MessageAttributeNames=["All"])

        assert message["Body"] == body
        assert message["MessageAttributes"]["a"]["StringValue"] == body

    async def test_outside_the_characters_of_xml_are_refused(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        for bad in ("\x00", "\x01", "\x1f", "\ufffe", "\uffff"):
            with refused("InvalidMessageContents"):
                await sqs.send(url, f"a{bad}b")

    async def test_empty_is_missing(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        with refused("MissingParameter", "The request must contain the parameter MessageBody."):
            await sqs.send(url, "")

    async def test_count_with_their_attributes(self, sqs: Sqs) -> None:
        url = await sqs.queue(MaximumMessageSize=1024)
        text = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."

        await sqs.send(url, "x" * 1024)
        with refused("InvalidParameterValue", text):
            await sqs.send(url, "x" * 1025)
        name, kind, value = "n" * 10, "String", "v" * 8  # 24 bytes
        await sqs.send(url, "x" * 1000, MessageAttributes={name: attribute(value, kind)})
        with refused("InvalidParameterValue", text):
            await sqs.send(url, "x" * 1001, MessageAttributes={name: attribute(value, kind)})
        with refused("InvalidParameterValue", text):
            await sqs.send(url, "ü" * 513)

    async def test_of_a_megabyte_pass(self, sqs: Sqs) -> None:
        url = await sqs.queue()

        await sqs.send(url, "x" * 1_048_576)
        assert [len(body) for body in await sqs.bodies(url)] == [1_048_576]
        with refused("InvalidParameterValue"):
            await sqs.send(url, "x" * 1_048_577)


class TestBatches:
    async def test_a_bad_entry_fails_alone(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        entries = [
            {"Id": "good", "MessageBody": "fine"},
            {"Id": "bad", "MessageBody": "\x01"},
            {"Id": "late", "MessageBody": "x", "DelaySeconds": 901},
        ]

        answer = await sqs.call("send_message_batch", QueueUrl=url, Entries=entries)

        assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
        failed = {entry["Id"]: entry for entry in answer["Failed"]}
        assert failed["bad"]["Code"] == "InvalidMessageContents"
        assert failed["bad"]["SenderFault"] is True
        assert failed["late"]["Code"] == "InvalidParameterValue"
        assert await sqs.bodies(url) == ["fine"]

    async def test_one_too_large_for_its_queue_fails_alone(self, sqs: Sqs) -> None:
        url = await sqs.queue(MaximumMessageSize=1024)
        entries = [{"Id": "a", "MessageBody": "x" * 1024}, {"Id": "b", "MessageBody": "x" * 1025}]

        answer = await sqs.call("send_message_batch", QueueUrl=url, Entries=entries)

        assert [entry["Id"] for entry in answer["Successful"]] == ["a"]
        [failed] = answer["Failed"]
        assert failed["Message"].endswith("Message must be shorter than 1024 bytes.")

    async def test_together_are_at_most_a_megabyte(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        entries = [{"Id": "a", "MessageBody": "x" * 1_048_000}, {"Id": "b", "MessageBody": "x" * 577}]

        text = "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
        with refused("AWS.SimpleQueueService.BatchRequestTooLong", text):
            await sqs.call("send_message_batch", QueueUrl=url, Entries=entries)
        assert await sqs.receive(url) == []

    async def test_a_handle_of_another_queue_fails_alone(self, sqs: Sqs) -> None:
        url, other = await sqs.queue(), await sqs.queue()
        await sqs.send(url, "x")
        await sqs.send(other, "y")
        [mine], [foreign] = await sqs.receive(url), await sqs.receive(other)
        entries = [
            {"Id": "mine", "ReceiptHandle": mine["ReceiptHandle"]},
            {"Id": "foreign", "ReceiptHandle": foreign["ReceiptHandle"]},
        ]

        answer = await sqs.call("delete_message_batch", QueueUrl=url, Entries=entries)

        assert answer["Successful"] == [{"Id": "mine"}]
        assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("foreign", "ReceiptHandleIsInvalid")]
