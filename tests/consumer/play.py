"""Plays the driver of a consumer: answers its steps from a script, without a database and without time passing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from penstock.consumer import protocol
from penstock.consumer.handlers import Handlers
from penstock.consumer.messages import DONE, Fate, Message, Verdict
from penstock.consumer.protocol import Lost, Plan, Source, Step

ORDERS = Source("orders", "shop")
Judge = Callable[[Message], Verdict]


def message(number: int, type: str = "order", *, key: str | None = None, retries: int = 0, batch: int = 1) -> Message:
    return Message("orders", number, batch, type, f'{{"number": {number}}}', retries, datetime.now(UTC), key)


def failing(*numbers: int, times: int = 1, after_s: float | None = None) -> Judge:
    """Messages that fail so many times each, and then succeed."""
    left = dict.fromkeys(numbers, times)

    def judge(each: Message) -> Verdict:
        if left.get(each.msg_id, 0) > 0:
            left[each.msg_id] -= 1
            return Verdict(Fate.RETRY, after_s, "failed")
        return DONE

    return judge


class Play:
    """A world of queues, a clock that only moves when someone waits, and a record of all that happened."""

    def __init__(self, plan: Plan, *batches: list[Message], judge: Judge = lambda _: DONE) -> None:
        self.plan = plan
        self.queues: dict[str, list[list[Message]]] = {"orders": list(batches)}
        self.judge = judge
        self.now = 0.0
        self.stopping = False
        self.unticked = False
        self.ours = True
        self.steps: list[Step] = []
        self.ran: list[int] = []
        self.ran_at: list[float] = []
        self.settled: list[dict[int, Verdict]] = []
        self.lose: Callable[[Step], bool] = lambda _: False
        self.stop_when: Callable[[Step], bool] = lambda step: isinstance(step, protocol.Wait)

    def run(self, most: int = 10_000) -> None:
        """Until the consumer ends, or waits with nothing left to do."""
        steps = protocol.consume(self.plan)
        step = next(steps)
        with suppress(StopIteration):
            for _ in range(most):
                self.steps.append(step)
                if self.stop_when(step):
                    self.stopping = True
                step = steps.throw(Lost()) if self.lose(step) else steps.send(self._answer(step))
            raise AssertionError("the consumer goes in circles")

    def _answer(self, step: Step) -> Any:
        match step:
            case protocol.Look():
                return protocol.Seen(self.now, self.stopping)
            case protocol.Fetch():
                waiting = self.queues.get(step.source.queue, [])
                return list(waiting[0][: step.limit]) if waiting else []
            case protocol.Tick():
                ticked, self.unticked = self.unticked, False
                return ticked
            case protocol.Wait() | protocol.Pause():
                self.now += step.seconds
            case protocol.Run():
                return dict(self._judged(step))
            case protocol.Settle():
                return self._settle(step)
        return None

    def _judged(self, step: protocol.Run) -> Iterator[tuple[int, Verdict]]:
        for sequence in step.sequences:
            for each in sequence:
                self.ran.append(each.msg_id)
                self.ran_at.append(self.now)
                verdict = self.judge(each)
                yield each.msg_id, verdict
                if verdict.fate is Fate.RETRY:
                    break

    def _settle(self, step: protocol.Settle) -> bool:
        self.settled.append(dict(step.verdicts))
        batch = self.queues[step.source.queue][0]
        del batch[: len(step.messages)]
        if not batch:
            self.queues[step.source.queue].pop(0)
        return self.ours

    def of(self, kind: type[Step]) -> list[Step]:
        return [step for step in self.steps if isinstance(step, kind)]

    def kinds(self) -> list[str]:
        """The steps by name, without the looks in between."""
        return [type(step).__name__ for step in self.steps if not isinstance(step, protocol.Look)]


def plan(handlers: Handlers | None = None, **more: Any) -> Plan:
    if handlers is None:
        handlers = Handlers()
        handlers.on()(print)
    more.setdefault("check_interval_s", 30.0)
    return Plan(sources=more.pop("sources", [ORDERS]), handlers=handlers, **more)
