"""The ASGI app: every address of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.auth import Authenticator
from penstock.engine import Engine
from penstock.web import assets, security
from penstock.web.charts import Charts
from penstock.web.pages.admin import AdminPages
from penstock.web.pages.deliveries import DeliveryPages
from penstock.web.pages.follow import FollowPages
from penstock.web.pages.jobs import JobPages
from penstock.web.pages.overview import Overview
from penstock.web.pages.pipelines import PipelinePages
from penstock.web.pages.queue import QueuePages
from penstock.web.pages.queues import QueueList
from penstock.web.pages.schedules import SchedulePages
from penstock.web.pages.streams import StreamPages
from penstock.web.pages.topics import TopicPages
from penstock.web.reference import sections
from penstock.web.session import Session
from penstock.web.settings import WebSettings
from penstock.web.site import Page, Site

NOT_FOUND = {"error": "there is nothing at this path", "code": "NotFound", "field": "path"}
"""For programs: a browser says that it takes HTML, and gets a page."""


def build(
    engine: Engine,
    authenticator: Authenticator,
    document: Callable[[], Mapping[str, Any]],
    settings: WebSettings,
) -> Starlette:
    site = Site(engine, authenticator, settings)
    session = Session(site)

    async def docs(request: Request) -> Response:
        found = document()
        return site.render(Page("docs.html", "API", {"info": found["info"], "sections": sections(found)}))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in assets.TYPES:
            return site.missing()
        headers = {"cache-control": "max-age=31536000, immutable" if "v" in request.query_params else "max-age=3600"}
        return Response(assets.content(name), media_type=assets.TYPES[name], headers=headers)

    async def missing(request: Request, error: Exception) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return site.missing()
        return JSONResponse(NOT_FOUND, 404, headers=security.HEADERS)

    async def wrong_method(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return site.wrong_method(error.headers or {})

    # Paths of forms have three segments or more: a form sent to two is taken for a call of SQS.
    routes = [
        Route("/docs", docs),
        Route("/static/{name:path}", static),
        Route("/ui/login", session.login_page),
        Route("/ui/session/login", session.login, methods=["POST"]),
        Route("/ui/session/logout", session.logout, methods=["POST"]),
        *Overview(site).routes(),
        *QueueList(site).routes(),
        *QueuePages(site).routes(),
        *JobPages(site).routes(),
        *SchedulePages(site).routes(),
        *TopicPages(site).routes(),
        *DeliveryPages(site).routes(),
        *StreamPages(site).routes(),
        *PipelinePages(site).routes(),
        *FollowPages(site).routes(),
        *AdminPages(site).routes(),
        *Charts(site).routes(),
    ]
    return Starlette(routes=routes, exception_handlers={404: missing, 405: wrong_method})
