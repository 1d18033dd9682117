"""boto3's resources, the API above its clients."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from tests.system.serving import Running
from tests.third_party.boto3_sqs.calls import ATTRIBUTES, CONFIG


def test_the_resource_api_lives_a_whole_life(server: Running, session: boto3.Session, name: str) -> None:
    resource: Any = session.resource("sqs", endpoint_url=server.url, config=CONFIG)
    dead = resource.create_queue(QueueName=f"{name}-dead")
    policy = json.dumps({"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": 1})
    queue = resource.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})
    assert resource.get_queue_by_name(QueueName=name).url == queue.url
    assert {found.url for found in resource.queues.filter(QueueNamePrefix=name)} == {queue.url, dead.url}
    assert [found.url for found in dead.dead_letter_source_queues.all()] == [queue.url]

    queue.send_message(MessageBody="one", MessageAttributes=ATTRIBUTES)
    queue.send_messages(Entries=[{"Id": "two", "MessageBody": "two"}])
    queue.set_attributes(Attributes={"VisibilityTimeout": "50"})
    queue.reload()
    assert queue.attributes["VisibilityTimeout"] == "50"
    messages = take(queue, 2)
    assert messages["one"].message_attributes == ATTRIBUTES
    messages["one"].delete()
    messages["two"].change_visibility(VisibilityTimeout=0)

    assert queue.receive_messages(WaitTimeSeconds=0) == []
    assert list(take(dead)) == ["two"]
    dead.purge()
    for found in (queue, dead):
        found.delete()
    with pytest.raises(resource.meta.client.exceptions.QueueDoesNotExist):
        queue.load()


def take(queue: Any, count: int = 1) -> dict[str, Any]:
    """That many messages of a queue by their bodies."""
    messages: dict[str, Any] = {}
    while len(messages) < count:
        more = queue.receive_messages(MaxNumberOfMessages=10, WaitTimeSeconds=5, MessageAttributeNames=["All"])
        assert more
        messages |= {message.body: message for message in more}
    return messages
