"""SQS as its SDK sees it, attributes of queues: defaults, changes, policies."""

from __future__ import annotations

import json
from time import monotonic
from uuid import uuid4

from tests.wire.amazon import Sqs, refused

WRONG_SSE = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
)


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
