"""A POST to each door whose body can be anything: how the bytes of it are framed is what the tests look at."""

from __future__ import annotations

from dataclasses import dataclass

from tests.wire.raw import request


@dataclass(frozen=True)
class Door:
    name: str
    path: str
    headers: tuple[str, ...] = ()
    plain_status: int = 400
    """What a body that is another HTTP request is answered with."""

    def request(self, body: bytes, *headers: str) -> bytes:
        return request("POST", self.path, body, *self.headers, *headers)

    def __str__(self) -> str:
        return self.name


_FORM = "Content-Type: application/x-www-form-urlencoded"
_JSON = "Content-Type: application/x-amz-json-1.0"
DOORS = [
    Door("rest", "/v1/queues"),
    Door("jobs", "/jobs"),
    Door("sqs-json", "/", (_JSON, "X-Amz-Target: AmazonSQS.CreateQueue")),
    Door("sns-json", "/", (_JSON, "X-Amz-Target: AmazonSNS.CreateTopic")),
    Door("query", "/", (_FORM,), plain_status=404),
    Door("queue-url", "/000000000000/q", (_FORM,), plain_status=404),
    Door("pages", "/docs", plain_status=405),
    Door("nothing", "/v1/nothing", plain_status=404),
]
