"""Many clients of boto3 on one queue."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

from tests.third_party.boto3_sqs.calls import Connect, bodies, counts, delete, receive

THREADS = 16
MESSAGES = 1_000


def test_of_many_clients_each_message_reaches_exactly_one(connect: Connect, url: str) -> None:
    clients = [connect() for _ in range(THREADS)]
    seen: Counter[str] = Counter()
    all_there = threading.Event()
    lock = threading.Lock()

    def send(part: int) -> None:
        for start in range(part, MESSAGES, 10 * THREADS // 4):
            numbers = range(start, min(start + 10 * THREADS // 4, MESSAGES), THREADS // 4)
            entries = [{"Id": f"{number}", "MessageBody": f"{number}"} for number in numbers]
            assert "Failed" not in clients[part].send_message_batch(QueueUrl=url, Entries=entries)

    def work(part: int) -> None:
        while not all_there.is_set():
            messages = receive(clients[part], url, wait=1)
            if messages:
                delete(clients[part], url, messages)
            with lock:
                seen.update(bodies(messages))
                if seen.total() >= MESSAGES:
                    all_there.set()

    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(send, part) for part in range(THREADS // 4)]
        jobs += [pool.submit(work, part) for part in range(THREADS // 4, THREADS)]
        try:
            assert all_there.wait(50)
        finally:
            all_there.set()
            for job in jobs:
                job.result(10)

    assert seen == Counter(f"{number}" for number in range(MESSAGES))
    assert counts(clients[0], url) == (0, 0, 0)


def test_many_clients_keep_the_order_of_every_group(connect: Connect, fifo: str) -> None:
    groups, length = 20, 20
    clients = [connect() for _ in range(8)]
    seen: defaultdict[str, list[int]] = defaultdict(list)
    all_there = threading.Event()
    lock = threading.Lock()

    def send(part: int) -> None:
        for number in range(0, length, 10):
            for group in range(part, groups, 2):
                entries = [
                    {"Id": f"{n}", "MessageBody": f"{group} {n}", "MessageGroupId": f"{group}"}
                    for n in range(number, number + 10)
                ]
                assert "Failed" not in clients[part].send_message_batch(QueueUrl=fifo, Entries=entries)

    def work(part: int) -> None:
        while not all_there.is_set():
            messages = receive(clients[part], fifo, 3, 1)
            with lock:
                for body in bodies(messages):
                    group, number = body.split()
                    seen[group].append(int(number))
                if sum(map(len, seen.values())) >= groups * length:
                    all_there.set()
            if messages:
                delete(clients[part], fifo, messages)

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(send, part) for part in range(2)] + [pool.submit(work, part) for part in range(2, 8)]
        try:
            assert all_there.wait(50)
        finally:
            all_there.set()
            for job in jobs:
                job.result(10)

    assert seen == {f"{group}": list(range(length)) for group in range(groups)}
