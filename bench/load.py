"""A load on one queue: every connection sends, receives and deletes, round after round.

Run as a process of its own, so that its CPU time is not the server's. Bounded in count and in time; loopback
only. Prints one JSON object. The HTTP spoken here is the least that will do: the client must not be what is
measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import uvloop

BODY = "x" * 200


class Connection(asyncio.Protocol):
    """One request at a time over one keep-alive connection."""

    def __init__(self) -> None:
        self.closed = False
        """The server keeps no connection open, so that the next request needs a new one."""
        self._buffer = b""
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        start = head.find(b"content-length: ")
        length = int(head[start + 16 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        self._buffer = b""
        if head.startswith(b"http/1.0") or b"\r\nconnection: close" in head:
            self.closed = True
            self.close()
        assert self._waiting is not None
        self._waiting.set_result((int(head[9:12]), body))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@dataclass
class Tally:
    messages: int = 0
    requests: int = 0
    empty: int = 0
    latencies: list[float] = field(default_factory=list)


class Native:
    """The native REST door."""

    def __init__(self, host: str, queue: str, per_request: int) -> None:
        self._host, self._per_request = host, per_request
        self._path = f"/v1/queues/{queue}/messages"
        message = {"message": BODY}
        payload = json.dumps(message if per_request == 1 else [message] * per_request).encode()
        self.send = self._request("POST", self._path, payload)
        self.receive = self._request("GET", f"{self._path}?max={per_request}&vt=60")

    def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer bench\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def found(self, body: bytes) -> list[Any]:
        return [message["id"] for message in json.loads(body)]

    def delete(self, ids: list[Any]) -> bytes:
        if self._per_request == 1:
            return self._request("DELETE", f"{self._path}/{ids[0]}")
        return self._request("DELETE", self._path, json.dumps({"ids": ids}).encode())


class Sqs:
    """SQS in the JSON protocol, with the headers an SDK sends."""

    def __init__(self, host: str, queue: str, per_request: int) -> None:
        self._host, self._per_request = host, per_request
        self._url = queue if queue.startswith("http") else f"http://{host}/000000000000/{queue}"
        message = {"QueueUrl": self._url, "MessageBody": BODY}
        if per_request == 1:
            self.send = self._request("SendMessage", message)
        else:
            entries = [{"Id": str(number), "MessageBody": BODY} for number in range(per_request)]
            self.send = self._request("SendMessageBatch", {"QueueUrl": self._url, "Entries": entries})
        wanted = {"QueueUrl": self._url, "MaxNumberOfMessages": per_request, "VisibilityTimeout": 60}
        self.receive = self._request("ReceiveMessage", wanted)

    def _request(self, action: str, given: dict[str, Any]) -> bytes:
        body = json.dumps(given).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
            "Content-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20260101T000000Z\r\n"
            "Authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/sqs/aws4_request, "
            f"SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={'0' * 64}\r\n"
        )
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def found(self, body: bytes) -> list[Any]:
        return [message["ReceiptHandle"] for message in json.loads(body).get("Messages", ())]

    def delete(self, ids: list[Any]) -> bytes:
        if self._per_request == 1:
            return self._request("DeleteMessage", {"QueueUrl": self._url, "ReceiptHandle": ids[0]})
        entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(ids)]
        return self._request("DeleteMessageBatch", {"QueueUrl": self._url, "Entries": entries})


class Simple:
    """The simple JSON protocol."""

    def __init__(self, host: str, queue: str, per_request: int) -> None:
        self._host = host
        message = {"queue_name": queue, "message_body": BODY}
        if per_request == 1:
            self.send = self._request("/send", message)
        else:
            self.send = self._request("/send_batch", {"messages": [message] * per_request})
        wanted = {"queue_name": queue, "max_number_of_messages": per_request, "visibility_timeout": 60}
        self.receive = self._request("/receive", {**wanted, "wait_time_seconds": 0})

    def _request(self, path: str, given: dict[str, Any]) -> bytes:
        body = json.dumps(given).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def found(self, body: bytes) -> list[Any]:
        return [message["receipt_handle"] for message in json.loads(body)["messages"]]

    def delete(self, ids: list[Any]) -> bytes:
        return self._request("/delete", {"receipt_handles": ids})


DOORS = {"native": Native, "sqs": Sqs, "simple": Simple}


class Load:
    def __init__(
        self, door: Native | Sqs | Simple, address: tuple[str, int], per_request: int, limit: int, seconds: float
    ) -> None:
        self._door = door
        self._host, self._port = address
        self._per_request = per_request
        self._left = limit
        self._deadline = time.perf_counter() + seconds
        self.tally = Tally()

    async def _connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, self._host, self._port)
        return connection

    async def _ask(self, slot: list[Connection], request: bytes) -> bytes:
        start = time.perf_counter()
        if slot[0].closed:
            slot[0] = await self._connect()
        connection = slot[0]
        status, body = await connection.ask(request)
        self.tally.latencies.append(time.perf_counter() - start)
        self.tally.requests += 1
        if status >= 300:
            raise SystemExit(f"the server answered {status}: {body[:200]!r}")
        return body

    async def _rounds(self) -> None:
        slot = [await self._connect()]
        while self._left > 0 and time.perf_counter() < self._deadline:
            self._left -= self._per_request
            await self._ask(slot, self._door.send)
            found = self._door.found(await self._ask(slot, self._door.receive))
            if not found:
                self.tally.empty += 1
                continue
            await self._ask(slot, self._door.delete(found))
            self.tally.messages += len(found)
        slot[0].close()

    async def run(self, connections: int) -> None:
        await asyncio.gather(*(self._rounds() for _ in range(connections)))


def main() -> None:
    door, host, port, queue, connections, per_request, limit, seconds = sys.argv[1:]
    spoken = DOORS[door](host, queue, int(per_request))
    load = Load(spoken, (host, int(port)), int(per_request), int(limit), float(seconds))
    start, cpu = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(load.run(int(connections)))
    tally = load.tally
    latencies = sorted(tally.latencies)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - start,
                "cpu": time.process_time() - cpu,
                "messages": tally.messages,
                "requests": tally.requests,
                "empty": tally.empty,
                "p50_ms": latencies[len(latencies) // 2] * 1000,
                "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
            }
        )
    )


if __name__ == "__main__":
    main()
