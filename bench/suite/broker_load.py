"""The load of bench/load.py on a broker: each connection sends a message, receives one and acknowledges it.

`python -m bench.suite.broker_load KIND PORT CONNECTIONS SECONDS` is a process of its own and prints one JSON object.
Redis is spoken to by the bytes of its protocol, as our HTTP load is; RabbitMQ through py-amqp, a thread for each
connection, so that its rate is also that of the client. The CPU of the broker is measured outside.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import uvloop

BODY = b"x" * 200
QUEUE = "bench"


class Redis(asyncio.Protocol):
    """One command at a time over one connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._waiting: asyncio.Future[Any] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, *words: bytes) -> asyncio.Future[Any]:
        self._waiting = asyncio.get_running_loop().create_future()
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
        self._transport.write(b"".join(parts))
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        found = parse(self._buffer, 0)
        if found is not None:
            self._buffer = b""
            assert self._waiting is not None
            self._waiting.set_result(found[0])

    def close(self) -> None:
        self._transport.close()


def parse(data: bytes, start: int) -> tuple[Any, int] | None:
    """A value of the Redis protocol and where it ends; None when it has not come whole."""
    end = data.find(b"\r\n", start)
    if end < 0:
        return None
    kind, text, end = data[start : start + 1], data[start + 1 : end], end + 2
    if kind == b"$":
        size = int(text)
        if size < 0:
            return None, end
        return (data[end : end + size], end + size + 2) if len(data) >= end + size + 2 else None
    if kind == b"*":
        items = []
        for _ in range(int(text)):
            found = parse(data, end)
            if found is None:
                return None
            items.append(found[0])
            end = found[1]
        return items, end
    if kind == b"-":
        raise SystemExit(f"Redis answered {text.decode()}")
    return (int(text) if kind == b":" else text), end


async def by_list(redis: Redis, number: int) -> bool:
    """The reliable queue of Redis' documentation: a received message is kept in a second list until it is removed."""
    kept = b"taken-%d" % number
    await redis.ask(b"LPUSH", b"list", BODY)
    found = await redis.ask(b"LMOVE", b"list", kept, b"RIGHT", b"LEFT")
    if found is None:
        return False
    await redis.ask(b"LREM", kept, b"1", found)
    return True


async def by_stream(redis: Redis, number: int) -> bool:
    await redis.ask(b"XADD", b"stream", b"*", b"body", BODY)
    consumer = b"c%d" % number
    found = await redis.ask(b"XREADGROUP", b"GROUP", b"g", consumer, b"COUNT", b"1", b"STREAMS", b"stream", b">")
    if not found:
        return False
    entry = found[0][1][0][0]
    await redis.ask(b"XACK", b"stream", b"g", entry)
    await redis.ask(b"XDEL", b"stream", entry)
    return True


async def redis_load(kind: str, port: int, connections: int, seconds: float) -> int:
    loop = asyncio.get_running_loop()
    cycle = by_list if kind == "list" else by_stream
    _, first = await loop.create_connection(Redis, "127.0.0.1", port)
    if kind == "stream" and not await first.ask(b"EXISTS", b"stream"):
        await first.ask(b"XGROUP", b"CREATE", b"stream", b"g", b"$", b"MKSTREAM")
    first.close()
    deadline = time.perf_counter() + seconds
    done = 0

    async def rounds(number: int) -> None:
        nonlocal done
        _, redis = await loop.create_connection(Redis, "127.0.0.1", port)
        while time.perf_counter() < deadline:
            done += await cycle(redis, number)
        redis.close()

    await asyncio.gather(*(rounds(number) for number in range(connections)))
    return done


def rabbitmq_load(port: int, connections: int, seconds: float) -> int:
    """Durable queue, persistent messages, publisher confirms, acknowledgements by hand."""
    import amqp

    deadline = time.perf_counter() + seconds
    counts = [0] * connections

    def rounds(number: int) -> None:
        with amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True, auto_delete=False)
            message = amqp.Message(BODY, delivery_mode=2)
            while time.perf_counter() < deadline:
                channel.basic_publish_confirm(message, exchange="", routing_key=QUEUE)
                found = channel.basic_get(QUEUE)
                if found is not None:
                    channel.basic_ack(found.delivery_tag)
                    counts[number] += 1

    threads = [threading.Thread(target=rounds, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def main() -> None:
    kind, port, connections, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    start = time.perf_counter()
    if kind == "rabbitmq":
        messages = rabbitmq_load(port, connections, seconds)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            messages = runner.run(redis_load(kind, port, connections, seconds))
    print(json.dumps({"seconds": time.perf_counter() - start, "messages": messages}))


if __name__ == "__main__":
    main()
