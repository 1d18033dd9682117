"""Reading the fields of forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.errors import Invalid, QueueNotFound
from penstock.web.site import Call

DASHBOARD = "dashboard"


def whole_number(form: Mapping[str, str], name: str) -> int | None:
    """None when the field is empty."""
    text = form.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.lstrip("-").isdigit() or len(text) > 18:
        raise Invalid(f"{name} must be a whole number", field=name)
    return int(text)


def check_typed_name(call: Call, name: str) -> None:
    """Destruction is confirmed by typing the name of what is destroyed."""
    if call.form.get("confirm", "").strip() != name:
        raise Invalid(f"type the name {name} to confirm", field="confirm")


async def check_queue(engine: Engine, call: Call, name: str) -> None:
    """If the field is filled, it names a queue."""
    queue = call.form.get(name, "").strip()
    if queue:
        try:
            await engine.queues.get(call.principal.tenant, queue)
        except QueueNotFound as error:
            error.field = name
            raise


def check_json(text: str) -> None:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise Invalid(f"the body is not valid JSON: {error}", field="body") from None


def actor_of(principal: Principal) -> str:
    return principal.name or DASHBOARD


async def audited(engine: Engine, call: Call, act: str, subject: str, **detail: Any) -> None:
    await engine.audit.note(call.principal.tenant, actor_of(call.principal), act, subject, through=DASHBOARD, **detail)
