"""A worker process that its test kills: `python -m tests.system.chaos_worker URL QUEUE SEED`."""

from __future__ import annotations

import asyncio
import logging
import random
import sys

from penstock import RunningJob, Worker

LEASE_S = 1


def main(url: str, queue: str, seed: str) -> None:
    logging.disable(logging.CRITICAL)  # What goes wrong here does so on purpose.
    dice = random.Random(seed)
    worker = Worker(url, "anyone", queue, concurrency=4, lease_s=LEASE_S, poll_s=1)

    @worker.task
    async def chaos(job: RunningJob) -> dict[str, int]:
        await asyncio.sleep(dice.random() * 0.15)
        if dice.random() < 0.1:
            raise ValueError("mischief")
        return {"doubled": job.payload["n"] * 2}

    print("ready", flush=True)
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
