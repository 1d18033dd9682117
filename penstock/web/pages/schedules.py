"""Schedules: what fires when, with a preview of any expression; create, run, pause, resume, delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.routing import Route

from penstock.engine.schedules.settings import SHAPES, timetable_of
from penstock.errors import Invalid
from penstock.model import Scope
from penstock.model.audit import Act
from penstock.model.schedules import Schedule, ScheduleStatus, TargetKind
from penstock.web.forms import audited, check_json, check_typed_name
from penstock.web.site import Call, Page, Site, path_of

DONE = {
    "created": "The schedule was created.",
    "changed": "The schedule was changed.",
    "ran": "The schedule was fired once, beside its timetable.",
    "failed": "The schedule was fired and failed: see the last error.",
    "paused": "The schedule is paused.",
    "resumed": "The schedule is active again.",
}
FIRES = 5
ACTS = 500
SHOWN_ACTS = 10
PAST = 20


class SchedulePages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._schedules = site.engine.schedules

    def routes(self) -> list[Route]:
        site, base = self._site, "/ui/schedules/{name}"

        def action(path: str, act: Any) -> Route:
            return Route(f"{base}/{path}", site.action(act, self.show), methods=["POST"])

        return [
            Route("/ui/schedules", site.page(self.show_list)),
            Route("/ui/schedules/new/create", site.action(self.create, self.show_list), methods=["POST"]),
            Route(base, site.page(self.show)),
            action("change", self.change),
            action("run", self.run),
            action("pause", self.pause),
            action("resume", self.resume),
            action("delete", self.delete),
        ]

    # Pages

    async def show_list(self, call: Call) -> Page:
        search, status = call.query.get("search", "").strip(), call.query.get("status", "")
        if status and status not in {one.value for one in ScheduleStatus}:
            raise Invalid("the status of a schedule is active or paused", field="status")
        tenant = call.principal.tenant
        found = await self._site.shared.get(("schedules", tenant), 0.4, lambda: self._schedules.list(tenant))
        shown = [
            (one, _sentence(one))
            for one in found
            if call.principal.reaches(one.settings.target)
            and search.lower() in one.name.lower()
            and status in ("", one.status.value)
        ]
        values = {
            "schedules": shown,
            "search": search,
            "status": status,
            "shapes": SHAPES,
            "kinds": [kind.value for kind in TargetKind],
            "preview": self._preview(call),
            "entered": dict(call.query) | dict(call.form),
            "may_create": call.may(Scope.MANAGE) and call.may(Scope.SEND),
        }
        return Page("schedules.html", "Schedules", values)

    async def show(self, call: Call) -> Page:
        found = await self._reached(call, Scope.READ)
        values = {
            "schedule": found,
            "sentence": _sentence(found),
            "fires": self._schedules.next_fires(found, FIRES),
            "acts": await self._acts(found),
            "past": await self._schedules.fires(found, PAST),
            "follow_prefix": _follow_prefix(found),
            "entered": dict(call.form) or _entered(found),
            "may_manage": call.may(Scope.MANAGE, found.settings.target),
            "notice": call.notice(DONE),
        }
        return Page("schedule.html", found.name, values)

    async def _acts(self, schedule: Schedule) -> list[Act]:
        """What people did to the schedule lately."""
        recent = await self._site.engine.audit.list(schedule.tenant, limit=ACTS)
        return [act for act in recent if act.subject == schedule.name and act.act.startswith("schedule ")][:SHOWN_ACTS]

    def _preview(self, call: Call) -> dict[str, Any] | None:
        """What the expression in the address or the form means."""
        entered = call.form or call.query
        shape, text = entered.get("shape", "when"), entered.get("text", "").strip()
        if not text:
            return None
        try:
            table = self._schedules.preview(_expression(shape, text, entered.get("timezone", "")))
        except Invalid as error:
            return {"error": error.message}
        return {
            "error": None,
            "sentence": table.sentence(),
            "timezone": table.timezone,
            "fires": self._schedules.next_fires(table, FIRES),
        }

    async def _reached(self, call: Call, scope: Scope) -> Schedule:
        call.principal.require(scope)
        found = await self._schedules.get(call.principal.tenant, call.path["name"])
        call.principal.require(scope, found.settings.target)
        return found

    # Actions

    async def create(self, call: Call) -> str:
        form = call.form
        name, target, body = form.get("name", "").strip(), form.get("target", "").strip(), form.get("body", "").strip()
        call.principal.require(Scope.MANAGE, target)
        call.principal.require(Scope.SEND, target)
        kind = form.get("target_kind", "queue")
        if kind not in {one.value for one in TargetKind}:
            raise Invalid("target_kind is queue, topic, stream or job", field="target_kind")
        given = _expression(form.get("shape", "when"), form.get("text", "").strip(), form.get("timezone", ""))
        given |= {"target": target, "target_kind": TargetKind(kind)}
        if body:
            check_json(body)
            given |= {"body": body, "json": True}
        made = await self._schedules.create(call.principal.tenant, name, given)
        await audited(self._site.engine, call, "schedule created", made.name, target=target)
        return f"{path_of('schedules', made.name)}?done=created"

    async def change(self, call: Call) -> str:
        found = await self._reached(call, Scope.MANAGE)
        call.principal.require(Scope.SEND, found.settings.target)
        form = call.form
        changes = _expression(form.get("shape", "when"), form.get("text", "").strip(), form.get("timezone", ""))
        body = form.get("body", "").strip()
        if body:
            check_json(body)
            changes |= {"body": body, "json": True}
        await self._schedules.patch(found.tenant, found.name, changes)
        await audited(self._site.engine, call, "schedule changed", found.name)
        return f"{path_of('schedules', found.name)}?done=changed"

    async def run(self, call: Call) -> str:
        found = await self._reached(call, Scope.MANAGE)
        call.principal.require(Scope.SEND, found.settings.target)
        fired = await self._schedules.run(found.tenant, found.name)
        await audited(self._site.engine, call, "schedule run", found.name)
        return f"{path_of('schedules', found.name)}?done={'failed' if fired.error else 'ran'}"

    async def pause(self, call: Call) -> str:
        return await self._set_status(call, ScheduleStatus.PAUSED, "paused")

    async def resume(self, call: Call) -> str:
        return await self._set_status(call, ScheduleStatus.ACTIVE, "resumed")

    async def _set_status(self, call: Call, status: ScheduleStatus, word: str) -> str:
        found = await self._reached(call, Scope.MANAGE)
        call.principal.require(Scope.SEND, found.settings.target)
        await self._schedules.patch(found.tenant, found.name, {"status": status})
        await audited(self._site.engine, call, f"schedule {word}", found.name)
        return f"{path_of('schedules', found.name)}?done={word}"

    async def delete(self, call: Call) -> str:
        found = await self._reached(call, Scope.MANAGE)
        check_typed_name(call, found.name)
        await self._schedules.delete(found.tenant, found.name)
        await audited(self._site.engine, call, "schedule deleted", found.name)
        return path_of("schedules")


def _expression(shape: str, text: str, timezone: str) -> dict[str, Any]:
    if shape not in SHAPES:
        raise Invalid(f"give one of {', '.join(SHAPES)}", field="shape")
    given: dict[str, Any] = {shape: text}
    return given | ({"timezone": timezone.strip()} if timezone.strip() else {})


def _entered(schedule: Schedule) -> dict[str, str]:
    """The fields of the form that changes a schedule, as it is now."""
    settings = schedule.settings
    return {
        "text": settings.given,
        "shape": settings.shape,
        "timezone": settings.timezone,
        "body": settings.body if settings.json else "",
    }


def _follow_prefix(schedule: Schedule) -> str:
    """What chooses among things with the same number, before the id of what a fire sent."""
    settings = schedule.settings
    prefixes = {TargetKind.QUEUE: "message:", TargetKind.STREAM: f"event:{settings.target}/"}
    return quote(prefixes.get(settings.target_kind, ""), safe="")


def _sentence(schedule: Schedule) -> str:
    return timetable_of(schedule.settings).sentence()
