"""The SNS door: its forty-two actions, and the certificate that its notices are verified with."""

from __future__ import annotations

from msgspec import Struct

from penstock.engine import Engine
from penstock.engine.topics.notices import CERTIFICATE_NAME, Signer
from penstock.wire.aws.gateway import Action, Perform, Service
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Route
from penstock.wire.sns import types as shapes
from penstock.wire.sns.errors import explain
from penstock.wire.sns.platform import Applications
from penstock.wire.sns.publish import Publishing
from penstock.wire.sns.sms import Phones
from penstock.wire.sns.subscriptions import SubscriptionActions
from penstock.wire.sns.tags import TagActions
from penstock.wire.sns.topics import TopicActions

NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
TARGET = "AmazonSimpleNotificationService"
SHORT_TARGET = "AmazonSNS"
PEM = b"application/x-pem-file"


def service(
    engine: Engine, *, base_url: str | None = None, auto_confirm: bool = False, strict: bool = False
) -> Service:
    """SNS in front of an engine.

    `auto_confirm`: subscriptions need no confirmation. `strict`: queues are subscribed by ARN only, as at AWS.
    """
    actions = [
        *_topic_actions(engine),
        *_subscription_actions(engine, base_url, auto_confirm, strict),
        *_outbox_actions(engine, base_url),
    ]
    return Service(
        "sns",
        TARGET,
        NAMESPACE,
        {action.name: action for action in actions},
        explain,
        version="2010-03-31",
        also=(SHORT_TARGET,),
    )


def _topic_actions(engine: Engine) -> list[Action]:
    topics, tags = TopicActions(engine.topics), TagActions(engine.topics)
    return [
        Action("AddPermission", shapes.AddPermission, tags.add_permission, everywhere=False),
        Action("CreateTopic", shapes.CreateTopic, topics.create, everywhere=False),
        Action("DeleteTopic", shapes.OfTopic, topics.delete, everywhere=False),
        Action("GetDataProtectionPolicy", shapes.OfResource, topics.get_data_protection, everywhere=False),
        Action("GetTopicAttributes", shapes.OfTopic, topics.get_attributes, everywhere=False),
        Action("ListTagsForResource", shapes.OfResource, tags.list_tags, everywhere=False),
        Action("ListTopics", shapes.Page, topics.list, everywhere=False),
        Action("PutDataProtectionPolicy", shapes.PutDataProtectionPolicy, topics.put_data_protection, everywhere=False),
        Action("RemovePermission", shapes.RemovePermission, tags.remove_permission, everywhere=False),
        Action("SetTopicAttributes", shapes.SetTopicAttributes, topics.set_attributes, everywhere=False),
        Action("TagResource", shapes.TagResource, tags.tag, everywhere=False),
        Action("UntagResource", shapes.UntagResource, tags.untag, everywhere=False),
    ]


def _subscription_actions(engine: Engine, base_url: str | None, auto_confirm: bool, strict: bool) -> list[Action]:
    subscriptions = SubscriptionActions(engine, base_url, auto_confirm=auto_confirm, strict=strict)
    set_attributes = shapes.SetSubscriptionAttributes
    by_topic = shapes.ListSubscriptionsByTopic
    confirm, leave = subscriptions.confirm, subscriptions.unsubscribe
    return [
        Action("ConfirmSubscription", shapes.ConfirmSubscription, confirm, everywhere=False, unsigned=True),
        Action("GetSubscriptionAttributes", shapes.OfSubscription, subscriptions.get_attributes, everywhere=False),
        Action("ListSubscriptions", shapes.Page, subscriptions.list, everywhere=False),
        Action("ListSubscriptionsByTopic", by_topic, subscriptions.list_by_topic, everywhere=False),
        Action("SetSubscriptionAttributes", set_attributes, subscriptions.set_attributes, everywhere=False),
        Action("Subscribe", shapes.Subscribe, subscriptions.subscribe, everywhere=False),
        Action("Unsubscribe", shapes.OfSubscription, leave, everywhere=False, unsigned=True),
    ]


def _outbox_actions(engine: Engine, base_url: str | None) -> list[Action]:
    """Publishing, and what is about phones and mobile applications."""
    applications = Applications(engine.records)
    phones = Phones(engine.records, engine.outbox)
    publishing = Publishing(engine, applications, phones, base_url)
    found: list[tuple[str, type[Struct], Perform]] = [
        ("CheckIfPhoneNumberIsOptedOut", shapes.OfNumber, phones.check_opted_out),
        ("CreatePlatformApplication", shapes.CreatePlatformApplication, applications.create),
        ("CreatePlatformEndpoint", shapes.CreatePlatformEndpoint, applications.create_endpoint),
        ("CreateSMSSandboxPhoneNumber", shapes.CreateSandboxNumber, phones.create_sandbox_number),
        ("DeleteEndpoint", shapes.OfEndpoint, applications.delete_endpoint),
        ("DeletePlatformApplication", shapes.OfApplication, applications.delete),
        ("DeleteSMSSandboxPhoneNumber", shapes.DeleteSandboxNumber, phones.delete_sandbox_number),
        ("GetEndpointAttributes", shapes.OfEndpoint, applications.get_endpoint),
        ("GetPlatformApplicationAttributes", shapes.OfApplication, applications.get_attributes),
        ("GetSMSAttributes", shapes.GetSmsAttributes, phones.get_attributes),
        ("GetSMSSandboxAccountStatus", shapes.Nothing, phones.sandbox_status),
        ("ListEndpointsByPlatformApplication", shapes.ListEndpoints, applications.list_endpoints),
        ("ListOriginationNumbers", shapes.LimitedPage, phones.list_origination_numbers),
        ("ListPhoneNumbersOptedOut", shapes.SmallPage, phones.list_opted_out),
        ("ListPlatformApplications", shapes.Page, applications.list),
        ("ListSMSSandboxPhoneNumbers", shapes.LimitedPage, phones.list_sandbox_numbers),
        ("OptInPhoneNumber", shapes.OfNumber, phones.opt_in),
        ("Publish", shapes.Publish, publishing.publish),
        ("PublishBatch", shapes.PublishBatch, publishing.publish_batch),
        ("SetEndpointAttributes", shapes.SetEndpointAttributes, applications.set_endpoint),
        ("SetPlatformApplicationAttributes", shapes.SetApplicationAttributes, applications.set_attributes),
        ("SetSMSAttributes", shapes.SetSmsAttributes, phones.set_attributes),
        ("VerifySMSSandboxPhoneNumber", shapes.VerifySandboxNumber, phones.verify_sandbox_number),
    ]
    return [Action(name, given, perform, everywhere=False) for name, given, perform in found]


class Certificates:
    """Where subscribers find what verifies a signature. It is public by nature."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def routes(self) -> list[Route]:
        def is_certificate(request: Request) -> bool:
            name = request.arguments[0]
            return name.startswith(CERTIFICATE_NAME) and name.endswith(".pem")

        return [
            Route("GET", "/{certificate}", self.serve, fault=json_fault, open=True, when=is_certificate),
        ]

    async def serve(self, request: Request) -> Response:
        return Response(200, (await self._signer.certificate()).encode(), PEM)
