"""What the three batch actions have in common: the rules for entries, and how one of them fails."""

from __future__ import annotations

import re
from typing import Protocol, TypeVar

from penstock.wire.aws.errors import AwsError, missing
from penstock.wire.aws.gateway import Call
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.types import FailedEntry

MOST_ENTRIES = 10

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ID_TEXT = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


class Entry(Protocol):
    @property
    def id(self) -> str | None: ...


AnyEntry = TypeVar("AnyEntry", bound=Entry)


def check_entries(call: Call, entries: list[AnyEntry] | None, called: str) -> list[AnyEntry]:
    if entries is None and not call.query:
        raise missing("Entries")
    if not entries:
        raise sqs_error("EmptyBatchRequest", f"There should be at least one {called} in the request.")
    if len(entries) > MOST_ENTRIES:
        text = f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent {len(entries)}."
        raise sqs_error("TooManyEntriesInBatchRequest", text)
    _check_ids(entries, called)
    return entries


def _check_ids(entries: list[AnyEntry], called: str) -> None:
    seen = set()
    for position, entry in enumerate(entries, 1):
        if entry.id is None:
            raise missing(f"{called}.{position}.Id")
        if _ID.fullmatch(entry.id) is None:
            raise sqs_error("InvalidBatchEntryId", _ID_TEXT)
        if entry.id in seen:
            raise sqs_error("BatchEntryIdsNotDistinct", f"Id {entry.id} repeated.")
        seen.add(entry.id)


def failed_entry(entry: Entry, error: AwsError) -> FailedEntry:
    return FailedEntry(id=entry.id or "", sender_fault=error.fault == "Sender", code=error.code, message=error.message)
