"""Phones: settings of text messages, numbers that opted out, the sandbox. No message leaves the machine."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping

from penstock.engine.topics.outbox import Outbox, Records
from penstock.model import Scope, TenantId
from penstock.model.outbox import Channel, NewOutboxItem, RecordKind
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.endpoints import PHONE
from penstock.wire.sns.errors import constraint, invalid, sns_error
from penstock.wire.sns.names import PAGE, page_start, page_token

SETTINGS = (
    "MonthlySpendLimit", "DeliveryStatusIAMRole", "DeliveryStatusSuccessSamplingRate", "DefaultSenderID",
    "DefaultSMSType", "UsageReportS3Bucket",
)  # fmt: skip
DEFAULTS = {"MonthlySpendLimit": "1"}
SMS_TYPES = ("Promotional", "Transactional")
LANGUAGES = (
    "en-US", "en-GB", "es-419", "es-ES", "de-DE", "fr-CA", "fr-FR", "it-IT", "ja-JP", "pt-BR", "kr-KR", "zh-CN",
    "zh-TW",
)  # fmt: skip
SANDBOX_NUMBERS = 10
"""As many numbers an account may verify."""

_SENDER = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]{1,11}")
_SANDBOX_NUMBER = re.compile(r"\+[0-9]{8,}|[0-9]{0,9}")
_PASSWORD = re.compile(r"[0-9]+")
_VERIFIED, _PENDING = "Verified", "Pending"
_NAME = "settings"


class Phones:
    def __init__(self, records: Records, outbox: Outbox) -> None:
        self._records = records
        self._outbox = outbox

    # Settings

    async def set_attributes(self, call: Call, given: shapes.SetSmsAttributes) -> shapes.Empty:
        call.principal.require(Scope.MANAGE)
        if not given.attributes:
            raise constraint(None, "attributes", "not be null")
        _check_settings(given.attributes)
        await self._records.put(call.tenant, RecordKind.SMS_SETTINGS, _NAME, given.attributes)
        return shapes.Empty()

    async def get_attributes(self, call: Call, given: shapes.GetSmsAttributes) -> shapes.SmsAttributes:
        call.principal.require(Scope.READ)
        record = await self._records.find(call.tenant, RecordKind.SMS_SETTINGS, _NAME)
        have = DEFAULTS | (record.attributes if record is not None else {})
        asked = given.attributes or list(have)
        return shapes.SmsAttributes(attributes={name: value for name, value in have.items() if name in asked})

    # Numbers that want nothing

    async def is_opted_out(self, tenant: TenantId, number: str) -> bool:
        return await self._records.find(tenant, RecordKind.OPTED_OUT, number) is not None

    async def check_opted_out(self, call: Call, given: shapes.OfNumber) -> shapes.OptedOut:
        call.principal.require(Scope.READ)
        return shapes.OptedOut(is_opted_out=await self.is_opted_out(call.tenant, _number(given.phone_number)))

    async def list_opted_out(self, call: Call, given: shapes.SmallPage) -> shapes.OptedOutList:
        call.principal.require(Scope.READ)
        after = page_start(given.next_token)
        found = await self._records.list(call.tenant, RecordKind.OPTED_OUT, after=after, limit=PAGE + 1)
        numbers = [record.name for record in found[:PAGE]]
        return shapes.OptedOutList(
            phone_numbers=numbers, next_token=page_token(numbers[-1]) if len(found) > PAGE else None
        )

    async def opt_in(self, call: Call, given: shapes.OfNumber) -> shapes.Empty:
        call.principal.require(Scope.MANAGE)
        await self._records.drop(call.tenant, RecordKind.OPTED_OUT, name=_number(given.phone_number))
        return shapes.Empty()

    # The sandbox

    async def create_sandbox_number(self, call: Call, given: shapes.CreateSandboxNumber) -> shapes.Empty:
        call.principal.require(Scope.MANAGE)
        number = _sandbox_number(given.phone_number)
        if given.language_code is not None and given.language_code not in LANGUAGES:
            rule = f"satisfy enum value set: [{', '.join(LANGUAGES)}]"
            raise constraint(given.language_code, "languageCode", rule)
        if await self.is_opted_out(call.tenant, number):
            raise sns_error("OptedOutException", f"The phone number {number} is opted out")
        have = await self._records.list(call.tenant, RecordKind.SANDBOX_NUMBER, limit=SANDBOX_NUMBERS)
        if len(have) >= SANDBOX_NUMBERS and all(record.name != number for record in have):
            text = f"The number of destination phone numbers is limited to {SANDBOX_NUMBERS} in the SMS sandbox"
            raise sns_error("UserErrorException", text)
        password = f"{secrets.randbelow(10**6):06}"
        fresh = {"Status": _PENDING, "Password": password}
        await self._records.put(call.tenant, RecordKind.SANDBOX_NUMBER, number, fresh)
        await self._outbox.add(
            [
                NewOutboxItem(
                    tenant=call.tenant,
                    channel=Channel.SMS,
                    address=number,
                    message_id=call.request_id,
                    body=f"Your verification code is {password}",
                )
            ]
        )
        return shapes.Empty()

    async def verify_sandbox_number(self, call: Call, given: shapes.VerifySandboxNumber) -> shapes.Empty:
        call.principal.require(Scope.MANAGE)
        number, password = _sandbox_number(given.phone_number), _password(given.one_time_password)
        record = await self._records.find(call.tenant, RecordKind.SANDBOX_NUMBER, number)
        if record is None:
            raise _no_number()
        if not hmac.compare_digest(password.encode(), record.attributes.get("Password", "").encode()):
            raise sns_error("VerificationException", "The one-time password is not valid")
        changes = {"Status": _VERIFIED, "Password": ""}
        await self._records.update(call.tenant, RecordKind.SANDBOX_NUMBER, number, changes)
        return shapes.Empty()

    async def delete_sandbox_number(self, call: Call, given: shapes.DeleteSandboxNumber) -> shapes.Empty:
        call.principal.require(Scope.MANAGE)
        number = _sandbox_number(given.phone_number)
        if not await self._records.drop(call.tenant, RecordKind.SANDBOX_NUMBER, name=number):
            raise _no_number()
        return shapes.Empty()

    async def list_sandbox_numbers(self, call: Call, given: shapes.LimitedPage) -> shapes.SandboxList:
        call.principal.require(Scope.READ)
        limit = _results(given.max_results, PAGE)
        after = page_start(given.next_token)
        found = await self._records.list(call.tenant, RecordKind.SANDBOX_NUMBER, after=after, limit=limit + 1)
        page = found[:limit]
        return shapes.SandboxList(
            phone_numbers=[
                shapes.SandboxNumber(phone_number=record.name, status=record.attributes.get("Status", _PENDING))
                for record in page
            ],
            next_token=page_token(page[-1].name) if len(found) > limit else None,
        )

    async def sandbox_status(self, call: Call, given: shapes.Nothing) -> shapes.SandboxStatus:
        call.principal.require(Scope.READ)
        return shapes.SandboxStatus(is_in_sandbox=True)

    async def list_origination_numbers(self, call: Call, given: shapes.LimitedPage) -> shapes.OriginationList:
        call.principal.require(Scope.READ)
        _results(given.max_results, 30)
        page_start(given.next_token)
        return shapes.OriginationList(phone_numbers=[])


def _number(given: str | None) -> str:
    if given is None or PHONE.fullmatch(given) is None:
        raise invalid("PhoneNumber", "input incorrectly formatted")
    return given


def _sandbox_number(given: str | None) -> str:
    if given is None:
        raise constraint(None, "phoneNumber", "not be null")
    if len(given) > 20:
        raise constraint(given, "phoneNumber", "have length less than or equal to 20")
    if not given or _SANDBOX_NUMBER.fullmatch(given) is None:
        rule = r"satisfy regular expression pattern: ^(\+[0-9]{8,}|[0-9]{0,9})$"
        raise constraint(given, "phoneNumber", rule)
    return given


def _password(given: str | None) -> str:
    if given is None:
        raise constraint(None, "oneTimePassword", "not be null")
    if not 5 <= len(given) <= 8:
        bound = "greater than or equal to 5" if len(given) < 5 else "less than or equal to 8"
        raise constraint(given, "oneTimePassword", f"have length {bound}")
    if _PASSWORD.fullmatch(given) is None:
        raise constraint(given, "oneTimePassword", "satisfy regular expression pattern: ^[0-9]+$")
    return given


def _results(given: int | None, most: int) -> int:
    if given is None:
        return most
    if not 1 <= given <= most:
        rule = "greater than or equal to 1" if given < 1 else f"less than or equal to {most}"
        raise constraint(str(given), "maxResults", f"have value {rule}")
    return given


def _no_number() -> AwsError:
    return sns_error("ResourceNotFoundException", "Requested Resource does not exist")


def _check_settings(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if name not in SETTINGS:
            raise sns_error("InvalidParameterException", f"{name} is not a valid attribute")
        rate = name == "DeliveryStatusSuccessSamplingRate"
        if (
            (name == "DefaultSenderID" and value and _SENDER.fullmatch(value) is None)
            or (name == "DefaultSMSType" and value not in SMS_TYPES)
            or (name == "MonthlySpendLimit" and not (value.isascii() and value.isdecimal()))
            or (rate and not (value.isascii() and value.isdecimal() and int(value[:9]) <= 100))
        ):
            raise sns_error("InvalidParameterException", f"{name} is invalid")
