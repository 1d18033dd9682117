"""Mobile applications and their devices: kept and shown. What is published to a device goes to the outbox."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from uuid import uuid4

from penstock.engine.topics.outbox import Records
from penstock.model import Scope
from penstock.model.arns import sns_arn
from penstock.model.outbox import Record, RecordKind
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.errors import constraint, invalid, not_found, sns_error
from penstock.wire.sns.names import PAGE, page_start, page_token, resource_in
from penstock.wire.sns.policies import ATTRIBUTE_BYTES

PLATFORMS = (
    "ADM", "APNS", "APNS_SANDBOX", "APNS_VOIP", "APNS_VOIP_SANDBOX", "BAIDU", "GCM", "MACOS", "MACOS_SANDBOX",
    "MPNS", "WNS",
)  # fmt: skip
SECRETS = ("PlatformCredential", "PlatformPrincipal")
"""Asked for, and not kept: nothing is ever sent with them."""
OF_APPLICATION = frozenset(
    {
        *SECRETS, "ApplePlatformBundleID", "ApplePlatformTeamID", "Enabled", "EventDeliveryFailure",
        "EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated", "FailureFeedbackRoleArn",
        "SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate",
    }
)  # fmt: skip
OF_ENDPOINT = frozenset({"CustomUserData", "Enabled", "Token"})
USER_DATA_BYTES = 2048

_NAME = re.compile(r"[A-Za-z0-9._-]*")
_SLASHES = "Wrong number of slashes in relative portion of the ARN."
_APPLICATION, _ENDPOINT = RecordKind.APPLICATION, RecordKind.ENDPOINT


class Applications:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def create(self, call: Call, given: shapes.CreatePlatformApplication) -> shapes.ApplicationArn:
        call.principal.require(Scope.MANAGE)
        _check_name(given.name or "")
        if given.platform is None:
            raise constraint(None, "platform", "not be null")
        if given.platform not in PLATFORMS:
            raise invalid("Platform", f"{given.platform} is not supported")
        attributes = {"Enabled": "true"} | _application_attributes(given.attributes)
        _check_secrets(given.platform, attributes)
        kept = {name: value for name, value in attributes.items() if name not in SECRETS}
        name = f"{given.platform}/{given.name}"
        record, created = await self._records.add(call.tenant, _APPLICATION, name, kept)
        if not created and record.attributes != kept:
            raise invalid("Name", "An application with the same name but different properties already exists")
        return shapes.ApplicationArn(platform_application_arn=_application_arn(call, record))

    async def delete(self, call: Call, given: shapes.OfApplication) -> None:
        call.principal.require(Scope.MANAGE)
        name = _application_in(call, given.platform_application_arn)
        await self._records.drop(call.tenant, _ENDPOINT, prefix=f"{name}/")
        await self._records.drop(call.tenant, _APPLICATION, name=name)

    async def list(self, call: Call, given: shapes.Page) -> shapes.ApplicationList:
        call.principal.require(Scope.READ)
        after = page_start(given.next_token)
        found = await self._records.list(call.tenant, _APPLICATION, after=after, limit=PAGE + 1)
        return shapes.ApplicationList(
            platform_applications=[
                shapes.ListedApplication(
                    platform_application_arn=_application_arn(call, record), attributes=record.attributes
                )
                for record in found[:PAGE]
            ],
            next_token=_next_page(found),
        )

    async def get_attributes(self, call: Call, given: shapes.OfApplication) -> shapes.Attributes:
        call.principal.require(Scope.READ)
        return shapes.Attributes(attributes=(await self._find(call, given.platform_application_arn)).attributes)

    async def set_attributes(self, call: Call, given: shapes.SetApplicationAttributes) -> None:
        call.principal.require(Scope.MANAGE)
        name = _application_in(call, given.platform_application_arn)
        changes = {key: value for key, value in _application_attributes(given.attributes).items() if key not in SECRETS}
        if await self._records.update(call.tenant, _APPLICATION, name, changes) is None:
            raise no_application()

    async def _find(self, call: Call, arn: str | None) -> Record:
        record = await self._records.find(call.tenant, _APPLICATION, _application_in(call, arn))
        if record is None:
            raise no_application()
        return record

    # Devices

    async def create_endpoint(self, call: Call, given: shapes.CreatePlatformEndpoint) -> shapes.EndpointArn:
        call.principal.require(Scope.MANAGE)
        application = await self._find(call, given.platform_application_arn)
        if not given.token:
            raise invalid("Token", "cannot be empty")
        attributes = {"Enabled": "true", "Token": given.token}
        if given.custom_user_data is not None:
            attributes["CustomUserData"] = given.custom_user_data
        attributes |= given.attributes or {}
        _check_endpoint(attributes)
        handle = _handle(application.name, attributes["Token"])
        name = f"{application.name}/{uuid4()}"
        record, created = await self._records.add(call.tenant, _ENDPOINT, name, attributes, handle)
        arn = _endpoint_arn(call, record)
        if not created and record.attributes != attributes:
            reason = f"Endpoint {arn} already exists with the same Token, but different attributes."
            raise invalid("Token", reason)
        return shapes.EndpointArn(endpoint_arn=arn)

    async def delete_endpoint(self, call: Call, given: shapes.OfEndpoint) -> None:
        call.principal.require(Scope.MANAGE)
        await self._records.drop(call.tenant, _ENDPOINT, name=_endpoint_in(call, given.endpoint_arn))

    async def list_endpoints(self, call: Call, given: shapes.ListEndpoints) -> shapes.EndpointList:
        call.principal.require(Scope.READ)
        application = await self._find(call, given.platform_application_arn)
        after = page_start(given.next_token)
        prefix = f"{application.name}/"
        found = await self._records.list(call.tenant, _ENDPOINT, prefix=prefix, after=after, limit=PAGE + 1)
        return shapes.EndpointList(
            endpoints=[
                shapes.ListedEndpoint(endpoint_arn=_endpoint_arn(call, record), attributes=record.attributes)
                for record in found[:PAGE]
            ],
            next_token=_next_page(found),
        )

    async def get_endpoint(self, call: Call, given: shapes.OfEndpoint) -> shapes.Attributes:
        call.principal.require(Scope.READ)
        record = await self._find_endpoint(call, given.endpoint_arn)
        if record is None:
            raise no_endpoint()
        return shapes.Attributes(attributes=record.attributes)

    async def set_endpoint(self, call: Call, given: shapes.SetEndpointAttributes) -> None:
        call.principal.require(Scope.MANAGE)
        name = _endpoint_in(call, given.endpoint_arn)
        if not given.attributes:
            raise constraint(None, "attributes", "not be null")
        _check_endpoint(given.attributes)
        token = given.attributes.get("Token")
        handle = None if token is None else _handle(name.rpartition("/")[0], token)
        if await self._records.update(call.tenant, _ENDPOINT, name, given.attributes, handle) is None:
            raise no_endpoint()

    async def reachable(self, call: Call, arn: str) -> str:
        """The platform of a device, unless nothing may be published to it."""
        record = await self._find_endpoint(call, arn)
        if record is None:
            raise invalid("TargetArn", "No endpoint found for the target arn specified")
        if record.attributes.get("Enabled", "").lower() != "true":
            raise sns_error("EndpointDisabledException", "Endpoint is disabled")
        name = record.name.rpartition("/")[0]
        application = await self._records.find(call.tenant, _APPLICATION, name)
        if application is not None and application.attributes.get("Enabled", "").lower() != "true":
            raise sns_error("PlatformApplicationDisabledException", "Platform application is disabled")
        return name.partition("/")[0]

    async def _find_endpoint(self, call: Call, arn: str | None) -> Record | None:
        return await self._records.find(call.tenant, _ENDPOINT, _endpoint_in(call, arn))


def no_application() -> AwsError:
    return not_found("PlatformApplication does not exist")


def no_endpoint() -> AwsError:
    return not_found("Endpoint does not exist")


def _application_arn(call: Call, record: Record) -> str:
    return sns_arn(call.region, f"app/{record.name}")


def _endpoint_arn(call: Call, record: Record) -> str:
    return sns_arn(call.region, f"endpoint/{record.name}")


def _application_in(call: Call, arn: str | None) -> str:
    return _within(resource_in(call, arn, "PlatformApplicationArn"), "app", 2, "PlatformApplicationArn")


def _endpoint_in(call: Call, arn: str | None) -> str:
    return _within(resource_in(call, arn, "EndpointArn"), "endpoint", 3, "EndpointArn")


def _within(resource: str, first: str, slashes: int, parameter: str) -> str:
    if resource.count("/") != slashes:
        raise invalid(parameter, _SLASHES)
    kind, _, name = resource.partition("/")
    if kind != first or "\0" in name:
        raise invalid(parameter)
    return name


def _next_page(found: Sequence[Record]) -> str | None:
    return page_token(found[PAGE - 1].name) if len(found) > PAGE else None


def _handle(application: str, token: str) -> str:
    """A device has one token, and no two devices of an application share one."""
    return f"{application}#{sha256(token.encode()).hexdigest()}"


def _check_name(name: str) -> None:
    reason = ""
    if not name:
        reason = "cannot be empty"
    elif len(name) > 256:
        reason = "must be at most 256 characters long"
    elif _NAME.fullmatch(name) is None:
        reason = "must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"
    if reason:
        raise invalid(name, reason)


def _application_attributes(given: Mapping[str, str] | None) -> dict[str, str]:
    if not given:
        raise constraint(None, "attributes", "not be null")
    for name, value in given.items():
        if name not in OF_APPLICATION:
            raise invalid("Attributes", f"Invalid attribute name: {name}")
        if name.endswith("SampleRate") and not (value.isascii() and value.isdecimal() and int(value[:9]) <= 100):
            reason = f"Invalid value for attribute: {name}: {value} value provided is not an integer between 0-100"
            raise invalid("Attributes", reason)
        _check_size(name, value)
    return dict(given)


def _check_size(name: str, value: str) -> None:
    if len(value.encode()) > ATTRIBUTE_BYTES:
        reason = f"must be at most {ATTRIBUTE_BYTES} bytes long in UTF-8 encoding"
        raise invalid("Attributes", f"Invalid value for attribute: {name}: {reason}")


def _check_secrets(platform: str, given: Mapping[str, str]) -> None:
    credential, principal = SECRETS
    if credential in given and principal not in given and platform != "GCM":
        raise invalid("Attributes", f"{credential} attribute provided without {principal}")
    if principal in given and credential not in given:
        raise invalid("Attributes", f"{principal} attribute provided without {credential}")


def _check_endpoint(attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        if name not in OF_ENDPOINT:
            raise invalid("Attributes", f"Invalid attribute name: {name}")
        if name == "Token" and not value:
            raise invalid("Attributes", "Invalid value for attribute: Token: cannot be empty")
        if name == "CustomUserData" and len(value.encode()) > USER_DATA_BYTES:
            reason = "must be at most 2048 bytes long in UTF-8 encoding"
            raise invalid("Attributes", f"Invalid value for attribute: CustomUserData: {reason}")
        if name == "Enabled" and value.lower() not in ("true", "false"):
            raise invalid("Attributes", "Invalid value for attribute: Enabled: must be true or false")
        _check_size(name, value)
