"""Tags and permissions of queues."""

from __future__ import annotations

from tests.wire.sqs.refusals.rows import Q, Rows, must_contain, value

ROWS = Rows()
row = ROWS.row

row("TagQueue", Q, "Missing", must_contain("Tags"))
row("TagQueue", Q | {"Tags": {f"t{number}": "" for number in range(51)}}, "Invalid", "Too many tags added for queue q.")
for bad in ("", "x" * 129):
    row("TagQueue", Q | {"Tags": {bad: "v"}}, "Invalid", "Tag keys must be between 1 and 128 characters in length.")
row("TagQueue", Q | {"Tags": {"a": "x" * 257}}, "Invalid", "Tag values must be between 0 and 256 characters in length.")
row("TagQueue", Q | {"Tags": {"aws:a": "x"}}, "Invalid", None)
SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"
for bad in ("a!", "a#b", "*", "a\0"):
    row("TagQueue", Q | {"Tags": {bad: "v"}}, "Invalid", f"Tag keys {SYMBOLS}")
    row("TagQueue", Q | {"Tags": {"a": bad}}, "Invalid", f"Tag values {SYMBOLS}")
row("UntagQueue", Q, "Missing", must_contain("TagKeys"))
row(
    "UntagQueue", Q | {"TagKeys": []}, "Invalid", "Tag keys must be between 1 and 128 characters in length.", query=""
)  # fmt: skip
GRANT = Q | {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
row("AddPermission", GRANT | {"Label": ""}, "Missing", must_contain("Label"))
row(
    "AddPermission", GRANT | {"AWSAccountIds": []}, "Missing", must_contain("AWSAccountIds"),
    query=must_contain("AWSAccountId"),
)  # fmt: skip
row("AddPermission", GRANT | {"Actions": []}, "Missing", must_contain("Actions"), query=must_contain("ActionName"))
LABEL = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
for bad in ("x" * 81, "a b", "a/b", "\u00fc", "a\n"):
    row("AddPermission", GRANT | {"Label": bad}, "Invalid", value(bad, "Label", LABEL))
row("AddPermission", GRANT | {"Label": "known"}, "Invalid", value("known", "Label", "Already exists."))
row("AddPermission", GRANT | {"AWSAccountIds": ["1"]}, "Invalid", value("[1]", "PrincipalId", "Unable to verify."))
row(
    "AddPermission",
    GRANT | {"Actions": ["SendMessage"] * 8},
    "OverLimit",
    "8 Actions were found, maximum allowed is 7.",
)
row(
    "AddPermission", GRANT | {"Actions": ["Levitate"]}, "Invalid",
    value("SQS:Levitate", "ActionName", "Please refer to the appropriate WSDL for a list of valid actions. "),
)  # fmt: skip
row(
    "AddPermission", GRANT | {"Actions": ["RemovePermission"]}, "Invalid",
    value("SQS:RemovePermission", "ActionName", "Only the queue owner is allowed to invoke this action."),
)  # fmt: skip
row("RemovePermission", Q, "Missing", must_contain("Label"))
row("RemovePermission", Q | {"Label": "unknown"}, "Invalid", value("unknown", "Label", "can't find label."))
