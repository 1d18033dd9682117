"""SQS as its SDK sees it: boto3 is the judge, in both protocols, on both stores."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.clock import FakeClock
from penstock.wire import sqs as door
from tests.wire.amazon import Clients, Sqs, refused
from tests.wire.conftest import Live, running

WRONG_SSE = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
)


def attribute(value: str | bytes, kind: str | None = None) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"DataType": kind or "Binary", "BinaryValue": value}
    return {"DataType": kind or "String", "StringValue": value}


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


class TestCreateQueue:
    async def test_again_with_none_or_some_of_the_attributes_gives_the_same_url(self, sqs: Sqs) -> None:
        url = await sqs.queue(DelaySeconds=5, VisibilityTimeout=60)
        name = url.rpartition("/")[2]

        assert await sqs.queue(name) == url
        assert await sqs.queue(name, VisibilityTimeout=60) == url

    async def test_again_is_compared_with_the_current_values(self, sqs: Sqs) -> None:
        url = await sqs.queue(DelaySeconds=5)
        name = url.rpartition("/")[2]
        await sqs.set(url, DelaySeconds=6)

        assert await sqs.queue(name, DelaySeconds=6) == url
        text = "A queue already exists with the same name and a different value for attribute DelaySeconds"
        with refused("QueueAlreadyExists", text):
            await sqs.queue(name, DelaySeconds=5)
        with refused("QueueAlreadyExists"):
            await sqs.queue(name, VisibilityTimeout=31)

    async def test_again_for_a_fifo_queue_names_what_differs(self, sqs: Sqs) -> None:
        url = await sqs.queue(fifo=True, ContentBasedDeduplication="true")

        text = "A queue already exists with the same name and a different value for attribute ContentBasedDeduplication"
        with refused("QueueAlreadyExists", text):
            await sqs.queue(url.rpartition("/")[2], fifo=True, ContentBasedDeduplication="false")

    async def test_fifo_suffix_and_attribute_go_together(self, sqs: Sqs) -> None:
        name = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        with refused("InvalidParameterValue", name):
            await sqs.queue("lonely.fifo")
        with refused("InvalidParameterValue"):
            await sqs.queue("lonely", FifoQueue="true")
        with refused("InvalidAttributeName", "Unknown Attribute FifoQueue."):
            await sqs.queue(FifoQueue="false")
        with refused("InvalidAttributeName", "Unknown Attribute ContentBasedDeduplication."):
            await sqs.queue(ContentBasedDeduplication="true")

    async def test_true_may_be_written_as_python_does(self, sqs: Sqs) -> None:
        url = await sqs.queue(f"{uuid4().hex}.fifo", FifoQueue="True", ContentBasedDeduplication="True")

        assert (await sqs.attributes(url))["ContentBasedDeduplication"] == "true"

    async def test_no_slash_in_a_name(self, sqs: Sqs) -> None:
        with refused("InvalidParameterValue"):
            await sqs.queue("queue/with/slashes")

    async def test_high_throughput_needs_fifo(self, sqs: Sqs) -> None:
        for name in ("DeduplicationScope", "FifoThroughputLimit"):
            with refused("InvalidAttributeName", f"You can specify the {name} only when FifoQueue is set to true."):
                await sqs.call("create_queue", QueueName="q", Attributes={name: "perMessageGroupId"})

    async def test_tags_come_with_the_queue(self, sqs: Sqs) -> None:
        answer = await sqs.call("create_queue", QueueName=uuid4().hex, tags={"team": "blue", "empty": ""})

        tags = await sqs.call("list_queue_tags", QueueUrl=answer["QueueUrl"])
        assert tags["Tags"] == {"team": "blue", "empty": ""}


class TestAttributes:
    async def test_defaults_are_those_of_aws(self, sqs: Sqs) -> None:
        url = await sqs.queue()

        found = await sqs.attributes(url)

        assert found["QueueArn"] == f"arn:aws:sqs:us-east-1:000000000000:{url.rpartition('/')[2]}"
        assert found["CreatedTimestamp"] == found["LastModifiedTimestamp"] == "1767225600"
        for name in ("QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"):
            del found[name]
        assert found == {
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": "0",
            "ApproximateNumberOfMessagesDelayed": "0",
            "DelaySeconds": "0",
            "MaximumMessageSize": "1048576",
            "MessageRetentionPeriod": "345600",
            "ReceiveMessageWaitTimeSeconds": "0",
            "VisibilityTimeout": "30",
            "SqsManagedSseEnabled": "true",
        }

    async def test_a_fifo_queue_has_four_more(self, sqs: Sqs) -> None:
        found = await sqs.attributes(await sqs.queue(fifo=True))

        assert found["FifoQueue"] == "true"
        assert found["ContentBasedDeduplication"] == "false"
        assert found["DeduplicationScope"] == "queue"
        assert found["FifoThroughputLimit"] == "perQueue"

    async def test_only_those_asked_for(self, sqs: Sqs) -> None:
        url = await sqs.queue(DelaySeconds=3)

        assert await sqs.attributes(url, "DelaySeconds", "Policy") == {"DelaySeconds": "3"}
        assert "Attributes" not in await sqs.call("get_queue_attributes", QueueUrl=url)
        with refused("InvalidAttributeName", "Unknown Attribute Colour."):
            await sqs.attributes(url, "Colour")

    async def test_counts_tell_visible_hidden_and_delayed(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.send(url, "a", "b", "c")
        await sqs.send(url, "later", DelaySeconds=60)
        await sqs.receive(url, 1)

        found = await sqs.attributes(url)

        assert found["ApproximateNumberOfMessages"] == "2"
        assert found["ApproximateNumberOfMessagesNotVisible"] == "1"
        assert found["ApproximateNumberOfMessagesDelayed"] == "1"

    async def test_kms_turns_sqs_encryption_off_and_back_on(self, sqs: Sqs) -> None:
        url = await sqs.queue()

        await sqs.set(url, KmsMasterKeyId="testKeyId", KmsDataKeyReusePeriodSeconds=6000)
        found = await sqs.attributes(url, "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled")
        assert found == {
            "KmsMasterKeyId": "testKeyId",
            "KmsDataKeyReusePeriodSeconds": "6000",
            "SqsManagedSseEnabled": "false",
        }
        await sqs.set(url, KmsMasterKeyId="")
        found = await sqs.attributes(url)
        assert "KmsMasterKeyId" not in found
        assert "KmsDataKeyReusePeriodSeconds" not in found
        await sqs.set(url, SqsManagedSseEnabled="true")
        assert (await sqs.attributes(url))["SqsManagedSseEnabled"] == "true"

    async def test_two_kinds_of_encryption_at_once_are_refused(self, sqs: Sqs) -> None:
        with refused("InvalidAttributeName", WRONG_SSE):
            await sqs.queue(KmsMasterKeyId="testKeyId", SqsManagedSseEnabled="true")

    async def test_empty_policies_are_deleted(self, sqs: Sqs) -> None:
        dead = await sqs.queue()
        redrive = json.dumps({"deadLetterTargetArn": await sqs.arn(dead), "maxReceiveCount": 3})
        policy = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*"}]})
        url = await sqs.queue(RedrivePolicy=redrive, Policy=policy)
        assert (await sqs.attributes(url))["Policy"] == policy

        await sqs.set(url, Policy="", RedrivePolicy="")

        found = await sqs.attributes(url)
        assert "Policy" not in found
        assert "RedrivePolicy" not in found

    async def test_a_redrive_policy_is_returned_as_given(self, sqs: Sqs) -> None:
        dead = await sqs.queue()
        for count in (3, "7"):
            text = json.dumps({"maxReceiveCount": count, "deadLetterTargetArn": await sqs.arn(dead)}, indent=1)
            url = await sqs.queue(RedrivePolicy=text)
            assert (await sqs.attributes(url, "RedrivePolicy"))["RedrivePolicy"] == text

    async def test_a_redrive_policy_needs_both_fields(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        with refused("InvalidParameterValue"):
            await sqs.set(url, RedrivePolicy='{"maxReceiveCount": 1}')
        with refused("InvalidParameterValue"):
            await sqs.set(url, RedrivePolicy=json.dumps({"deadLetterTargetArn": await sqs.arn(url)}))

    async def test_the_type_of_a_queue_does_not_change(self, sqs: Sqs) -> None:
        fifo, standard = await sqs.queue(fifo=True), await sqs.queue()

        await sqs.set(fifo, FifoQueue="true")
        text = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        with refused("InvalidAttributeValue", text):
            await sqs.set(fifo, FifoQueue="false")
        with refused("InvalidAttributeName", "Unknown Attribute FifoQueue."):
            await sqs.set(standard, FifoQueue="true")

    async def test_a_change_counts_at_once(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.receive(url)
        await sqs.set(url, ReceiveMessageWaitTimeSeconds=1)

        begun = monotonic()
        assert await sqs.receive(url) == []
        assert monotonic() - begun >= 0.9

    async def test_a_redrive_allow_policy_is_enforced(self, sqs: Sqs) -> None:
        friend = f"friend-{uuid4().hex[:8]}"
        allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [f"arn:aws:sqs:us-east-1:000000000000:{friend}"]}
        shut = await sqs.queue(RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))
        choosy = await sqs.queue(RedriveAllowPolicy=json.dumps(allowed))

        async def redrive(target: str) -> str:
            return json.dumps({"deadLetterTargetArn": await sqs.arn(target), "maxReceiveCount": 1})

        with refused("InvalidParameterValue"):
            await sqs.queue(RedrivePolicy=await redrive(shut))
        with refused("InvalidParameterValue"):
            await sqs.queue(RedrivePolicy=await redrive(choosy))
        await sqs.queue(friend, RedrivePolicy=await redrive(choosy))


class TestLists:
    async def test_queues_by_prefix(self, sqs: Sqs) -> None:
        prefix = uuid4().hex
        urls = [await sqs.queue(f"{prefix}-{number}") for number in range(3)]

        assert (await sqs.call("list_queues", QueueNamePrefix=prefix))["QueueUrls"] == urls
        assert "QueueUrls" not in await sqs.call("list_queues", QueueNamePrefix=f"{prefix}x")

    async def test_pages_come_only_with_max_results(self, sqs: Sqs) -> None:
        prefix = uuid4().hex
        urls = [await sqs.queue(f"{prefix}-{number}") for number in range(5)]

        whole = await sqs.call("list_queues", QueueNamePrefix=prefix)
        assert "NextToken" not in whole
        page = await sqs.call("list_queues", QueueNamePrefix=prefix, MaxResults=3)
        rest = await sqs.call("list_queues", QueueNamePrefix=prefix, MaxResults=3, NextToken=page["NextToken"])
        assert page["QueueUrls"] + rest["QueueUrls"] == urls
        assert "NextToken" not in rest

    async def test_sources_of_a_dead_letter_queue(self, sqs: Sqs) -> None:
        source, dead = await sqs.with_dead_letters()

        answer = await sqs.call("list_dead_letter_source_queues", QueueUrl=dead)

        assert answer["queueUrls"] == [source]
        none = await sqs.call("list_dead_letter_source_queues", QueueUrl=source)
        assert none.get("queueUrls", []) == []
        assert sqs.protocol == "query" or "queueUrls" in none

    async def test_the_url_of_a_queue(self, sqs: Sqs, live: Live) -> None:
        url = await sqs.queue()
        name = url.rpartition("/")[2]

        assert url == f"{live.url}/000000000000/{name}"
        assert (await sqs.call("get_queue_url", QueueName=name))["QueueUrl"] == url
        owned = await sqs.call("get_queue_url", QueueName=name, QueueOwnerAWSAccountId="000000000000")
        assert owned["QueueUrl"] == url


class TestTags:
    async def test_empty_values_and_case(self, sqs: Sqs) -> None:
        url = await sqs.queue()

        await sqs.call("tag_queue", QueueUrl=url, Tags={"a": "1", "A": "", "ü": "ß"})
        assert (await sqs.call("list_queue_tags", QueueUrl=url))["Tags"] == {"a": "1", "A": "", "ü": "ß"}
        await sqs.call("tag_queue", QueueUrl=url, Tags={"a": "2"})
        await sqs.call("untag_queue", QueueUrl=url, TagKeys=["A", "missing"])
        assert (await sqs.call("list_queue_tags", QueueUrl=url))["Tags"] == {"a": "2", "ü": "ß"}
        await sqs.call("untag_queue", QueueUrl=url, TagKeys=["a", "ü"])
        assert "Tags" not in await sqs.call("list_queue_tags", QueueUrl=url)


class TestPermissions:
    async def add(self, sqs: Sqs, url: str, label: str, accounts: list[str], actions: list[str]) -> None:
        await sqs.call("add_permission", QueueUrl=url, Label=label, AWSAccountIds=accounts, Actions=actions)

    async def test_make_a_policy_and_unmake_it(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        arn = await sqs.arn(url)

        await self.add(sqs, url, "one", ["111111111111"], ["ReceiveMessage"])
        await self.add(sqs, url, "two", ["111111111111", "222222222222"], ["SendMessage", "DeleteMessage"])

        assert json.loads((await sqs.attributes(url, "Policy"))["Policy"]) == {
            "Version": "2008-10-17",
            "Id": f"{arn}/SQSDefaultPolicy",
            "Statement": [
                {
                    "Sid": "one",
                    "Effect": "Allow",
                    "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
                    "Action": "SQS:ReceiveMessage",
                    "Resource": arn,
                },
                {
                    "Sid": "two",
                    "Effect": "Allow",
                    "Principal": {"AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]},
                    "Action": ["SQS:SendMessage", "SQS:DeleteMessage"],
                    "Resource": arn,
                },
            ],
        }
        await sqs.call("remove_permission", QueueUrl=url, Label="one")
        assert "two" in (await sqs.attributes(url, "Policy"))["Policy"]
        await sqs.call("remove_permission", QueueUrl=url, Label="two")
        assert await sqs.attributes(url, "Policy") == {}

    async def test_labels_are_unique_and_known(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await self.add(sqs, url, "one", ["111111111111"], ["*"])

        with refused("InvalidParameterValue", "Value one for parameter Label is invalid. Reason: Already exists."):
            await self.add(sqs, url, "one", ["111111111111"], ["*"])
        with refused("InvalidParameterValue", "Value two for parameter Label is invalid. Reason: can't find label."):
            await sqs.call("remove_permission", QueueUrl=url, Label="two")


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

    async def test_an_old_handle_deletes_without_effect(self, sqs: Sqs, clock: FakeClock) -> None:
        url = await sqs.queue(VisibilityTimeout=5)
        await sqs.send(url, "x")
        [old] = await sqs.receive(url)
        clock.advance(seconds=6)
        await sqs.receive(url)

        await sqs.delete(url, old)

        clock.advance(seconds=6)
        assert await sqs.bodies(url) == ["x"]

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


class TestRegions:
    async def test_separate_queues_of_one_name(self, live: Live, clients: Clients) -> None:
        here, there = (Sqs(clients.make("json", live.url, region)) for region in ("us-east-1", "eu-central-1"))
        name = uuid4().hex
        url = await here.queue(name)
        with refused("AWS.SimpleQueueService.NonExistentQueue"):
            await there.call("get_queue_url", QueueName=name)

        assert await there.queue(name) == url
        await here.send(url, "here")
        await there.send(url, "there")

        assert await here.bodies(url) == ["here"]
        assert await there.bodies(url) == ["there"]
        assert await there.arn(url) == f"arn:aws:sqs:eu-central-1:000000000000:{name}"


class TestStrict:
    async def test_a_deleted_name_rests_for_a_minute(self, clients: Clients, clock: FakeClock) -> None:
        async with running(clock=clock, strict=True) as live:
            sqs = Sqs(clients.make("json", live.url))
            url = await sqs.queue("name")
            await sqs.call("delete_queue", QueueUrl=url)

            text = "You must wait 60 seconds after deleting a queue before you can create another with the same name."
            with refused("AWS.SimpleQueueService.QueueDeletedRecently", text):
                await sqs.queue("name")
            clock.advance(seconds=60)
            await sqs.queue("name")

    async def test_a_second_purge_waits_for_a_minute(self, clients: Clients, clock: FakeClock) -> None:
        async with running(clock=clock, strict=True) as live:
            for protocol in ("json", "query"):
                sqs = Sqs(clients.make(protocol, live.url))
                url = await sqs.queue("name")
                await sqs.call("purge_queue", QueueUrl=url)

                text = "Only one PurgeQueue operation on name is allowed every 60 seconds."
                with refused("AWS.SimpleQueueService.PurgeQueueInProgress", text, 403):
                    await sqs.call("purge_queue", QueueUrl=url)
                clock.advance(seconds=60)

    async def test_is_not_the_default(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        await sqs.call("purge_queue", QueueUrl=url)
        await sqs.call("purge_queue", QueueUrl=url)
        await sqs.call("delete_queue", QueueUrl=url)
        assert await sqs.queue(url.rpartition("/")[2]) == url


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
