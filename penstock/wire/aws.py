"""What the AWS doors share: one address for several services, two protocols, and who is calling.

A request is read into a `Call` and the Struct of its action, the action answers with a Struct, and the protocol the
caller spoke writes it down. A service brings its actions and the words for its errors; it never sees a protocol but
to choose between two texts.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from penstock.auth import Principal
from penstock.engine.tenants import HOME_REGION, Tenants
from penstock.model import DEFAULT_TENANT, TenantId
from penstock.wire import aws_json, aws_query, aws_xml
from penstock.wire.aws_errors import AwsError, internal, invalid_action, unknown_operation
from penstock.wire.http import Refusal, Request, Response, Route
from penstock.wire.signature import AwsAuthenticator, Caller, SignatureFault

log = logging.getLogger("penstock.http")

NOBODY = Principal(DEFAULT_TENANT, frozenset(), queues="", name="nobody")
"""Who calls without any credentials, where an action lets them."""
ACCOUNT = "000000000000"
"""Of every queue and topic. Any other is accepted in a path or an ARN, and means this one."""
BODY_BYTES = 16_777_216
"""Room for the largest message or batch, escaped."""

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

    __slots__ = ("action", "namespace", "path", "principal", "protocol", "region", "request", "request_id", "tenant")

    principal: Principal
    tenant: TenantId
    region: str

    def __init__(self, request: Request, protocol: Protocol) -> None:
        self.request = request
        self.protocol = protocol
        self.request_id = new_request_id()
        self.action = ""
        self.namespace = ""
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
            return aws_xml.fault(error, self.request_id, self.namespace)
        return aws_xml.json_fault(error, self.request_id)

    @property
    def query(self) -> bool:
        return self.protocol is not Protocol.JSON


Perform = Callable[[Call, Any], Awaitable[Struct | None]]


class Action:
    """A named action: the Struct it is given, and what performs it."""

    __slots__ = ("decoder", "everywhere", "given", "name", "perform", "unsigned")

    def __init__(
        self, name: str, given: type[Struct], perform: Perform, *, everywhere: bool = True, unsigned: bool = False
    ) -> None:
        self.name = name
        self.given = given
        self.perform = perform
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(given)
        self.everywhere = everywhere
        """Served at the address of a single queue too."""
        self.unsigned = unsigned
        """Served to `NOBODY` too: what it is given proves enough."""


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
            return Route(method, path, self.serve, fault=_late_fault, body_bytes=BODY_BYTES, open=True, **more)

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
        return self._perform(call, found[0], found[1], None)

    def _serve_query(self, request: Request) -> Response | Awaitable[Response]:
        call = Call(request, _query_protocol(request))
        call.namespace = self._services[0].namespace
        try:
            parameters = aws_query.parse(request.query, request.body if request.method == "POST" else b"")
            service, action = self._find(parameters, request)
            call.namespace = service.namespace
            if request.arguments:
                if not action.everywhere:
                    raise invalid_action(action.name)
                call.path = request.arguments[-1]
        except AwsError as error:
            return call.fault(error)
        return self._perform(call, service, action, parameters)

    def _find(self, parameters: aws_query.Parameters, request: Request) -> tuple[Service, Action]:
        name = parameters.get("Action")
        if not name:
            raise unknown_operation()
        found = [(service, service.actions[name]) for service in self._services if name in service.actions]
        if not found:
            raise invalid_action(name)
        if len(found) > 1 and not request.arguments:
            scope = request.found.get(b"authorization", b"")
            for service, action in found:
                if service.version == parameters.get("Version") or f"/{service.name}/aws4_request".encode() in scope:
                    return service, action
        return found[0]

    async def _perform(
        self, call: Call, service: Service, action: Action, parameters: aws_query.Parameters | None
    ) -> Response:
        request = call.request
        call.action = action.name
        try:
            if action.unsigned and not _is_signed(request):
                caller: Caller | None = (NOBODY, HOME_REGION)
            else:
                caller = self._authenticator.remembered(request, service.name)
            if caller is None:
                caller = await self._authenticator.principal(request, service.name)
            call.principal, call.region = caller
            call.tenant = call.principal.tenant
            if call.region != HOME_REGION:
                call.tenant = await self._tenants.in_region(call.tenant, call.region)
            if parameters is None:
                given = aws_json.read(action.decoder, request.body)
            else:
                given = aws_query.read(action.given, parameters)
            return call.answer(await action.perform(call, given))
        except Exception as error:
            return call.fault(_explained(error, service, call))


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
        return AwsError(error.code, error.message, status=error.status)
    known = service.explain(error, call)
    if known is not None:
        return known
    log.error("request failed", exc_info=error, extra={"request_id": call.request.request_id})
    return internal()


def _late_fault(error: Exception, request_id: str) -> Response:
    """What the connection itself has to say: too busy, too late, stopping. Nobody has asked in which protocol."""
    if isinstance(error, Refusal):
        return aws_json.fault(AwsError("RequestTimeout", error.message, status=error.status), request_id)
    return aws_json.fault(AwsError("ServiceUnavailable", str(error), status=503), request_id)


# Resource names


class Arn(NamedTuple):
    partition: str
    service: str
    region: str
    account: str
    resource: str

    def __str__(self) -> str:
        return ":".join(("arn", *self))


def parse_arn(text: str) -> Arn | None:
    parts = text.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn" or not all(parts):
        return None
    return Arn(*parts[1:])


def partition_of(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
