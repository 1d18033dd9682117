"""Messages, verdicts, handlers and traces: the values of the consumer library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock import tracing
from penstock.consumer.handlers import Handlers
from penstock.consumer.messages import DONE, Fate, Message, RateLimit, Verdict
from penstock.tracing import TraceContext
from tests.consumer.play import message

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("text", "payload"),
    [('{"a": [1]}', {"a": [1]}), ("42", 42), ("null", None), ("plain words", "plain words"), ("", ""), (None, None)],
)
def test_a_payload_is_parsed_when_it_is_json_and_text_otherwise(text: str | None, payload: object) -> None:
    found = Message("q", 1, 1, "t", text, 0, datetime.now(UTC))

    assert (found.payload, found.text) == (payload, text)


def test_a_message_is_done_unless_its_handler_says_otherwise() -> None:
    good, late, bad = message(1), message(2), message(3)

    late.nack(retry_after=timedelta(minutes=2), reason="busy")
    bad.dead_letter("no such customer")

    assert good.verdict == DONE
    assert late.verdict == Verdict(Fate.RETRY, 120, "busy")
    assert bad.verdict == Verdict(Fate.DEAD, None, "no such customer")


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-5)])
def test_a_delay_below_zero_is_refused(delay: float | timedelta) -> None:
    with pytest.raises(ValueError, match="zero or more"):
        message(1).nack(retry_after=delay)


def test_a_type_has_one_handler_and_the_star_takes_the_rest() -> None:
    handlers = Handlers()
    handlers.on("paid")(print)
    handlers.on("*")(repr)

    with pytest.raises(ValueError, match="a handler already"):
        handlers.on("paid")(print)
    assert [found.call for found in map(handlers.find, [message(1, "paid"), message(2, "sent")]) if found] == [
        print,
        repr,
    ]


def test_what_cannot_be_ordered_by_is_refused() -> None:
    with pytest.raises(ValueError, match="ordered_by must be one of"):
        Handlers().on("paid", ordered_by="customer")


def test_a_rate_limit_counts_any_minute() -> None:
    limit = RateLimit(max_per_minute=2)
    limit.take(0)
    limit.take(50)

    assert [limit.free(59), limit.free(60), limit.free(110)] == [0, 1, 2]
    assert RateLimit(max_per_minute=1).wait_s(0) == 0


def test_a_rate_limit_knows_when_so_many_are_free() -> None:
    limit = RateLimit(max_per_minute=3)
    limit.take(0, 2)
    limit.take(30)

    assert [limit.wait_s(40, 1), limit.wait_s(40, 2), limit.wait_s(40, 3), limit.wait_s(40, 9)] == [20, 20, 50, 50]


# Traces


def test_a_traceparent_is_read_and_written() -> None:
    context = TraceContext.parse(PARENT)

    assert context is not None
    assert context.traceparent == PARENT
    child = context.child()
    assert (child.trace_id, child.flags) == (context.trace_id, context.flags)
    assert child.span_id != context.span_id


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "customer:7",
        PARENT.upper(),
        PARENT + "-more",
        PARENT.replace("00-4", "ff-4", 1),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_anything_else_is_no_trace(text: str | None) -> None:
    assert TraceContext.parse(text) is None


def test_a_later_version_may_say_more() -> None:
    context = TraceContext.parse(PARENT.replace("00-", "01-", 1) + "-more")

    assert context is not None
    assert context.traceparent == PARENT


def test_a_context_is_current_inside_its_block_only() -> None:
    context = TraceContext.new()

    with tracing.use(context):
        assert tracing.current() == context
    assert tracing.current() is None
