"""Follow: one timeline of a message, job, event, delivery, publish or trace."""

from __future__ import annotations

from starlette.routing import Route

from penstock.model import Scope
from penstock.model.follow import Step, TrailKind
from penstock.web.site import Call, Page, Site, path_of


class FollowPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [Route("/ui/follow", self._site.page(self.show))]

    async def show(self, call: Call) -> Page:
        asked = call.query.get("id", "").strip()
        principal = call.principal
        principal.require(Scope.READ)
        trail = await self._site.engine.follow.trail(principal.tenant, asked, principal.reaches) if asked else None
        steps = [(step, link_of(step)) for step in trail.steps] if trail is not None else []
        values = {
            "asked": asked,
            "trail": trail,
            "dated": [pair for pair in steps if pair[0].at is not None],
            "current": [pair for pair in steps if pair[0].at is None],
        }
        return Page("follow.html", "Follow", values)


def link_of(step: Step) -> str | None:
    """The page of what a step is about."""
    match step.kind:
        case TrailKind.MESSAGE:
            return path_of("queues", step.where)
        case TrailKind.JOB:
            return path_of("jobs", step.id)
        case TrailKind.EVENT:
            return path_of("streams", step.where)
        case TrailKind.DELIVERY:
            return path_of("deliveries", step.id)
        case _:
            return None
