"""Answers recorded from SQS that are easy to get wrong: dead letters of dead letters, regions, ended move tasks."""

from __future__ import annotations

import json

import httpx

from penstock.clock import FakeClock
from tests.wire.amazon import CREDENTIAL, Clients, Sqs, text, xml
from tests.wire.conftest import Live

COUNT = ["ApproximateReceiveCount"]


async def with_policy(sqs: Sqs, url: str, target: str, receives: int) -> None:
    policy = json.dumps({"deadLetterTargetArn": await sqs.arn(target), "maxReceiveCount": receives})
    await sqs.set(url, RedrivePolicy=policy)


async def test_a_queue_may_be_its_own_dead_letter_queue(sqs: Sqs) -> None:
    url = await sqs.queue(VisibilityTimeout=0)
    await with_policy(sqs, url, url, 1)
    await sqs.send(url, "x")

    received = [await sqs.bodies(url) for _ in range(3)]

    assert received == [["x"]] * 3
    assert json.loads((await sqs.attributes(url))["RedrivePolicy"])["deadLetterTargetArn"] == await sqs.arn(url)


async def test_a_dead_letter_queue_with_a_policy_of_its_own_counts_its_own_receives(sqs: Sqs) -> None:
    first, second, third = [await sqs.queue(VisibilityTimeout=0) for _ in range(3)]
    await with_policy(sqs, first, second, 1)
    await with_policy(sqs, second, third, 1)
    await sqs.send(first, "x")

    counts = []
    for url in (first, first, second, second, third, third):
        counts.append([each["Attributes"] for each in await sqs.receive(url, AttributeNames=COUNT)])

    shown = [[each["ApproximateReceiveCount"] for each in found] for found in counts]
    assert shown == [["1"], [], ["2"], [], ["3"], ["4"]]


async def test_a_fifo_dead_letter_queue_counts_its_own_receives(sqs: Sqs, clock: FakeClock) -> None:
    first, second, third = [await sqs.fifo(VisibilityTimeout=5) for _ in range(3)]
    await with_policy(sqs, first, second, 1)
    await with_policy(sqs, second, third, 1)
    await sqs.send(first, "x", MessageGroupId="g")

    found = []
    for url in (first, first, second, second, third):
        found.append(await sqs.bodies(url))
        clock.advance(seconds=6)

    assert found == [["x"], [], ["x"], [], ["x"]]


async def test_a_move_task_names_its_destination_after_that_was_deleted(sqs: Sqs, live: Live) -> None:
    _, dead = await sqs.with_dead_letters()
    other = await sqs.queue()
    source, destination = await sqs.arn(dead), await sqs.arn(other)
    await sqs.call("start_message_move_task", SourceArn=source, DestinationArn=destination)
    await live.engine.queues.run_moves()
    await sqs.call("delete_queue", QueueUrl=other)

    [task] = (await sqs.call("list_message_move_tasks", SourceArn=source))["Results"]

    assert task["DestinationArn"] == destination


async def test_the_region_of_the_signature_decides_on_a_bare_address(sqs: Sqs, clients: Clients, live: Live) -> None:
    away = Sqs(clients.make(sqs.protocol, live.url, "eu-west-1"), sqs.protocol)
    url = await sqs.queue()
    name = url.rpartition("/")[2]
    await away.queue(name)

    await away.send(url, "away")

    assert await sqs.bodies(url) == []
    assert await away.bodies(url) == ["away"]


async def test_the_region_stands_in_the_host_name_of_the_answer(live: Live) -> None:
    hosts = {region: f"sqs.{region}.localhost:{live.port}" for region in ("us-east-1", "eu-west-1")}
    path, urls, seen = "/000000000000/regional", {}, {}
    async with httpx.AsyncClient(base_url=live.url, trust_env=False) as http:
        for region, host in hosts.items():
            head = {"host": host, "authorization": CREDENTIAL.format(region=region)}
            made = await http.post("/", data={"Action": "CreateQueue", "QueueName": "regional"}, headers=head)
            urls[region] = text(xml(made), "CreateQueueResult", "QueueUrl")
            send = {"Action": "SendMessage", "MessageBody": region}
            await http.post(path, data=send, headers={"host": host, "authorization": "anyone"})
        for region, host in hosts.items():
            asked = {"host": host, "authorization": "anyone"}
            received = await http.post(path, data={"Action": "ReceiveMessage"}, headers=asked)
            seen[region] = text(xml(received), "ReceiveMessageResult", "Message", "Body")

    assert urls == {region: f"http://{host}{path}" for region, host in hosts.items()}
    assert seen == {region: region for region in hosts}
