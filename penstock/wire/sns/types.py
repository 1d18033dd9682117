"""The shapes of SNS: what each action is given, and what it answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from penstock.wire.aws.shapes import Given, Named, Result

Texts = dict[str, str]


class Empty(Result, kw_only=True):
    """The answer of actions that have nothing to say, but say so."""


class Nothing(Given, kw_only=True):
    """The input of actions that need none."""


# Topics


class Tag(Given, kw_only=True):
    key: str | None = None
    value: str | None = None


class OfTopic(Given, kw_only=True):
    topic_arn: str | None = None


class OfResource(Given, kw_only=True):
    resource_arn: str | None = None


class CreateTopic(Given, kw_only=True):
    name: str | None = None
    attributes: dict[str, str | None] | None = None
    tags: list[Tag] | None = None
    data_protection_policy: str | None = None


class TopicCreated(Result, kw_only=True):
    topic_arn: str


class Page(Given, kw_only=True):
    next_token: str | None = None


class ListedTopic(Result, kw_only=True):
    topic_arn: str


class TopicList(Result, kw_only=True):
    topics: list[ListedTopic]
    next_token: str | None = None


class Attributes(Result, kw_only=True):
    attributes: Texts


class SetTopicAttributes(OfTopic, kw_only=True):
    attribute_name: str | None = None
    attribute_value: str | None = None


class TagResource(OfResource, kw_only=True):
    tags: list[Tag] | None = None


class UntagResource(OfResource, kw_only=True):
    tag_keys: list[str] | None = None


class ListedTag(Result, kw_only=True):
    key: str
    value: str


class TagList(Result, kw_only=True):
    tags: list[ListedTag]


class AddPermission(OfTopic, kw_only=True):
    label: str | None = None
    account_ids: list[str] | None = field(default=None, name="AWSAccountId")
    actions: list[str] | None = field(default=None, name="ActionName")


class RemovePermission(OfTopic, kw_only=True):
    label: str | None = None


class PutDataProtectionPolicy(OfResource, kw_only=True):
    data_protection_policy: str | None = None


class DataProtectionPolicy(Result, kw_only=True):
    data_protection_policy: str


# Subscriptions


class Subscribe(OfTopic, kw_only=True):
    protocol: str | None = None
    endpoint: str | None = None
    attributes: dict[str, str | None] | None = None
    return_subscription_arn: bool | None = None


class OfSubscription(Given, kw_only=True):
    subscription_arn: str | None = None


class SubscriptionArn(Result, kw_only=True):
    subscription_arn: str


class ConfirmSubscription(OfTopic, kw_only=True):
    token: str | None = None
    authenticate_on_unsubscribe: str | None = None


class SetSubscriptionAttributes(OfSubscription, kw_only=True):
    attribute_name: str | None = None
    attribute_value: str | None = None


class ListSubscriptionsByTopic(OfTopic, kw_only=True):
    next_token: str | None = None


class ListedSubscription(Result, kw_only=True):
    subscription_arn: str
    owner: str
    protocol: str
    endpoint: str
    topic_arn: str


class SubscriptionList(Result, kw_only=True):
    subscriptions: list[ListedSubscription]
    next_token: str | None = None


# Publishing


class SentAttribute(Given, kw_only=True):
    data_type: str | None = None
    string_value: str | None = None
    binary_value: bytes | None = None


class NewMessage(Given, kw_only=True):
    """What Publish and an entry of PublishBatch have in common."""

    message: str | None = None
    subject: str | None = None
    message_structure: str | None = None
    message_attributes: Annotated[dict[str, SentAttribute], Named("entry", "Name", "Value", flat=False)] | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class Publish(NewMessage, kw_only=True):
    topic_arn: str | None = None
    target_arn: str | None = None
    phone_number: str | None = None


class Published(Result, kw_only=True):
    message_id: str
    sequence_number: str | None = None


class PublishEntry(NewMessage, kw_only=True):
    id: str | None = None


class PublishBatch(OfTopic, kw_only=True):
    entries: list[PublishEntry] | None = field(default=None, name="PublishBatchRequestEntries")


class PublishedEntry(Published, kw_only=True):
    id: str


class FailedEntry(Result, kw_only=True):
    id: str
    code: str
    message: str
    sender_fault: bool


class PublishedBatch(Result, kw_only=True):
    successful: list[PublishedEntry]
    failed: list[FailedEntry]


# Mobile applications and their devices


class OfApplication(Given, kw_only=True):
    platform_application_arn: str | None = None


class CreatePlatformApplication(Given, kw_only=True):
    name: str | None = None
    platform: str | None = None
    attributes: Texts | None = None


class ApplicationArn(Result, kw_only=True):
    platform_application_arn: str


class SetApplicationAttributes(OfApplication, kw_only=True):
    attributes: Texts | None = None


class ListedApplication(Result, kw_only=True):
    platform_application_arn: str
    attributes: Texts


class ApplicationList(Result, kw_only=True):
    platform_applications: list[ListedApplication]
    next_token: str | None = None


class CreatePlatformEndpoint(OfApplication, kw_only=True):
    token: str | None = None
    custom_user_data: str | None = None
    attributes: Texts | None = None


class OfEndpoint(Given, kw_only=True):
    endpoint_arn: str | None = None


class EndpointArn(Result, kw_only=True):
    endpoint_arn: str


class SetEndpointAttributes(OfEndpoint, kw_only=True):
    attributes: Texts | None = None


class ListEndpoints(OfApplication, kw_only=True):
    next_token: str | None = None


class ListedEndpoint(Result, kw_only=True):
    endpoint_arn: str
    attributes: Texts


class EndpointList(Result, kw_only=True):
    endpoints: list[ListedEndpoint]
    next_token: str | None = None


# Phones. Amazon writes some of these names with a small letter.


class OfNumber(Given, kw_only=True):
    phone_number: str | None = field(default=None, name="phoneNumber")


class OptedOut(Result, kw_only=True):
    is_opted_out: bool = field(name="isOptedOut")


class SmallPage(Given, kw_only=True):
    next_token: str | None = field(default=None, name="nextToken")


class OptedOutList(Result, kw_only=True):
    phone_numbers: list[str] = field(name="phoneNumbers")
    next_token: str | None = field(default=None, name="nextToken")


class SetSmsAttributes(Given, kw_only=True):
    attributes: Texts | None = field(default=None, name="attributes")


class GetSmsAttributes(Given, kw_only=True):
    attributes: list[str] | None = field(default=None, name="attributes")


class SmsAttributes(Result, kw_only=True):
    attributes: Texts = field(name="attributes")


class CreateSandboxNumber(Given, kw_only=True):
    phone_number: str | None = None
    language_code: str | None = None


class DeleteSandboxNumber(Given, kw_only=True):
    phone_number: str | None = None


class VerifySandboxNumber(Given, kw_only=True):
    phone_number: str | None = None
    one_time_password: str | None = None


class SandboxStatus(Result, kw_only=True):
    is_in_sandbox: bool


class LimitedPage(Page, kw_only=True):
    max_results: int | None = None


class SandboxNumber(Result, kw_only=True):
    phone_number: str
    status: str


class SandboxList(Result, kw_only=True):
    phone_numbers: list[SandboxNumber]
    next_token: str | None = None


class OriginationList(Result, kw_only=True):
    phone_numbers: list[SandboxNumber]
    next_token: str | None = None
