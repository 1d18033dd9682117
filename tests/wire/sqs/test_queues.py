"""SQS as its SDK sees it, queues: made, listed, tagged, granted, and where they live."""

from __future__ import annotations

import json
from uuid import uuid4

from penstock.clock import FakeClock
from tests.wire.amazon import Clients, Sqs, refused
from tests.wire.conftest import Live, running


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

    async def test_a_policy_grows_to_twenty_statements(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        for number in range(20):
            await self.add(sqs, url, f"l{number}", ["111111111111"], ["*"])
        with refused("OverLimit", "21 statements were found in the submitted policy, max allowed is 20"):
            await self.add(sqs, url, "l20", ["111111111111"], ["*"])
        assert len(json.loads((await sqs.attributes(url, "Policy"))["Policy"])["Statement"]) == 20

    async def test_a_policy_grows_to_eight_kibibytes(self, sqs: Sqs) -> None:
        url = await sqs.queue()
        with refused("OverLimit"):
            await self.add(sqs, url, "many", ["111111111111"] * 300, ["*"])
        assert await sqs.attributes(url, "Policy") == {}


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
