"""What the AWS doors share: one address for several services, two protocols, and who is calling.

A request is read into a `Call` and the Struct of its action, the action answers with a Struct, and the protocol the
caller spoke writes it down. A service brings its actions and the words for its errors; it never sees a protocol but
to choose between two texts.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.auth import Mode, Principal
from penstock.engine.answers import Answer
from penstock.engine.tenants import HOME_REGION, Tenants
from penstock.model import DEFAULT_TENANT, TenantId
from penstock.wire.aws import json_protocol as aws_json
from penstock.wire.aws import query_protocol as aws_query
from penstock.wire.aws import xml as aws_xml
from penstock.wire.aws.errors import AwsError, internal, invalid_action, unknown_operation
from penstock.wire.aws.signature import AwsAuthenticator, Caller, SignatureFault, check_service, service_of
from penstock.wire.http.head_checks import made_for_another_site
from penstock.wire.http.messages import Direct, Later, Refusal, Request, Response
from penstock.wire.http.router import Admission, Route

log = logging.getLogger("penstock.http")

Result = TypeVar("Result")

NOBODY = Principal(DEFAULT_TENANT, frozenset(), queues="", name="nobody")
"""Who calls without any credentials, where an action lets them."""
NOBODY_AT_HOME: Caller = (NOBODY, HOME_REGION)
BODY_BYTES = 16_777_216
"""Room for the largest message or batch, escaped."""
SMALL_BODY_BYTES = 1_048_576
"""For actions that carry no messages."""
LARGE_BODY = 524_288
"""A form beyond this is read in a thread."""
MESSAGE_ACTIONS = frozenset({"SendMessage", "SendMessageBatch", "Publish", "PublishBatch"})
HOT_ACTIONS = frozenset({"SendMessage", "ReceiveMessage", "DeleteMessage", "SendMessageBatch", "DeleteMessageBatch"})
"""They wait for shared statements alone, or nearly so."""
MAX_SHOWN = 200
"""Characters of a caller's text that an error repeats."""

_ID_PREFIX = f"{secrets.token_hex(4)}-{secrets.token_hex(2)}-4{secrets.token_hex(2)[1:]}-a{secrets.token_hex(2)[1:]}"
_IDS = itertools.count(secrets.randbits(44))


def new_request_id() -> str:
    return f"{_ID_PREFIX}-{next(_IDS):012x}"


class Protocol(Enum):
    JSON = "json"
    QUERY = "query"
    QUERY_JSON = "query, answered in JSON"


class Call:
    """One request to an action: who asks, from where, in which protocol."""

    __slots__ = (
        "action", "error_detail", "namespace", "path", "principal", "protocol", "region", "request", "request_id",
        "tenant",
    )  # fmt: skip

    principal: Principal
    tenant: TenantId
    region: str

    def __init__(self, request: Request, protocol: Protocol) -> None:
        self.request = request
        self.protocol = protocol
        self.request_id = new_request_id()
        self.action = ""
        self.namespace = ""
        self.error_detail = False
        self.path: str | None = None
        """What the path names, when the request was not sent to the service as such."""

    def answer(self, result: Struct | None) -> Response:
        if self.protocol is Protocol.JSON:
            return aws_json.answer(result, self.request_id)
        if self.protocol is Protocol.QUERY:
            return aws_xml.answer(self.action, result, self.request_id, self.namespace)
        return aws_xml.json_answer(self.action, result, self.request_id)

    def fault(self, error: AwsError) -> Response:
        if self.protocol is Protocol.JSON:
            return aws_json.fault(error, self.request_id)
        if self.protocol is Protocol.QUERY:
            return aws_xml.fault(error, self.request_id, self.namespace, detail=self.error_detail)
        return aws_xml.json_fault(error, self.request_id)

    @property
    def query(self) -> bool:
        return self.protocol is not Protocol.JSON


Perform = Callable[[Call, Any], Awaitable[Struct | None]]
Begun = tuple[Answer[Any], Callable[[Any], "Struct | Awaitable[Struct | None] | None"]]
"""An answer of the engine that is under way, and what makes a result of it."""
Begin = Callable[[Call, Any], Begun | None]
"""Performs what needs no waiting but for the engine; None leaves it to `Perform`."""


class Action:
    """A named action: the Struct it is given, and what performs it."""

    __slots__ = (
        "begin", "body_bytes", "by_link", "decoder", "everywhere", "given", "hot", "name", "perform", "unsigned",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        given: type[Struct],
        perform: Perform,
        *,
        everywhere: bool = True,
        unsigned: bool = False,
        begin: Begin | None = None,
    ) -> None:
        self.name = name
        self.given = given
        self.perform = perform
        self.begin = begin
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(given)
        self.everywhere = everywhere
        """Served at the address of a single queue too."""
        self.unsigned = unsigned
        """Served to `NOBODY` too: what it is given proves enough."""
        self.by_link = unsigned or name.startswith(("Get", "List", "Check"))
        """Changes nothing, or proves itself: a link to it may be followed without a signature."""
        self.hot = name in HOT_ACTIONS
        self.body_bytes = BODY_BYTES if name in MESSAGE_ACTIONS else SMALL_BODY_BYTES


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    """As credential scopes call it."""
    target: str
    """What comes before the action in X-Amz-Target."""
    namespace: str
    actions: Mapping[str, Action]
    explain: Callable[[Exception, Call], AwsError | None]
    """The service's words for an error of the engine."""
    owns: Callable[[Request], bool] = field(default=lambda request: False)
    """Whether a path that names one of its things is its own."""
    version: str = ""
    """What Query requests call it; tells apart services that have an action of one name."""
    also: tuple[str, ...] = ()
    """Other words that come before the action in X-Amz-Target."""
    error_detail: bool = False
    """Query errors carry an empty Detail element."""


class Gateway:
    """Every AWS service at one address, told apart by the target of a request or by its action."""

    def __init__(self, services: Iterable[Service], authenticator: AwsAuthenticator, tenants: Tenants) -> None:
        self._services = list(services)
        self._authenticator = authenticator
        self._tenants = tenants
        self._targets = {
            f"{target}.{action.name}".encode(): (service, action)
            for service in self._services
            for target in (service.target, *service.also)
            for action in service.actions.values()
        }

    def routes(self) -> list[Route]:
        def route(method: str, path: str, **more: Any) -> Route:
            return Route(
                method, path, self.serve, fault=_late_fault, body_bytes=BODY_BYTES, open=True, admit=self.admit, **more
            )

        return [
            route("POST", "/"),
            route("GET", "/", safe=False, when=lambda request: b"Action=" in request.query),
            route("POST", "/{account}/{name}", when=self._owned),
            route("GET", "/{account}/{name}", safe=False, when=self._owned),
        ]

    def _owned(self, request: Request) -> bool:
        return any(service.owns(request) for service in self._services)

    def serve(self, request: Request) -> Response | Awaitable[Response]:
        target = request.found.get(b"x-amz-target")
        if target is None:
            return self._serve_query(request)
        call = Call(request, Protocol.JSON)
        found = self._targets.get(target)
        if found is None:
            return call.fault(unknown_operation(400))
        if request.arguments:
            call.path = request.arguments[-1]
        service, action = found
        begun = self._begin(call, service, action) if action.begin is not None else None
        if begun is not None:
            return begun
        performed = self._perform(call, service, action)
        return Direct(performed) if action.hot else performed

    def _begin(self, call: Call, service: Service, action: Action) -> Response | Later | None:
        """Perform an action without a coroutine; None when it needs one."""
        assert action.begin is not None
        request = call.request
        call.action = action.name
        try:
            caller = self._authenticator.remembered(request, service.name)
            if caller is None or caller[1] != HOME_REGION:
                return None
            self._check_action(request, action)
            call.principal, call.region = caller
            call.tenant = call.principal.tenant
            begun = action.begin(call, aws_json.read(action.decoder, request.body))
        except Exception as error:
            return call.fault(_explained(error, service, call))
        if begun is None:
            return None
        answer, finish = begun

        def respond(results: Any) -> Response | Awaitable[Response]:
            result = finish(results)
            if result is None or isinstance(result, Struct):
                return aws_json.answer(result, call.request_id)
            return self._respond(call, service, result)

        return Later(answer, respond, lambda error: call.fault(_explained(error, service, call)))

    async def _respond(self, call: Call, service: Service, result: Awaitable[Struct | None]) -> Response:
        try:
            return call.answer(await result)
        except Exception as error:
            return call.fault(_explained(error, service, call))

    def admit(self, request: Request) -> Admission:
        """Refuse a large body, by the head alone, when its sender is unknown."""
        call = Call(request, Protocol.JSON if b"x-amz-target" in request.found else _query_protocol(request))
        call.namespace, call.error_detail = self._services[0].namespace, self._services[0].error_detail
        try:
            pending = self._authenticator.admit(request)
        except SignatureFault as error:
            return call.fault(_signature_error(error))
        return None if pending is None else _admitted(call, pending)

    def _serve_query(self, request: Request) -> Awaitable[Response]:
        call = Call(request, _query_protocol(request))
        call.namespace = self._services[0].namespace
        return self._perform_query(call)

    async def _perform_query(self, call: Call) -> Response:
        """The caller is verified before the form is read: it may be large."""
        request, service = call.request, self._services[0]
        try:
            caller = await self._caller(request, self._signed_service(request)) if _is_signed(request) else None
            parameters = await _in_turn(request, aws_query.parse, request.query, _form(request))
            service, action = self._find(parameters, request)
            call.namespace, call.error_detail = service.namespace, service.error_detail
            call.action = action.name
            if request.arguments:
                if not action.everywhere:
                    raise invalid_action(action.name)
                call.path = request.arguments[-1]
            if caller is None:
                caller = NOBODY_AT_HOME if action.unsigned else await self._caller(request, service.name)
            elif self._authenticator.mode is Mode.SIGV4:
                check_service(self._signed_service(request), service.name)
            self._check_action(request, action)
            await self._enter(call, caller)
            given = await _in_turn(request, aws_query.read, action.given, parameters)
            return call.answer(await action.perform(call, given))
        except Exception as error:
            return call.fault(_explained(error, service, call))

    def _signed_service(self, request: Request) -> str:
        """The service a request is signed for; the first of ours when it is for none of them."""
        named = service_of(request) if self._authenticator.mode is Mode.SIGV4 else ""
        return named if any(service.name == named for service in self._services) else self._services[0].name

    def _find(self, parameters: aws_query.Parameters, request: Request) -> tuple[Service, Action]:
        name = aws_query.text(parameters, "Action")
        if not name:
            raise unknown_operation()
        found = [(service, service.actions[name]) for service in self._services if name in service.actions]
        if not found:
            raise invalid_action(name[:MAX_SHOWN])
        if len(found) > 1 and not request.arguments:
            version = aws_query.text(parameters, "Version")
            scope = request.found.get(b"authorization", b"")
            for service, action in found:
                if service.version == version or f"/{service.name}/aws4_request".encode() in scope:
                    return service, action
        return found[0]

    async def _perform(self, call: Call, service: Service, action: Action) -> Response:
        request = call.request
        call.action = action.name
        try:
            if action.unsigned and not _is_signed(request):
                caller: Caller | None = NOBODY_AT_HOME
            else:
                caller = self._authenticator.remembered(request, service.name)
            if caller is None:
                caller = await self._authenticator.principal(request, service.name)
            self._check_action(request, action)
            await self._enter(call, caller)
            return call.answer(await action.perform(call, aws_json.read(action.decoder, request.body)))
        except Exception as error:
            return call.fault(_explained(error, service, call))

    async def _caller(self, request: Request, service: str) -> Caller:
        known = self._authenticator.remembered(request, service)
        return known if known is not None else await self._authenticator.principal(request, service)

    async def _enter(self, call: Call, caller: Caller) -> None:
        call.principal, call.region = caller
        call.tenant = call.principal.tenant
        if call.region != HOME_REGION:
            call.tenant = await self._tenants.in_region(call.tenant, call.region)

    def _check_action(self, request: Request, action: Action) -> None:
        if len(request.body) > action.body_bytes:
            raise AwsError("RequestEntityTooLarge", f"The body may have {action.body_bytes} bytes.", status=413)
        if request.method == "GET" and self._authenticator.mode is Mode.OPEN and not action.by_link:
            _check_get(request)


def _check_get(request: Request) -> None:
    """Without authentication any page could have a browser load the URL of an action that changes something."""
    if not _is_signed(request) or made_for_another_site(request):
        raise SignatureFault(
            "MissingAuthenticationToken",
            "Request is missing Authentication Token: a GET that changes something must be signed",
        )


def _form(request: Request) -> bytes | bytearray:
    return request.body if request.method == "POST" else b""


async def _in_turn(request: Request, read: Callable[..., Result], *given: Any) -> Result:
    """Read a large form in a thread, so that other requests are served meanwhile."""
    if len(request.body) <= LARGE_BODY:
        return read(*given)
    return await asyncio.to_thread(read, *given)


def _is_signed(request: Request) -> bool:
    """Whether there is anything to verify."""
    return b"authorization" in request.found or b"X-Amz-Credential=" in request.query


def _query_protocol(request: Request) -> Protocol:
    if request.method == "GET" and b"application/json" in request.found.get(b"accept", b""):
        return Protocol.QUERY_JSON
    return Protocol.QUERY


def _explained(error: Exception, service: Service, call: Call) -> AwsError:
    if isinstance(error, AwsError):
        return error
    if isinstance(error, SignatureFault):
        return _signature_error(error)
    known = service.explain(error, call)
    if known is not None:
        return known
    log.error("request failed", exc_info=error, extra={"request_id": call.request.request_id})
    return internal()


def _signature_error(error: SignatureFault) -> AwsError:
    return AwsError(error.code, error.message, status=error.status)


async def _admitted(call: Call, pending: Awaitable[None]) -> Response | None:
    try:
        await pending
    except SignatureFault as error:
        return call.fault(_signature_error(error))
    return None


def _late_fault(error: Exception, request_id: str) -> Response:
    """What the connection itself has to say: too busy, too late, stopping. Nobody has asked in which protocol."""
    if isinstance(error, Refusal):
        return aws_json.fault(AwsError(error.code, error.message, status=error.status), request_id)
    return aws_json.fault(AwsError("ServiceUnavailable", str(error), status=503), request_id)
