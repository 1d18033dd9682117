"""`penstock demo`: plausible live traffic for a server, for a bounded time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from penstock.cli.options import on_server, seconds
from penstock.cli.output import Output, say
from penstock.cli.remote import Server
from penstock.errors import Conflict, Invalid, Unsupported

LONGEST_S = 3600
PEOPLE = ("ada", "grace", "alan", "edsger", "barbara", "donald", "margaret", "tony", "radia", "ken")
ITEMS = ("espresso", "flat white", "croissant", "sandwich", "filter coffee", "tea", "cake", "juice")
STEPS = ("reading the template", "rendering", "attaching files", "sending")
REPORT_S = 5.0
FAILS = 0.06
"""How often the work of the demo fails."""


@on_server(creates=True)
def demo(
    server: Server,
    out: Output,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Time to run, at most 1h.")] = "60s",
    rate: Annotated[int, typer.Option(metavar="N", min=1, max=200, help="Actions per second.")] = 20,
    troubles: Annotated[
        bool,
        typer.Option(
            "--troubles/--no-troubles",
            help="Leave a queue without receivers, dead letters, a failing endpoint and a stream consumer behind.",
        ),
    ] = True,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the random numbers.")] = None,
) -> None:
    """Send plausible traffic to a server: a coffee shop with orders, payments, emails, invoices and audit events.

    The names begin with demo- and are kept; `penstock queue drop` and the other drop commands remove them.
    """
    lasts = seconds(duration)
    if not 1 <= lasts <= LONGEST_S:
        raise Invalid("--for must be between 1s and 1h")
    shop = Shop(server, random.Random(seed), troubles=troubles)
    shop.prepare()
    began = told = time.monotonic()
    count = 0
    while (now := time.monotonic()) - began < lasts:
        shop.act()
        count += 1
        if now - told >= REPORT_S:
            told = now
            say(f"{count} actions, {lasts - int(now - began)}s left")
        # Never faster than the rate, however long the last action took.
        ahead = count / rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(min(ahead, lasts))
    out.record(shop.counts)


class Shop:
    """One action at a time, chosen at random; each stands for a customer or for a worker."""

    def __init__(self, server: Server, chance: random.Random, *, troubles: bool = True) -> None:
        self._server = server
        self._chance = chance
        self._troubles = troubles
        self._has_streams = True
        self._order = chance.randrange(1000, 5000)
        self.counts: dict[str, int] = dict.fromkeys(
            ("orders", "received", "jobs", "jobs_done", "jobs_failed", "events", "streamed"), 0
        )

    def prepare(self) -> None:
        """Create what is missing. Running the demo again continues with what is there."""
        create = self._create
        create("/v1/queues", {"name": "demo-failed"})
        create("/v1/queues", {"name": "demo-orders", "max_receives": 3, "dead_letter_queue": "demo-failed"})
        create("/v1/queues", {"name": "demo-payments.fifo", "content_dedup": True})
        create("/v1/queues", {"name": "demo-kitchen"})
        create("/v1/events/demo.order.%23/subscriptions", {"queue_name": "demo-kitchen"})
        create("/v1/topics", {"name": "demo-announcements"})
        create("/v1/schedules", {"name": "demo-stocktaking", "every": "1m", "target": "demo-orders",
                                 "message": {"kind": "stocktaking"}})  # fmt: skip
        if self._troubles:
            create("/v1/queues", {"name": "demo-forgotten"})
            # Port 9 of this machine: nothing listens there.
            create("/v1/events/demo.order.paid/subscriptions", {"endpoint": "http://127.0.0.1:9/hook"})
        try:
            create("/v1/streams", {"name": "demo-audit"})
            for name in ("warehouse", "forgetful") if self._troubles else ("warehouse",):
                create("/v1/streams/demo-audit/consumers", {"name": name})
        except Unsupported:
            self._has_streams = False

    def _create(self, path: str, body: dict[str, Any]) -> None:
        try:
            self._server.post(path, body, repeatable=True)
        except Conflict:
            return

    def act(self) -> None:
        acts: list[tuple[Callable[[], None], int]] = [
            (self._place_order, 6),
            (self._serve_orders, 5),
            (self._clear("demo-kitchen"), 2),
            (self._clear("demo-payments.fifo"), 2),
            (self._invoice, 3),
            (self._work, 4),
        ]
        if self._has_streams:
            acts += [(self._record, 3), (self._read_stream, 2)]
        [chosen] = self._chance.choices([act for act, _ in acts], [weight for _, weight in acts])
        try:
            chosen()
        except Conflict as error:
            # Another demo, or a lease that ended: the next action goes on.
            say(f"penstock: {error.message}")

    def _new_order(self) -> dict[str, Any]:
        self._order += 1
        chance = self._chance
        items = chance.sample(ITEMS, chance.randint(1, 3))
        return {"order": self._order, "customer": chance.choice(PEOPLE), "items": items, "total": len(items) * 3.5}

    def _place_order(self) -> None:
        order, post = self._new_order(), self._server.post
        post("/v1/queues/demo-orders/messages", {"message": order, "headers": {"source": "demo"}})
        payment = {"message": {"order": order["order"], "amount": order["total"]}, "group_id": order["customer"]}
        post("/v1/queues/demo-payments.fifo/messages", payment)
        key = self._chance.choice(("made", "paid", "paid", "refunded"))
        post(f"/v1/events/demo.order.{key}", {"message": order})
        if self._troubles and self._chance.random() < 0.2:
            post("/v1/queues/demo-forgotten/messages", {"message": order})
        self.counts["orders"] += 1
        self.counts["events"] += 1

    def _serve_orders(self) -> None:
        """Most orders are done; a few are received again and again until they are dead letters."""
        found = self._server.get("/v1/queues/demo-orders/messages", max=5, vt=1 if self._troubles else 30)
        done = [one["receipt"] for one in found if not self._is_hopeless(one["message"])]
        if done:
            self._server.ask("DELETE", "/v1/queues/demo-orders/messages", body={"receipts": done})
        self.counts["received"] += len(found)

    def _is_hopeless(self, message: Any) -> bool:
        number = message.get("order", 0) if isinstance(message, dict) else 0
        return self._troubles and number % 17 == 0

    def _clear(self, queue: str) -> Callable[[], None]:
        def work() -> None:
            found = self._server.get(f"/v1/queues/{queue}/messages", max=10)
            if found:
                body = {"receipts": [one["receipt"] for one in found]}
                self._server.ask("DELETE", f"/v1/queues/{queue}/messages", body=body)
                self.counts["received"] += len(found)

        return work

    def _invoice(self) -> None:
        queue = self._chance.choice(("demo-emails", "demo-invoices"))
        payload = {"to": self._chance.choice(PEOPLE), "order": self._order}
        self._server.post("/jobs", {"queue_name": queue, "payload": payload, "max_retries": 1, "backoff": {"base": 1}})
        self.counts["jobs"] += 1

    def _work(self) -> None:
        queue = self._chance.choice(("demo-emails", "demo-invoices"))
        worker = f"{queue}-worker-{self._chance.randint(1, 3)}"
        leased = self._server.post(f"/queues/{queue}/lease", {"worker_id": worker, "lease_seconds": 30})
        if leased is None:
            return
        path, token = f"/jobs/{leased['job']['id']}", leased["lease_token"]
        beat = {"lease_token": token, "progress": self._chance.randrange(10, 95), "note": self._chance.choice(STEPS)}
        self._server.post(f"{path}/heartbeat", beat)
        if self._chance.random() < FAILS:
            self._server.post(f"{path}/nack", {"lease_token": token, "error": "SMTP server answered 451"})
            self.counts["jobs_failed"] += 1
        else:
            self._server.post(f"{path}/ack", {"lease_token": token, "result": {"sent": True}})
            self.counts["jobs_done"] += 1

    def _record(self) -> None:
        kind = self._chance.choice(("stock", "login", "price"))
        events = [{"payload": self._new_order(), "type": kind} for _ in range(self._chance.randint(1, 5))]
        self._server.post("/v1/streams/demo-audit/events", events)
        self.counts["streamed"] += len(events)

    def _read_stream(self) -> None:
        """The consumer `forgetful` never reads."""
        self._server.work()
        consumer = "/v1/streams/demo-audit/consumers/warehouse"
        batch = self._server.get(f"{consumer}/batch", max=100)
        if batch["batch_id"] is None:
            return
        number = batch["batch_id"]
        if batch["events"] and self._chance.random() < FAILS:
            nack = {"id": batch["events"][0]["id"], "retry_after": 1, "reason": "no such item"}
            self._server.post(f"{consumer}/batches/{number}/nack", nack)
        self._server.post(f"{consumer}/batches/{number}/ack")
