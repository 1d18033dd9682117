"""What all pages share: who is looking, how a page is rendered, and how a form is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from penstock import errors
from penstock.auth import EVERYONE, Authenticator, Mode, Principal
from penstock.engine import Engine
from penstock.errors import Forbidden, Invalid, PenstockError
from penstock.model import Scope
from penstock.web import assets, security
from penstock.web.formats import FILTERS, thousands
from penstock.web.live import Streams
from penstock.web.settings import WebSettings
from penstock.web.shared import Shared

STATUSES: dict[type[PenstockError], int] = {
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.QueueFull: 429,
    errors.RateLimited: 429,
    errors.Unsupported: 501,
    errors.Unavailable: 503,
    errors.Invalid: 400,
    errors.PenstockError: 500,
}
MOST_FIELDS = 2000
REPORTED = frozenset({"done", "count", "skipped", "live"})
"""Parameters of an address that are of this view of the page only."""
KEEP_LIVE_S = 0.4
"""Shorter than the pause between two looks of a live page."""
PAGES = (
    ("/", "Overview"),
    ("/ui/queues", "Queues"),
    ("/ui/jobs", "Jobs"),
    ("/ui/topics", "Topics"),
    ("/ui/streams", "Streams"),
    ("/ui/schedules", "Schedules"),
    ("/ui/pipelines", "Pipelines"),
    ("/ui/follow", "Follow"),
    ("/docs", "API"),
    ("/metrics", "Metrics"),
)
"""The navigation."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and what it shows. Its block `live` is sent again whenever it changes."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Call:
    """A request by a known caller."""

    request: Request
    principal: Principal
    form: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    """Why the form that was just sent was not accepted."""
    field: str | None = None
    """The name of the field that was wrong, if it was one."""
    status: int = 200

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.request.path_params
        return found

    @property
    def streamed(self) -> bool:
        """Only the live part of the page is wanted: what stands outside it need not be asked for."""
        return "live" in self.query and "text/event-stream" in self.request.headers.get("accept", "")

    def notice(self, texts: Mapping[str, str]) -> str | None:
        """What the page says after an action: `done` in the address names the text, `count` and `skipped` are its
        numbers."""
        text = texts.get(self.query.get("done", ""))
        counts = {name: self.query.get(name, "0") for name in ("count", "skipped")}
        if text is None or not all(_is_count(one) for one in counts.values()):
            return None
        return text.format(**{name: _Count(one) for name, one in counts.items()})

    def link(self, base: str, **changes: object) -> str:
        """The address of the page at `base` with this query, changed; without what an action reported."""
        kept = {name: value for name, value in self.query.items() if name not in REPORTED} | changes
        return f"{base}?{urlencode(kept)}"

    def wrong(self, name: str) -> str:
        """Why the field of the form that was just sent was not accepted, if it was this one."""
        return self.error if self.error is not None and self.field == name else ""

    def may(self, scope: Scope, queue: str | None = None) -> bool:
        try:
            self.principal.require(scope, queue)
        except Forbidden:
            return False
        return True


View = Callable[[Call], Awaitable[Page]]
Action = Callable[[Call], Awaitable["str | Page"]]
"""Does what a form asks for and returns the address of the page to show next; or the page itself, for what is shown
once and must not be in an address."""
Endpoint = Callable[[Request], Awaitable[Response]]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


class _Count(int):
    """A number of things: `{count:job was|jobs were}` is written `1 job was` or `2 jobs were`."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return f"{thousands(int(self))} {one if self == 1 else many}" if words else str(int(self))


def status_of(error: PenstockError) -> int:
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def path_of(*segments: str) -> str:
    """An address of the dashboard. Names are quoted: they may contain `/`, `?` and `#`."""
    return "/ui/" + "/".join(quote(segment, safe="") for segment in segments)


class Site:
    def __init__(self, engine: Engine, authenticator: Authenticator, settings: WebSettings) -> None:
        self.engine = engine
        self.authenticator = authenticator
        self.settings = settings
        self.shared = Shared()
        self.streams = Streams()
        self._templates = Environment(
            loader=PackageLoader("penstock.web"),
            auto_reload=False,
            autoescape=select_autoescape(),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(asset=assets.address, ui=path_of)

    # Who is looking

    async def principal(self, request: Request) -> Principal:
        if self.authenticator.mode is Mode.OPEN:
            return EVERYONE
        principal = await self.authenticator.principal(security.credentials(request))
        principal.require(Scope.READ)
        return principal

    # Pages

    def page(self, view: View) -> Endpoint:
        """Serve a view: the whole page, or, with `live` in the query, a stream of its live part whenever it changes."""

        async def endpoint(request: Request) -> Response:
            # htmx accepts event streams with every request, so the address says what is wanted.
            streamed = "live" in request.query_params and "text/event-stream" in request.headers.get("accept", "")
            try:
                call = Call(request, await self.principal(request))
            except Forbidden as error:
                return Response(status_code=403) if streamed else self.login_page(request, error.message)
            except PenstockError as error:
                return self.trouble(error)
            if streamed:
                return self.streams.response(lambda: self._live_part(view, request))
            try:
                return self.render(await view(call), call)
            except PenstockError as error:
                return self.trouble(error, call)

        return endpoint

    async def _live_part(self, view: View, request: Request) -> str:
        """Asked every second: a token that was revoked meanwhile ends the stream."""
        call = Call(request, await self.principal(request))
        reader = call.principal
        key = ("live", reader.tenant, reader.scopes, reader.queues, str(request.url))

        async def ask() -> str:
            page = await view(call)
            template = self._templates.get_template(page.template)
            context = template.new_context(self._values(page, call))
            return "".join(template.blocks["live"](context))

        return await self.shared.get(key, KEEP_LIVE_S, ask)

    def action(self, act: Action, view: View) -> Endpoint:
        """Serve a form. When it is refused, `view` shows its page again with the reason and what was entered."""

        async def endpoint(request: Request) -> Response:
            try:
                call = Call(request, await self.principal(request), await self.read_form(request))
            except Forbidden as error:
                return self.login_page(request, error.message)
            except PenstockError as error:
                return self.trouble(error)
            try:
                if self.settings.read_only:
                    raise Forbidden("the dashboard of this server is read-only")
                target = await act(call)
            except PenstockError as error:
                refused = replace(call, error=error.message, field=error.field, status=status_of(error))
                return await self._refused(view, refused, error)
            self.shared.forget()
            if isinstance(target, Page):
                return self.render(target, call)
            return RedirectResponse(target, 303, headers=security.HEADERS)

        return endpoint

    async def _refused(self, view: View, call: Call, error: PenstockError) -> Response:
        try:
            return self.render(await view(call), call)
        except PenstockError:
            return self.trouble(error, call)

    async def read_form(self, request: Request) -> Mapping[str, str]:
        """The fields of a form that one of our pages sent. Of a repeated field the values are joined by newlines."""
        if not security.sent_by_own_page(request, self.settings.hosts):
            raise Invalid("this form was not sent by a page of this server")
        try:
            text = (await request.body()).decode()
            fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
        except ValueError:
            raise Invalid("the form cannot be read") from None
        return {name: "\n".join(values) for name, values in fields.items()}

    # Rendering

    def render(self, page: Page, call: Call | None = None) -> Response:
        template: Template = self._templates.get_template(page.template)
        status = call.status if call is not None and call.error is not None else page.status
        return HTMLResponse(template.render(self._values(page, call)), status, headers=security.HEADERS)

    def _values(self, page: Page, call: Call | None) -> dict[str, Any]:
        address = ""
        if call is not None:
            url = call.request.url
            address = url.path + (f"?{url.query}" if url.query else "")
        return {
            "title": page.title,
            "pages": (*PAGES, *self._admin_pages(call)),
            "address": address,
            "origin": str(call.request.base_url).rstrip("/") if call is not None else "",
            "live": call is not None and call.request.method == "GET",
            "caller": call.principal if call is not None else None,
            "open": self.authenticator.mode is Mode.OPEN,
            "read_only": self.settings.read_only,
            "payloads": self.settings.payloads,
            "error": call.error if call is not None else None,
            "wrong": call.wrong if call is not None else lambda name: "",
            "here": call.link if call is not None else None,
            "form": call.form if call is not None else {},
            "now": self.engine.clock.now(),
            **page.values,
        }

    def _admin_pages(self, call: Call | None) -> tuple[tuple[str, str], ...]:
        shown = call is not None and call.may(Scope.ADMIN) and call.principal.queues == "*"
        return (("/ui/admin", "Admin"),) if shown else ()

    def login_page(self, request: Request, reason: str, target: str | None = None) -> Response:
        given = security.credentials(request) is not None or target is not None
        if target is None:
            url = request.url
            target = url.path + (f"?{url.query}" if url.query else "") if request.method == "GET" else "/"
        values = {"reason": reason if given else None, "target": security.local_path(target)}
        return self.render(Page("login.html", "A token is needed", values, 403))

    def trouble(self, error: PenstockError, call: Call | None = None) -> Response:
        titles = {404: "Not found", 503: "Not available", 403: "Not allowed"}
        status = status_of(error)
        page = Page("trouble.html", titles.get(status, "This did not work"), {"reason": error.message}, status)
        return self.render(page, replace(call, error=None) if call is not None else None)

    def missing(self) -> Response:
        reason = "There is nothing at this address."
        return self.render(Page("trouble.html", "Not found", {"reason": reason}, 404))

    def wrong_method(self, headers: Mapping[str, str]) -> Response:
        """`headers` name the methods that the address allows."""
        reason = "This address does not take such requests."
        response = self.render(Page("trouble.html", "Not allowed", {"reason": reason}, 405))
        response.headers.update(headers)
        return response
