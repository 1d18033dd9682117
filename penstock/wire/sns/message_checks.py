"""What may be published: texts, subjects, attributes, ids. Refused in AWS's words."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock import limits
from penstock.model.topics import Publish
from penstock.wire.aws.gateway import Call
from penstock.wire.sns.errors import bad_attribute, constraint, invalid
from penstock.wire.sns.types import NewMessage, SentAttribute

MESSAGE_BYTES = 262_144
SUBJECT = 100

_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_.-]*")
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)


def check_message(call: Call, new: NewMessage, place: str = "", *, default: bool = True) -> Publish:
    """A publish that lacks only its topic. `default` asks for a text for those who have none of their own."""
    if new.subject is not None:
        _check_subject(new.subject)
    if not new.message:
        raise invalid("Empty message")
    if "\0" in new.message:
        raise invalid("Message", "The character NUL cannot be published")
    kept = _checked_attributes(new.message_attributes or {}, place)
    if size_of(new) > MESSAGE_BYTES:
        raise invalid("Message too long")
    publish = Publish(tenant=call.tenant, body=new.message, subject=new.subject, region=call.region)
    if kept:
        publish.attributes = msgspec.json.encode(kept).decode()
    if new.message_structure == "json":
        _add_bodies(publish, new.message, default)
    elif new.message_structure:
        raise invalid("MessageStructure")
    trace = call.request.found.get(b"x-amzn-trace-id")
    if trace is not None:
        publish.trace = trace.decode("latin-1")
    return publish


def add_ids(publish: Publish, new: NewMessage, *, fifo: bool, content_dedup: bool) -> None:
    group, dedup = new.message_group_id, new.message_deduplication_id
    for name, value in (("MessageGroupId", group), ("MessageDeduplicationId", dedup)):
        if value is not None and limits.GROUP_ID.fullmatch(value) is None:
            reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            raise invalid(name, reason)
    if fifo:
        if group is None:
            raise invalid("The MessageGroupId parameter is required for FIFO topics")
        if dedup is None and not content_dedup:
            raise invalid(
                "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
                "explicitly"
            )
    elif dedup is not None:
        text = "The request includes MessageDeduplicationId parameter that is not valid for this topic type"
        raise invalid("MessageDeduplicationId", text)
    publish.group_id, publish.dedup_id = group, dedup


def size_of(new: NewMessage) -> int:
    """Bytes a message counts for: its text, and names, types and values of its attributes."""
    size = len((new.message or "").encode())
    for name, attribute in (new.message_attributes or {}).items():
        value = attribute.binary_value if attribute.binary_value is not None else attribute.string_value or ""
        size += len(name.encode()) + len((attribute.data_type or "").encode())
        size += len(value if isinstance(value, bytes) else value.encode())
    return size


def _check_subject(subject: str) -> None:
    first = subject[:1]
    if not first or first.isspace() or len(subject) > SUBJECT or not subject.isprintable():
        raise invalid("Subject")


def _add_bodies(publish: Publish, text: str, default: bool) -> None:
    """A text for each protocol. One that is no text counts as absent."""
    try:
        found: Any = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid("Message Structure - JSON message body failed to parse")
    bodies = {name: body for name, body in found.items() if isinstance(body, str)}
    if "default" not in bodies and default:
        raise invalid("Message Structure - No default entry in JSON message body")
    publish.body = bodies.pop("default", "")
    publish.bodies = bodies


# Attributes


def _checked_attributes(given: Mapping[str, SentAttribute], place: str) -> dict[str, dict[str, str]]:
    return {name: _checked_attribute(name, attribute, place) for name, attribute in given.items()}


def _checked_attribute(name: str, attribute: SentAttribute, place: str) -> dict[str, str]:
    _check_name(name)
    kind = attribute.data_type
    if kind is None:
        raise constraint(None, f"{place}messageAttributes.{name}.member.dataType", "not be null")
    found = _TYPE.fullmatch(kind)
    if found is None:
        raise bad_attribute(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type "
            "prefixes is Binary, Number, and String."
        )
    text, data = attribute.string_value, attribute.binary_value
    used, other = (data, text) if found[1] == "Binary" else (text, data)
    if used is None and other is not None:
        field = "Binary" if found[1] == "Binary" else "String"
        raise bad_attribute(f"The message attribute '{name}' with type '{kind}' must use field '{field}'.")
    if not used:
        raise bad_attribute(
            f"The message attribute '{name}' must contain non-empty message attribute value for message attribute "
            f"type '{kind}'."
        )
    if isinstance(used, bytes):
        return {"type": kind, "value": b64encode(used).decode()}
    _check_text(name, found[1], used)
    return {"type": kind, "value": used}


def _check_text(name: str, kind: str, value: str) -> None:
    if kind == "Number" and _NUMBER.fullmatch(value) is None:
        raise bad_attribute(f"Could not cast message attribute '{name}' value to number.")
    if "\0" in value:
        raise bad_attribute(f"The message attribute '{name}' must not contain the character NUL.")


def _check_name(name: str) -> None:
    if not name:
        raise bad_attribute("The request must contain non-empty message attribute names.")
    if len(name.encode()) > 256:
        raise bad_attribute("Length of message attribute name must be less than 256 bytes.")
    if name.startswith("."):
        raise bad_attribute("Invalid message attribute name starting with character '.' was found.")
    if name.endswith("."):
        raise bad_attribute("Invalid message attribute name ending with character '.' was found.")
    if _NAME.fullmatch(name) is None:
        wrong = next(character for character in name if _NAME.fullmatch(character) is None)
        raise bad_attribute(
            f"Invalid non-alphanumeric character '#x{ord(wrong):X}' was found in the message attribute name. "
            "Can only include alphanumeric characters, hyphens, underscores, or dots."
        )
    if ".." in name:
        raise bad_attribute("Message attribute name can not have successive '.' character.")
