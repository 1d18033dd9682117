"""One queue: how full it is, its settings, its next messages, dead letters, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.routing import Route

from penstock import limits
from penstock.engine.queues.messages import MOST_FOUND
from penstock.errors import Forbidden, Invalid, MessageNotFound, QueueNotFound, TaskNotFound
from penstock.model import Handle, Message, MoveState, MoveTask, Outcome, Queue, Scope, Send
from penstock.model.follow import FifoGroup, FollowedMessage
from penstock.model.samples import SampleKind
from penstock.web.charts import OLDEST, RATES, WAITING, Charts, span_of
from penstock.web.forms import audited, check_json, check_queue, check_typed_name, whole_number
from penstock.web.pages.queue_rows import QueueRow, make_rows
from penstock.web.pages.queue_settings import CHOICES, NUMBERS, SWITCHES, read_settings
from penstock.web.site import Call, Page, Site, path_of

PEEKED = (10, 25, 50)
TASKS = 5
DONE = {
    "created": "The queue was created.",
    "saved": "The settings were saved.",
    "sent": "The message was sent. Its id is {count}.",
    "duplicate": "Nothing was sent: message {count} has the same deduplication id.",
    "purged": "{count:message was|messages were} deleted.",
    "deleted": "The message was deleted.",
    "redrive": "The redrive has started.",
    "returned": "{count:message was|messages were} sent back, {skipped:was|were} not visible any more.",
    "cancelled": "The redrive was stopped.",
}
"""What the page says after an action, by the word in its address."""


class QueuePages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._queues = site.engine.queues
        self._messages = site.engine.messages
        self._charts = Charts(site)

    def routes(self) -> list[Route]:
        base = "/ui/queues/{name}"

        def action(path: str, act: Any, view: Any = self.show) -> Route:
            return Route(f"{base}/{path}", self._site.action(act, view), methods=["POST"])

        return [
            Route(base, self._site.page(self.show)),
            Route(f"{base}/redrive", self._site.page(self.show_redrive)),
            action("send", self.send),
            action("settings", self.change),
            action("purge", self.purge),
            action("drop", self.drop),
            action("message/delete", self.delete_message),
            action("message/return", self.return_messages),
            action("message/return-matching", self.return_matching),
            action("redrive/start", self.redrive, self.show_redrive),
            action("redrive/cancel", self.cancel_redrive),
        ]

    # Pages

    async def show(self, call: Call) -> Page:
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.READ, name)
        queue = await self._queues.get(tenant, name)
        peeked = await self._peek(call, name)
        tasks = await self._queues.list_moves(tenant, name, TASKS)
        [row] = await self._rows(call, queue)
        values = {
            "row": row,
            "queue": queue,
            "drawings": await self._charts.draw(call, SampleKind.QUEUE, name, (RATES, WAITING, OLDEST)),
            "span": span_of(call.query.get("span", "")).value,
            "settings": queue.settings,
            "numbers": NUMBERS,
            "switches": SWITCHES,
            "choices": CHOICES if queue.fifo else (),
            "groups": await self._groups(call, queue),
            "hidden": await self._hidden(call, row),
            "peeked": peeked,
            "usual_priority": limits.DEFAULT_PRIORITY,
            "behind": _behind(peeked or []) if queue.fifo else {},
            "peek": _peek_count(call),
            "peek_choices": PEEKED,
            "filter_text": call.query.get("text", "").strip(),
            "filter_source": call.query.get("source", "").strip(),
            "matching": await self._matching(call, row),
            "tasks": [(task, _percent(task)) for task in tasks],
            "notice": call.notice(DONE),
            "may_send": call.may(Scope.SEND, name),
            "may_receive": call.may(Scope.RECEIVE, name),
            "may_manage": call.may(Scope.MANAGE, name),
        }
        return Page("queue.html", name, values)

    async def _matching(self, call: Call, row: QueueRow) -> dict[str, Any] | None:
        """Dead letters that the filter in the address is for: how many, and the filter."""
        text, source = call.query.get("text", "").strip(), call.query.get("source", "").strip()
        if call.streamed or not row.sources or not (text or source) or not self._may_filter(call, row.name):
            return None
        found = await self._messages.find(call.principal.tenant, row.name, text=text or None, source=source or None)
        return {"count": len(found), "first": found[:10], "more": len(found) >= MOST_FOUND}

    def _may_filter(self, call: Call, name: str) -> bool:
        """A filter tells what is in messages."""
        return self._site.settings.payloads and call.may(Scope.RECEIVE, name) and call.may(Scope.MANAGE, name)

    async def _groups(self, call: Call, queue: Queue) -> Sequence[FifoGroup]:
        if not queue.fifo:
            return ()
        tenant, follow = call.principal.tenant, self._site.engine.follow
        return await self._site.shared.get(("groups", tenant, queue.id), 0.4, lambda: follow.groups(tenant, queue.name))

    async def _hidden(self, call: Call, row: QueueRow) -> Sequence[FollowedMessage]:
        if not row.in_flight and not row.delayed:
            return ()
        tenant, follow = call.principal.tenant, self._site.engine.follow
        return await self._site.shared.get(("hidden", tenant, row.name), 0.4, lambda: follow.hidden(tenant, row.name))

    async def show_redrive(self, call: Call) -> Page:
        """The preview of a redrive: how many messages go where."""
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.MANAGE, name)
        queue = await self._queues.get(tenant, name)
        [row] = await self._rows(call, queue)
        values = {"row": row, "peeked": await self._peek(call, name)}
        return Page("redrive.html", f"Redrive {name}", values)

    async def _rows(self, call: Call, queue: Queue) -> list[QueueRow]:
        counts = await self._queues.counts(call.principal.tenant, queue.name)
        rows = make_rows([counts], [queue], call.principal, self._site.engine.clock.now())
        sources = await self._queues.dead_letter_sources(call.principal.tenant, queue.name)
        reached = tuple(source for source in sources if call.principal.reaches(source))
        return [replace(row, sources=reached) for row in rows]

    async def _peek(self, call: Call, name: str) -> list[Message] | None:
        """The next visible messages, without any effect on them; None when the caller may not see them."""
        if not self._site.settings.payloads or not call.may(Scope.RECEIVE, name):
            return None
        return await self._messages.peek(call.principal.tenant, name, _peek_count(call))

    # Actions

    async def send(self, call: Call) -> str:
        name, form = call.path["name"], call.form
        call.principal.require(Scope.SEND, name)
        entry = Send(
            tenant=call.principal.tenant,
            queue=name,
            body=form.get("body", "").replace("\r\n", "\n"),
            json=form.get("json") == "yes",
            delay_s=whole_number(form, "delay"),
            priority=whole_number(form, "priority"),
            group_id=form.get("group_id", "").strip() or None,
            dedup_id=form.get("dedup_id", "").strip() or None,
        )
        if entry.json:
            check_json(entry.body)
        sent = await self._messages.send(entry)
        return _done(name, "duplicate" if sent.duplicate else "sent", sent.id)

    async def change(self, call: Call) -> str:
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        changes = read_settings(call.form, fifo=name.endswith(".fifo"))
        target = changes.get("dead_letter_queue")
        if target is not None and not call.principal.reaches(target):
            raise Forbidden("this token has no access to that queue", field="dead_letter_queue")
        await check_queue(self._site.engine, call, "dead_letter_queue")
        await self._queues.update(call.principal.tenant, name, changes)
        await audited(self._site.engine, call, "queue changed", name, **changes)
        return _done(name, "saved")

    async def purge(self, call: Call) -> str:
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        check_typed_name(call, name)
        count = await self._queues.purge(call.principal.tenant, name)
        await audited(self._site.engine, call, "queue purged", name, messages=count)
        return _done(name, "purged", count)

    async def drop(self, call: Call) -> str:
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        check_typed_name(call, name)
        if not await self._queues.drop(call.principal.tenant, name):
            raise QueueNotFound(name)
        await audited(self._site.engine, call, "queue deleted", name)
        return path_of("queues")

    async def delete_message(self, call: Call) -> str:
        name = call.path["name"]
        call.principal.require(Scope.RECEIVE, name)
        number = whole_number(call.form, "id")
        if number is None or number < 0:
            raise Invalid("id is required: the message to delete", field="id")
        outcome = await self._messages.delete(Handle(tenant=call.principal.tenant, queue=name, id=number))
        if outcome is not Outcome.DONE:
            raise MessageNotFound()
        await audited(self._site.engine, call, "message deleted", name, message=number)
        return _done(name, "deleted")

    async def return_messages(self, call: Call) -> str:
        """Dead letters back to where they came from: one, or those that were selected."""
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        given = call.form.get("ids", "").split()
        if not given or not all(one.isascii() and one.isdigit() and len(one) < 19 for one in given):
            raise Invalid("select the messages to send back", field="ids")
        ids = sorted({int(one) for one in given})
        moved = await self._queues.move(call.principal.tenant, name, ids)
        await audited(self._site.engine, call, "dead letters sent back", name, messages=moved)
        return _done(name, "returned", moved) + f"&skipped={len(ids) - moved}"

    async def return_matching(self, call: Call) -> str:
        """All dead letters that the filter is for, back to where they came from."""
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.MANAGE, name)
        call.principal.require(Scope.RECEIVE, name)
        text, source = call.form.get("text", "").strip(), call.form.get("source", "").strip()
        if not self._may_filter(call, name) or not (text or source):
            raise Invalid("an action needs a text or a source", field="text")
        ids, moved = await self._messages.find(tenant, name, text=text or None, source=source or None), 0
        for start in range(0, len(ids), limits.BATCH_ENTRIES[1]):
            moved += await self._queues.move(tenant, name, ids[start : start + limits.BATCH_ENTRIES[1]])
        await audited(self._site.engine, call, "dead letters sent back", name, messages=moved, text=text, source=source)
        return _done(name, "returned", moved) + f"&skipped={len(ids) - moved}"

    async def redrive(self, call: Call) -> str:
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        destination = call.form.get("destination", "").strip() or None
        if destination is not None:
            call.principal.require(Scope.MANAGE, destination)
        rate = whole_number(call.form, "rate")
        await check_queue(self._site.engine, call, "destination")
        await self._queues.start_move(call.principal.tenant, name, destination, rate)
        await audited(self._site.engine, call, "redrive started", name, destination=destination, rate=rate)
        return _done(name, "redrive")

    async def cancel_redrive(self, call: Call) -> str:
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.MANAGE, name)
        number = whole_number(call.form, "task")
        if all(task.id != number for task in await self._queues.list_moves(tenant, name, 1000)):
            raise TaskNotFound()
        assert number is not None
        await self._queues.cancel_move(tenant, number)
        await audited(self._site.engine, call, "redrive stopped", name, task=number)
        return _done(name, "cancelled")


def _peek_count(call: Call) -> int:
    text = call.query.get("peek", "")
    return int(text) if text in {str(choice) for choice in PEEKED} else PEEKED[0]


def _behind(peeked: Sequence[Message]) -> dict[int, int]:
    """Messages that wait until an earlier one of their group is deleted, and the first of the group."""
    first: dict[str | None, int] = {}
    found = {item.id: first.setdefault(item.group_id, item.id) for item in peeked}
    return {waiting: head for waiting, head in found.items() if waiting != head}


def _percent(task: MoveTask) -> int:
    if task.state is MoveState.COMPLETED:
        return 100
    return min(round(100 * task.moved / task.to_move), 100) if task.to_move else 0


def _done(name: str, word: str, count: int | None = None) -> str:
    return f"{path_of('queues', name)}?done={word}" + ("" if count is None else f"&count={count}")
