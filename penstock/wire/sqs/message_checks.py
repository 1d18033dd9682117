"""What may be in a message: its body, its attributes, its ids. Checked in AWS's order, refused in AWS's words."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping

from msgspec import Struct, json

from penstock import limits
from penstock.model import Send
from penstock.wire.aws.checksums import attributes_md5
from penstock.wire.aws.errors import AwsError, invalid, invalid_value, missing
from penstock.wire.aws.gateway import Call
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.types import NewMessage, SentAttribute

DELAY_S = (0, 900)
MOST_ATTRIBUTES = 10
WRONG_TYPE = "The request include parameter that is not valid for this queue type."

_CHARACTERS = (
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)
_BAD = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile("[\u00c0-\u017fa-zA-Z0-9_.-]*")
_RESERVED = re.compile(r"(?i)(aws\.|amazon\.|\.)")
_TYPE = re.compile(r"(String|Number|Binary)(\..*)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
_TRACE = "AWSTraceHeader"


class KeptAttribute(Struct):
    """An attribute as every door stores it: Binary in base64."""

    type: str
    value: str

    @property
    def plain(self) -> str | bytes:
        return b64decode(self.value) if self.type.startswith("Binary") else self.value


class Checked:
    """A message that may be sent, and the sums to answer with."""

    __slots__ = ("attributes_md5", "entry", "system_md5")

    def __init__(self, entry: Send) -> None:
        self.entry = entry
        self.attributes_md5: str | None = None
        self.system_md5: str | None = None


def check_message(call: Call, name: str, new: NewMessage, body_name: str = "MessageBody") -> Checked:
    body = new.message_body
    if not body:
        raise missing(body_name)
    if not (body.isascii() and body.isprintable()) and _BAD.search(body):
        raise sqs_error("InvalidMessageContents", _CHARACTERS)
    entry = Send(tenant=call.tenant, queue=name, body=body)
    checked = Checked(entry)
    if new.message_attributes:
        _add_attributes(checked, new.message_attributes)
    if new.message_system_attributes:
        _add_system_attributes(checked, new.message_system_attributes)
    elif b"x-amzn-trace-id" in call.request.found:
        entry.trace = call.request.found[b"x-amzn-trace-id"].decode("latin-1")
    _add_ids(entry, new)
    if new.delay_seconds is not None:
        _add_delay(entry, new.delay_seconds)
    return checked


def size_of(new: NewMessage) -> int:
    """Bytes a message counts for: body, names, types and values of its attributes."""
    size = len((new.message_body or "").encode())
    for name, attribute in (new.message_attributes or {}).items():
        value = (
            attribute.binary_value if attribute.binary_value is not None else (attribute.string_value or "").encode()
        )
        size += len(name.encode()) + len((attribute.data_type or "").encode()) + len(value)
    return size


def _add_ids(entry: Send, new: NewMessage) -> None:
    fifo = entry.queue.endswith(".fifo")
    group, dedup = new.message_group_id, new.message_deduplication_id
    if dedup is not None:
        _check_id("MessageDeduplicationId", dedup)
        if not fifo:
            raise invalid_value(dedup, "MessageDeduplicationId", WRONG_TYPE)
        entry.dedup_id = dedup
    if group is not None:
        _check_id("MessageGroupId", group)
        entry.group_id = group
    elif fifo:
        raise missing("MessageGroupId")


def _check_id(parameter: str, value: str) -> None:
    if limits.GROUP_ID.fullmatch(value) is None:
        reason = f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(value, parameter, reason)


def _add_delay(entry: Send, delay_s: int) -> None:
    if entry.queue.endswith(".fifo"):
        # Zero says nothing: the delay of a FIFO queue is the queue's own.
        if delay_s:
            raise invalid_value(delay_s, "DelaySeconds", WRONG_TYPE)
    elif DELAY_S[0] <= delay_s <= DELAY_S[1]:
        entry.delay_s = delay_s
    else:
        raise invalid_value(delay_s, "DelaySeconds", f"DelaySeconds must be >= {DELAY_S[0]} and <= {DELAY_S[1]}.")


# Attributes


def _add_attributes(checked: Checked, given: Mapping[str, SentAttribute]) -> None:
    if len(given) > MOST_ATTRIBUTES:
        raise invalid(f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{MOST_ATTRIBUTES}].")
    kept, plain = {}, []
    size = len(checked.entry.body.encode())
    for name, attribute in given.items():
        kind, value = _checked_attribute(name, attribute)
        text = b64encode(value).decode() if isinstance(value, bytes) else value
        kept[name] = KeptAttribute(kind, text)
        plain.append((name, kind, value))
        size += len(name.encode()) + len(kind.encode())
        size += len(value) if isinstance(value, bytes) else len(value.encode())
    checked.entry.attributes = json.encode(kept).decode()
    checked.entry.size = size
    checked.attributes_md5 = attributes_md5(plain)


def _checked_attribute(name: str, attribute: SentAttribute) -> tuple[str, str | bytes]:
    _check_attribute_name(name)
    if attribute.string_list_values or attribute.binary_list_values:
        text = "Message attribute list values in SendMessage operation are not supported."
        raise sqs_error("UnsupportedOperation", text)
    kind = attribute.data_type
    if not kind:
        raise invalid(f"The message attribute '{name}' must contain non-empty message attribute type.")
    found = _TYPE.fullmatch(kind)
    if found is None:
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        )
    if len(kind.encode()) > 256:
        raise invalid("Message (user) attribute types must be shorter than 256 Bytes")
    if attribute.string_value and attribute.binary_value:
        raise invalid(f"Message (user) attribute '{name}' must have a single value.")
    if found[1] == "Binary":
        if not attribute.binary_value:
            raise _no_value(name, found[1], "Binary", other=attribute.string_value)
        return kind, attribute.binary_value
    if not attribute.string_value:
        raise _no_value(name, found[1], "String", other=attribute.binary_value)
    return kind, _checked_text(name, found[1], attribute.string_value)


def _checked_text(name: str, kind: str, value: str) -> str:
    if kind == "Number" and _NUMBER.fullmatch(value) is None:
        raise invalid(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    if _BAD.search(value):
        raise invalid(_CHARACTERS)
    return value


def _check_attribute_name(name: str) -> None:
    if not name:
        raise invalid("The request must contain non-empty message (user) attribute names.")
    if len(name.encode()) > 256:
        raise invalid("Message (user) attribute names must be shorter than 256 Bytes")
    if _NAME.fullmatch(name) is None:
        raise invalid(
            "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
            "hyphens and underscores. "
        )
    if _RESERVED.match(name) or name.endswith("."):
        raise invalid(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
            "These strings are reserved for internal use. Additionally, they cannot start or end with '.'."
        )
    if ".." in name:
        raise invalid("Message (user) attribute name must not have successive '.' characters.")


def _no_value(name: str, kind: str, field: str, *, other: str | bytes | None) -> AwsError:
    """`other` is the value in the field that is not for this kind."""
    if other:
        return invalid(f"Message (user) attribute '{name}' with type '{kind}' must use field '{field}'.")
    return invalid(f"Message (user) attribute '{name}' must contain a non-empty value of type '{field}'.")


def _add_system_attributes(checked: Checked, given: Mapping[str, SentAttribute]) -> None:
    for name, attribute in given.items():
        if name != _TRACE:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
        if attribute.data_type != "String":
            raise invalid(f"The data type of message system attribute '{name}' must be 'String'.")
        if not attribute.string_value:
            raise invalid(f"Message system attribute '{name}' must contain a non-empty value of type 'String'.")
        checked.entry.trace = _checked_text(name, "String", attribute.string_value)
        checked.system_md5 = attributes_md5([(name, attribute.data_type, attribute.string_value)])
