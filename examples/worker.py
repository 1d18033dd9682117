"""A worker: waits for messages of a queue, handles each, and deletes what it has handled.

    python examples/worker.py emails

PENSTOCK_URL and PENSTOCK_TOKEN name the server and the caller. Stop it with Ctrl-C. A message whose handling fails is
not deleted: it is received again when its visibility timeout ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from penstock import Client, Conflict, NotFound
from penstock.client import Retries

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:9324")


def handle(message: Any) -> None:
    """Your work goes here. It may get a message twice, and must tolerate that."""
    print(f"handled {message}", flush=True)


def work(client: Client, queue: str) -> None:
    for received in client.queues.receive(queue, max=10, wait=20, vt=60):
        try:
            handle(received.message)
        except Exception as error:
            print(f"message {received.id} failed: {error}", file=sys.stderr)
            continue
        # The receipt identifies this delivery: if another worker has the message by now, nothing is deleted.
        with suppress(NotFound, Conflict):
            client.queues.delete_message(queue, received)


def main(queue: str) -> None:
    # Enough attempts to wait for a server that restarts.
    with Client(URL, retries=Retries(attempts=20)) as client:
        client.queues.create(queue)
        while True:
            work(client, queue)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1] if len(sys.argv) > 1 else "emails")
