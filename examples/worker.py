"""A worker: waits for messages of a queue, handles each, and deletes what it has handled.

    python examples/worker.py emails

PENSTOCK_URL and PENSTOCK_TOKEN say where the server is and who is calling. Stop it with Ctrl-C. A message whose
handling fails is not deleted: it comes back when its visibility timeout ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import httpx

URL = os.environ.get("PENSTOCK_URL", "http://127.0.0.1:9324")
TOKEN = os.environ.get("PENSTOCK_TOKEN", "anyone")


def handle(message: Any) -> None:
    """Your work goes here. It may see a message twice, so doing it twice must do no harm."""
    print(f"handled {message}", flush=True)


def work(client: httpx.Client, messages: str) -> None:
    answer = client.get(messages, params={"max": 10, "wait": 20, "vt": 60})
    answer.raise_for_status()
    for received in answer.json():
        try:
            handle(received["message"])
        except Exception as error:
            print(f"message {received['id']} failed: {error}", file=sys.stderr)
            continue
        # The receipt names this delivery: should another worker have the message by now, nothing is deleted.
        gone = client.delete(f"{messages}/{received['id']}", params={"receipt": received["receipt"]})
        if gone.status_code not in (204, 404, 409):
            gone.raise_for_status()


def main(queue: str) -> None:
    # A long poll takes up to 20 seconds; the client must wait longer than that.
    with httpx.Client(base_url=URL, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
        client.post("/v1/queues", json={"name": queue}).raise_for_status()
        while True:
            work(client, f"/v1/queues/{queue}/messages")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1] if len(sys.argv) > 1 else "emails")
