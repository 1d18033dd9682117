"""Upkeep: remove what has expired and what belongs to no queue any more, in steps."""

from __future__ import annotations

from penstock.store.sqlite.session import Session


def sweep(session: Session, now: int, limit: int) -> int:
    removed = 0
    for step in (_expired_messages, _expired_dedups, _orphaned_bins):
        if removed < limit:
            removed += step(session, now, limit - removed)
    return removed


def _expired_messages(session: Session, now: int, limit: int) -> int:
    rows = session.all("expired_messages", now=now, limit=limit)
    for row in rows:
        session.run("delete_message", id=row["id"])
        session.count(row["bin_id"], total=-1)
        if row["fifo"]:
            session.touch(row["bin_id"], row["group_id"])
    return len(rows)


def sweep_poison(session: Session, max_receives: int, now: int, limit: int) -> int:
    removed = 0
    for row in session.all("implicit_bins"):
        bin_id, room = row["bin_id"], limit - removed
        found = session.all("poison_messages", bin_id=bin_id, max_receives=max_receives, now=now, limit=room)
        for message in found:
            session.run("delete_message", id=message["id"])
        session.count(bin_id, total=-len(found))
        removed += len(found)
        if removed >= limit:
            break
    return removed


def _expired_dedups(session: Session, now: int, limit: int) -> int:
    return session.run("delete_expired_dedups", now=now, limit=limit).rowcount


def _orphaned_bins(session: Session, now: int, limit: int) -> int:
    removed = 0
    for row in session.all("orphaned_bins"):
        for query in ("delete_bin_messages", "delete_bin_dedups"):
            removed += session.run(query, bin_id=row["id"], limit=limit - removed).rowcount
        if removed >= limit:
            break
        session.run("delete_bin", bin_id=row["id"])
    return removed
