"""Webhook deliveries: what was sent where, what the endpoint answered, and replay."""

from __future__ import annotations

from starlette.routing import Route

from penstock.errors import DeliveryNotFound, Invalid
from penstock.model import Scope
from penstock.model.topics import Delivery, DeliveryState
from penstock.web.forms import audited
from penstock.web.site import Call, Page, Site, path_of

ROWS = 50
KEEP_ENDPOINTS_S = 15.0
DONE = {"replayed": "The delivery is tried again, with all its retries."}


class DeliveryPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._webhooks = site.engine.webhooks

    def routes(self) -> list[Route]:
        site = self._site
        return [
            Route("/ui/deliveries", site.page(self.show_list)),
            Route("/ui/deliveries/{id}", site.page(self.show)),
            Route("/ui/deliveries/{id}/replay", site.action(self.replay, self.show), methods=["POST"]),
        ]

    async def show_list(self, call: Call) -> Page:
        state, before = call.query.get("state", ""), call.query.get("before", "")
        if state and state not in {one.value for one in DeliveryState}:
            raise Invalid(f"the state of a delivery is one of {', '.join(DeliveryState)}", field="state")
        found = await self._webhooks.list(
            call.principal.tenant,
            state=DeliveryState(state) if state else None,
            before=_number(before) if before else None,
            limit=ROWS,
        )
        values = {
            "deliveries": [one for one in found if call.principal.reaches(source_of(one))],
            "state": state,
            "states": [one.value for one in DeliveryState],
            "next": found[-1].id if len(found) == ROWS else None,
        }
        return Page("deliveries.html", "Deliveries", values)

    async def show(self, call: Call) -> Page:
        delivery = await self._reached(call)
        finished = delivery.state in (DeliveryState.DELIVERED, DeliveryState.EXHAUSTED)
        values = {
            "delivery": delivery,
            "source": source_of(delivery),
            "failing": 0 if finished else await self._failing(delivery),
            "may_replay": finished and call.may(Scope.MANAGE),
            "notice": call.notice(DONE),
        }
        return Page("delivery.html", f"Delivery {delivery.id}", values)

    async def _failing(self, delivery: Delivery) -> int:
        """Deliveries to the endpoint that keep failing."""
        found = await self._site.shared.get("endpoints", KEEP_ENDPOINTS_S, self._site.engine.gauges.endpoints)
        own = (delivery.tenant, delivery.endpoint)
        return next((one.failing for one in found if (one.tenant, one.endpoint) == own), 0)

    async def replay(self, call: Call) -> str:
        call.principal.require(Scope.MANAGE)
        delivery = await self._reached(call)
        await self._webhooks.replay(delivery.tenant, delivery.id)
        self._site.engine.topics.on_deliveries()
        await audited(self._site.engine, call, "delivery replayed", str(delivery.id))
        return f"{path_of('deliveries', str(delivery.id))}?done=replayed"

    async def _reached(self, call: Call) -> Delivery:
        """The delivery, when the token reaches the topic or the routing key it comes from."""
        delivery = await self._webhooks.get(call.principal.tenant, _number(call.path["id"]))
        if not call.principal.reaches(source_of(delivery)):
            raise DeliveryNotFound()
        return delivery


def source_of(delivery: Delivery) -> str:
    return delivery.topic or delivery.routing_key or ""


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise DeliveryNotFound()
    return int(text)
