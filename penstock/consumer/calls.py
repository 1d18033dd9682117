"""How steps are put into SQL, and what comes back into messages and errors; the same for both drivers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from penstock.consumer.messages import Fate, Message, Verdict
from penstock.consumer.options import Settled, interval
from penstock.consumer.protocol import Fetch, Lost, Settle, Source
from penstock.errors import BY_CODE, Invalid, PenstockError
from penstock.queries import load

log = logging.getLogger("penstock.consumer")

SQL = load(Path(__file__).parent)
Call = tuple[sql.SQL | sql.Composed, Mapping[str, Any]]

KEEPALIVES = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""A server that vanished without a word is noticed within a minute."""


def call(name: str, **values: Any) -> Call:
    return sql.SQL(SQL[name]), values


def connection_values(dsn: str, name: str) -> dict[str, Any]:
    """The DSN's own words win over ours."""
    if dsn.startswith(("http://", "https://")):
        raise Invalid("streams are read from PostgreSQL: give its address, postgresql://..., not that of the server")
    return {"application_name": name, **KEEPALIVES, **conninfo_to_dict(dsn)}


def translate(error: psycopg.Error) -> Exception:
    """`Lost` for what a new connection may cure, our own errors by their code, anything else as it is."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Lost(str(error))
    kind = BY_CODE.get(error.sqlstate or "")
    if kind is None:
        return error
    found = kind.__new__(kind)
    PenstockError.__init__(found, error.diag.message_primary, field=error.diag.message_detail)
    return found


def opening(sources: Sequence[Source], options: Settled) -> Iterator[Call]:
    """Registered before listening: the first look comes after both, so nothing is missed in between."""
    for source in sources:
        if options.subconsumer is not None:
            if options.subscribe:
                yield call("subscribe_subconsumer", **_names(source), subconsumer=options.subconsumer)
        elif options.subscribe:
            yield call("subscribe", **_names(source))
        for channel in (f"pgque_{source.queue}", f"pgque_wake_{source.queue}"):
            yield sql.SQL("listen {}").format(sql.Identifier(channel)), {}


def fetching(step: Fetch, options: Settled) -> Iterator[Call]:
    """A call that comes back without a batch makes the next one unnecessary."""
    names = _names(step.source)
    if options.conditional:
        yield call(
            "next_batch_custom",
            **names,
            min_lag=interval(options.min_lag),
            min_count=options.min_count,
            min_interval=interval(options.min_interval),
        )
    if options.subconsumer is not None:
        dead = interval(options.dead_interval)
        yield call("receive_coop", **names, subconsumer=options.subconsumer, limit=step.limit, dead_interval=dead)
    else:
        yield call("receive", **names, limit=step.limit)


def messages(source: Source, rows: Sequence[Sequence[Any]]) -> list[Message]:
    return [
        Message(source.queue, number, batch, kind, text, retries or 0, created_at, *extras)
        for number, batch, kind, text, retries, created_at, *extras in rows
    ]


def nothing(rows: Sequence[Sequence[Any]]) -> bool:
    """No rows, or one that says there is no batch."""
    return not rows or rows[0][0] is None


def ticking(source: Source) -> Call:
    return call("tick", queue=source.queue)


def touching(source: Source, subconsumer: str) -> Call:
    return call("touch", **_names(source), subconsumer=subconsumer)


def listen(connection: pq.abc.PGconn) -> None:
    """Read what the server said without being asked, and forget it."""
    connection.consume_input()
    while connection.notifies():
        pass


def in_transaction(connection: psycopg.BaseConnection[Any], message: Message, verdict: Verdict) -> Verdict:
    """The verdict of a handler that shared our transaction: it may have lost the connection, or spoilt it."""
    if connection.closed:
        raise Lost("while a handler ran")
    if not verdict.rolls_back and connection.info.transaction_status == pq.TransactionStatus.INERROR:
        log.warning("a handler hid an error of its transaction", extra={"msg_id": message.msg_id})
        return Verdict(Fate.RETRY, None, "a statement of the handler failed")
    return verdict


def settling(step: Settle, options: Settled) -> Iterator[Call]:
    """Every verdict, and the acknowledgement last: its answer says whether the batch was still ours."""
    for message in step.messages:
        verdict = step.verdicts[message.msg_id]
        if verdict.fate is Fate.RETRY:
            yield _nack(message, verdict, options)
        elif verdict.fate is Fate.DEAD:
            yield call("dead_letter", batch=message.batch_id, id=message.msg_id, reason=verdict.reason)
    # The number of a batch is used up by its acknowledgement, also where more of the batch is to come.
    yield call("ack", batch=step.messages[0].batch_id)


def _nack(message: Message, verdict: Verdict, options: Settled) -> Call:
    delay = interval(options.retry_after) if verdict.retry_after_s is None else timedelta(seconds=verdict.retry_after_s)
    return call("nack", batch=message.batch_id, id=message.msg_id, retry_after=delay, reason=verdict.reason)


def _names(source: Source) -> dict[str, str]:
    return {"queue": source.queue, "consumer": source.consumer}
