"""Batches of sends, deletes and changes of visibility."""

from __future__ import annotations

from typing import Any

from tests.wire.sqs.refusals.rows import FIFO, NO_DEDUP, Q, Rows, must_contain

ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)

ROWS = Rows()
row = ROWS.row

BATCHES: dict[str, dict[str, Any]] = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "x"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "x", "VisibilityTimeout": 0},
}
for action, extra in BATCHES.items():
    entry = f"{action}RequestEntry"

    def entries(*ids: str | None, extra: dict[str, Any] = extra) -> dict[str, Any]:
        return Q | {"Entries": [({} if found is None else {"Id": found}) | extra for found in ids]}

    empty = f"There should be at least one {entry} in the request."
    row(action, Q, "Missing", must_contain("Entries"), query=empty, query_kind="Empty")
    row(action, Q | {"Entries": []}, "Empty", empty)
    many = entries(*map(str, range(11)))
    row(action, many, "TooMany", "Maximum number of entries per request are 10. You have sent 11.")
    for bad in ("", "a:b", "é", "x" * 81, "a b"):
        row(action, entries("ok", bad), "EntryId", ENTRY_ID)
    row(action, entries("a", "b", "a"), "NotDistinct", "Id a repeated.")
    row(action, entries("a", None), "Missing", must_contain(f"{entry}.2.Id"))

halves = [{"Id": "a", "MessageBody": "x" * 600_000}, {"Id": "b", "MessageBody": "x" * 600_000}]
row(
    "SendMessageBatch", Q | {"Entries": halves}, "TooLong",
    "Batch requests cannot be longer than 1048576 bytes. You have sent 1200000 bytes.",
)  # fmt: skip
row(
    "SendMessageBatch", FIFO | {"Entries": [{"Id": "a", "MessageBody": "x", "MessageDeduplicationId": "d"}]}, "Invalid",
    must_contain("MessageGroupId"),
)  # fmt: skip
row(
    "SendMessageBatch",
    FIFO | {"Entries": [{"Id": "a", "MessageBody": "x", "MessageGroupId": "g"}]},
    "Invalid",
    NO_DEDUP,
)
