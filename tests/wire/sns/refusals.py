# ruff: noqa: E501
"""What SNS says no to: action, input, code and message. A row is a line, however long Amazon's words are."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.notifications import queue_arn, topic_arn

TOPIC, FIFO = topic_arn("known"), topic_arn("known.fifo")
NO_TOPIC = topic_arn("unknown")
ELSEWHERE = topic_arn("known", "eu-west-1")
KEY = "8a21d249-4329-4871-acc6-7be709c6ea7f"
NO_SUBSCRIPTION = f"{TOPIC}:{KEY}"
APPLICATION = topic_arn("app/GCM/shop")
NO_APPLICATION = topic_arn("app/GCM/nowhere")
DEVICE = topic_arn(f"endpoint/GCM/shop/{KEY}")
QUEUE = queue_arn("queue")
TEXT = {"DataType": "String", "StringValue": "x"}

INVALID, NOT_FOUND, BAD_ATTRIBUTE = "InvalidParameter", "NotFound", "ParameterValueInvalid"
SIX = "An ARN must have at least 6 elements, not {count}"
NOT_NULL = "1 validation error detected: Value null at '{place}' failed to satisfy constraint: Member must not be null"
GROUP = "Invalid parameter: The MessageGroupId parameter is required for FIFO topics"
DEDUP = (
    "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)
NUMBER_PATTERN = r"^(\+[0-9]{8,}|[0-9]{0,9})$"


def subscribe(**given: Any) -> dict[str, Any]:
    return {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": QUEUE, **given}


def web(**attributes: str) -> dict[str, Any]:
    return subscribe(Protocol="http", Endpoint="http://example.com/hook", Attributes=attributes)


def publish(**given: Any) -> dict[str, Any]:
    return {"TopicArn": TOPIC, "Message": "hello", **given}


def entries(*given: dict[str, Any], topic: str = TOPIC) -> dict[str, Any]:
    return {"TopicArn": topic, "PublishBatchRequestEntries": list(given)}


def entry(number: int | str, **given: Any) -> dict[str, Any]:
    return {"Id": str(number), "Message": "hello", **given}


def tags(*keys: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": "v"} for key in keys]


def retries(**given: Any) -> str:
    policy = {"minDelayTarget": 1, "maxDelayTarget": 2, "numRetries": 3, **given}
    return json.dumps({"healthyRetryPolicy": policy})


def topic_retries(**given: Any) -> str:
    return json.dumps({"http": {"defaultHealthyRetryPolicy": given}})


Row = tuple[str, dict[str, Any], str, str]
ROWS: list[Row] = [
    # Topics
    ("CreateTopic", {}, INVALID, "Invalid parameter: Name Reason: no value for required parameter"),
    ("CreateTopic", {"Name": "@wrong#"}, INVALID, "Invalid parameter: Topic Name"),
    ("CreateTopic", {"Name": "a" * 257}, INVALID, "Invalid parameter: Topic Name"),
    ("CreateTopic", {"Name": "ordered.fifo"}, INVALID, "Invalid parameter: Topic Name"),
    ("CreateTopic", {"Name": "a.b"}, INVALID, "Invalid parameter: Topic Name"),
    ("CreateTopic", {"Name": "t", "Attributes": {"FifoTopic": "true"}}, INVALID, "Invalid parameter: Topic Name"),
    ("CreateTopic", {"Name": "a b.fifo", "Attributes": {"FifoTopic": "true"}}, INVALID, "Invalid parameter: Fifo Topic names must end with .fifo and must be made up of only uppercase and lowercase ASCII letters, numbers, underscores, and hyphens, and must be between 1 and 256 characters long."),
    ("CreateTopic", {"Name": "t", "Attributes": {"Nonsense": "1"}}, INVALID, "Invalid parameter: Attributes Reason: AttributeName"),
    ("CreateTopic", {"Name": "t", "Attributes": {"ContentBasedDeduplication": "true"}}, INVALID, "Invalid parameter: Attributes Reason: AttributeName"),
    ("CreateTopic", {"Name": "t", "Attributes": {"SQSSuccessFeedbackSampleRate": "500"}}, INVALID, "Invalid parameter: Attributes Reason: SQSSuccessFeedbackSampleRate: 500 value provided is not an integer between 0-100"),
    ("CreateTopic", {"Name": "t", "Attributes": {"DeliveryPolicy": topic_retries(numRetries=300)}}, INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: http.defaultHealthyRetryPolicy.numRetries must be less than or equal to 100"),
    ("CreateTopic", {"Name": "t", "Attributes": {"Policy": json.dumps({"Statement": [{"Effect": "Allow", "Action": ["SNS:Publishx"]}]})}}, INVALID, "Invalid parameter: Attributes Reason: Policy statement action out of service scope!"),
    ("CreateTopic", {"Name": "t", "Attributes": {"KmsMasterKeyId": "x" * 30_721}}, INVALID, "Invalid parameter: Attributes Reason: KmsMasterKeyId: the value has more than 30720 bytes"),
    ("SetTopicAttributes", {"TopicArn": TOPIC, "AttributeName": "Policy", "AttributeValue": json.dumps({"Statement": [{"Effect": "Allow", "Action": "*"}]}).ljust(30_721)}, INVALID, "Invalid parameter: Policy: the value has more than 30720 bytes"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "x" * 30_721, "AWSAccountId": ["111111111111"], "ActionName": ["Publish"]}, INVALID, "Invalid parameter: Policy: the value has more than 30720 bytes"),
    ("PutDataProtectionPolicy", {"ResourceArn": TOPIC, "DataProtectionPolicy": "{}".ljust(30_721)}, INVALID, "Invalid parameter: DataProtectionPolicy Reason: the value has more than 30720 bytes"),
    ("Subscribe", subscribe(Attributes={"SubscriptionRoleArn": "x" * 30_721}), INVALID, "Invalid parameter: Attributes Reason: SubscriptionRoleArn: the value has more than 30720 bytes"),
    ("CreateTopic", {"Name": "t", "Attributes": {"Policy": "{"}}, INVALID, "Invalid parameter: Attributes Reason: Policy Error: null"),
    ("CreateTopic", {"Name": "t", "Attributes": {"SignatureVersion": "3"}}, INVALID, "Invalid parameter: Attributes Reason: SignatureVersion: Invalid value [3]. Must be 1 or 2."),
    ("CreateTopic", {"Name": "t", "Attributes": {"DisplayName": "d" * 101}}, INVALID, "Invalid parameter: Attributes Reason: DisplayName"),
    ("CreateTopic", {"Name": "known", "Attributes": {"DisplayName": "other"}}, INVALID, "Invalid parameter: Attributes Reason: Topic already exists with different attributes"),
    ("CreateTopic", {"Name": "known", "Tags": tags("new")}, INVALID, "Invalid parameter: Tags Reason: Topic already exists with different tags"),
    ("CreateTopic", {"Name": "t", "Tags": tags("a", "a")}, INVALID, "Invalid parameter: Duplicated keys are not allowed."),
    ("CreateTopic", {"Name": "t", "Tags": tags("k" * 129)}, "ValidationError", f"1 validation error detected: Value '{'k' * 129}' at 'tags.1.member.key' failed to satisfy constraint: Member must have length less than or equal to 128"),
    ("CreateTopic", {"Name": "t", "Tags": [{"Key": "k", "Value": "v" * 257}]}, "ValidationError", f"1 validation error detected: Value '{'v' * 257}' at 'tags.1.member.value' failed to satisfy constraint: Member must have length less than or equal to 256"),
    ("CreateTopic", {"Name": "t", "Tags": tags(*map(str, range(51)))}, "TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded"),
    ("CreateTopic", {"Name": "t", "DataProtectionPolicy": json.dumps({"Statement": [{"DataDirection": "Inbxound"}]})}, INVALID, "Invalid parameter: DataProtectionPolicy Reason: Statement DataDirection must be either Inbound or Outbound"),
    ("DeleteTopic", {}, INVALID, "Invalid parameter: TopicArn Reason: no value for required parameter"),
    ("DeleteTopic", {"TopicArn": "Invalid:Topic:Arn"}, INVALID, f"Invalid parameter: TopicArn Reason: {SIX.format(count=3)}"),
    ("DeleteTopic", {"TopicArn": ELSEWHERE}, INVALID, "Invalid parameter: TopicArn"),
    ("GetTopicAttributes", {"TopicArn": NO_TOPIC}, NOT_FOUND, "Topic does not exist"),
    ("GetTopicAttributes", {"TopicArn": "topic"}, INVALID, f"Invalid parameter: TopicArn Reason: {SIX.format(count=1)}"),
    ("GetTopicAttributes", {"TopicArn": queue_arn("known")}, INVALID, "Invalid parameter: TopicArn"),
    ("SetTopicAttributes", {"TopicArn": NO_TOPIC, "AttributeName": "DisplayName"}, NOT_FOUND, "Topic does not exist"),
    ("SetTopicAttributes", {"TopicArn": TOPIC}, INVALID, "Invalid parameter: AttributeName Reason: no value for required parameter"),
    ("SetTopicAttributes", {"TopicArn": TOPIC, "AttributeName": "FifoTopic", "AttributeValue": "true"}, INVALID, "Invalid parameter: AttributeName"),
    ("SetTopicAttributes", {"TopicArn": TOPIC, "AttributeName": "DeliveryPolicy", "AttributeValue": topic_retries(numRetries=300)}, INVALID, "Invalid parameter: DeliveryPolicy: http.defaultHealthyRetryPolicy.numRetries must be less than or equal to 100"),
    ("SetTopicAttributes", {"TopicArn": TOPIC, "AttributeName": "DeliveryPolicy", "AttributeValue": "["}, INVALID, "Invalid parameter: DeliveryPolicy: failed to parse JSON."),
    ("SetTopicAttributes", {"TopicArn": FIFO, "AttributeName": "ContentBasedDeduplication", "AttributeValue": "maybe"}, INVALID, "Invalid parameter: ContentBasedDeduplication: Invalid value [maybe]. Must be true or false."),
    ("ListTopics", {"NextToken": "*"}, INVALID, "Invalid parameter: NextToken"),
    # Tags, permissions, data protection
    ("TagResource", {"ResourceArn": NO_TOPIC, "Tags": tags("a")}, "ResourceNotFound", "Resource does not exist"),
    ("TagResource", {"ResourceArn": TOPIC}, "ValidationError", NOT_NULL.format(place="tags")),
    ("TagResource", {"ResourceArn": TOPIC, "Tags": [{"Key": "a"}]}, "ValidationError", NOT_NULL.format(place="tags.1.member.value")),
    ("TagResource", {"ResourceArn": TOPIC, "Tags": tags("a", "a")}, INVALID, "Invalid parameter: Duplicated keys are not allowed."),
    ("TagResource", {"ResourceArn": TOPIC, "Tags": tags(*map(str, range(51)))}, "TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded"),
    ("UntagResource", {"ResourceArn": NO_TOPIC, "TagKeys": ["a"]}, "ResourceNotFound", "Resource does not exist"),
    ("UntagResource", {"ResourceArn": TOPIC}, "ValidationError", NOT_NULL.format(place="tagKeys")),
    ("ListTagsForResource", {"ResourceArn": NO_TOPIC}, "ResourceNotFound", "Resource does not exist"),
    ("ListTagsForResource", {"ResourceArn": "x"}, INVALID, f"Invalid parameter: ResourceArn Reason: {SIX.format(count=1)}"),
    ("AddPermission", {"TopicArn": TOPIC, "AWSAccountId": ["111122223333"], "ActionName": ["Publish"]}, INVALID, "Invalid parameter: Label Reason: no value for required parameter"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "l", "ActionName": ["Publish"]}, INVALID, "Invalid parameter: AWSAccountId Reason: no value for required parameter"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": ["111122223333"]}, INVALID, "Invalid parameter: ActionName Reason: no value for required parameter"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": ["nobody"], "ActionName": ["Publish"]}, INVALID, "Invalid parameter: A provided account ID is not valid"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": ["111122223333"], "ActionName": ["Nonsense"]}, INVALID, "Invalid parameter: Policy statement action out of service scope!"),
    ("AddPermission", {"TopicArn": TOPIC, "Label": "__default_statement_ID", "AWSAccountId": ["111122223333"], "ActionName": ["Publish"]}, INVALID, "Invalid parameter: Statement already exists"),
    ("RemovePermission", {"TopicArn": NO_TOPIC, "Label": "l"}, NOT_FOUND, "Topic does not exist"),
    ("PutDataProtectionPolicy", {"ResourceArn": TOPIC, "DataProtectionPolicy": "{}"}, INVALID, "Invalid parameter: DataProtectionPolicy Reason: Failed to parse policy document"),
    ("GetDataProtectionPolicy", {"ResourceArn": NO_TOPIC}, NOT_FOUND, "Topic does not exist"),
    # Subscriptions
    ("Subscribe", subscribe(TopicArn=NO_TOPIC), NOT_FOUND, "Topic does not exist"),
    ("Subscribe", subscribe(TopicArn=None), INVALID, "Invalid parameter: TopicArn Reason: no value for required parameter"),
    ("Subscribe", subscribe(Protocol=None), INVALID, "Invalid parameter: Protocol Reason: no value for required parameter"),
    ("Subscribe", subscribe(Protocol="test-protocol"), INVALID, "Invalid parameter: Amazon SNS does not support this protocol string: test-protocol"),
    ("Subscribe", subscribe(Endpoint=None), INVALID, "Invalid parameter: Endpoint"),
    ("Subscribe", subscribe(Endpoint="http://127.0.0.1/queue"), INVALID, "Invalid parameter: SQS endpoint ARN"),
    ("Subscribe", subscribe(Endpoint=queue_arn("queue", "EU")), INVALID, "Invalid parameter: SQS endpoint ARN"),
    ("Subscribe", subscribe(Protocol="sms", Endpoint="+15--551234567"), INVALID, "Invalid SMS endpoint: +15--551234567"),
    ("Subscribe", subscribe(Protocol="sms", Endpoint="+15551234567."), INVALID, "Invalid SMS endpoint: +15551234567."),
    ("Subscribe", subscribe(Endpoint=queue_arn("queue.fifo")), INVALID, "Invalid parameter: Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"),
    ("Subscribe", subscribe(TopicArn=FIFO, Protocol="http", Endpoint="http://example.com"), INVALID, "Invalid parameter: Invalid protocol type: http"),
    ("Subscribe", subscribe(Protocol="https", Endpoint="http://example.com"), INVALID, "Invalid parameter: Endpoint must match the specified protocol"),
    ("Subscribe", subscribe(Protocol="http", Endpoint="http://"), INVALID, "Invalid parameter: Unreachable Endpoint"),
    ("Subscribe", subscribe(Protocol="email", Endpoint="this is not an email"), INVALID, "Invalid parameter: Email address"),
    ("Subscribe", subscribe(Protocol="sms", Endpoint="NAA+15551234567"), INVALID, "Invalid SMS endpoint: NAA+15551234567"),
    ("Subscribe", subscribe(Protocol="application", Endpoint=TOPIC), INVALID, f"Invalid parameter: Application endpoint arn invalid:{TOPIC}"),
    ("Subscribe", subscribe(Protocol="lambda", Endpoint=QUEUE), INVALID, "Invalid parameter: Lambda endpoint ARN"),
    ("Subscribe", subscribe(Attributes={"Nonsense": "1"}), INVALID, "Invalid parameter: Attributes Reason: AttributeName"),
    ("Subscribe", subscribe(Attributes={"RawMessageDelivery": "wrongvalue"}), INVALID, "Invalid parameter: Attributes Reason: RawMessageDelivery: Invalid value [wrongvalue]. Must be true or false."),
    ("Subscribe", subscribe(Protocol="email", Endpoint="a@example.com", Attributes={"RawMessageDelivery": "true"}), INVALID, "Invalid parameter: Attributes Reason: Delivery protocol [email] does not support raw message delivery."),
    ("Subscribe", subscribe(Attributes={"FilterPolicyScope": "Random"}), INVALID, "Invalid parameter: Attributes Reason: FilterPolicyScope: Invalid value [Random]. Please use either MessageBody or MessageAttributes"),
    ("Subscribe", subscribe(Attributes={"FilterPolicy": "{invalid}"}), INVALID, "Invalid parameter: Attributes Reason: FilterPolicy: failed to parse JSON."),
    ("Subscribe", subscribe(Attributes={"FilterPolicy": '{"key":[["value"]]}'}), INVALID, "Invalid parameter: Attributes Reason: FilterPolicy: Match value must be String, number, true, false, or null"),
    ("Subscribe", subscribe(Attributes={"FilterPolicy": '{"a":{"b":["c"]}}'}), INVALID, "Invalid parameter: Attributes Reason: Filter policy scope MessageAttributes does not support nested filter policy"),
    ("Subscribe", subscribe(Attributes={"FilterPolicy": json.dumps({"k": [*range(151)]})}), INVALID, "Invalid parameter: Attributes Reason: FilterPolicy: Filter policy is too complex"),
    ("Subscribe", subscribe(Attributes={"RedrivePolicy": "{"}), INVALID, "Invalid parameter: Attributes Reason: RedrivePolicy: failed to parse JSON."),
    ("Subscribe", subscribe(Attributes={"RedrivePolicy": '{"deadLetterTargetArn":"fake"}'}), INVALID, "Invalid parameter: Attributes Reason: RedrivePolicy: deadLetterTargetArn is an invalid arn"),
    ("Subscribe", subscribe(TopicArn=FIFO, Endpoint=queue_arn("queue.fifo"), Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": QUEUE})}), INVALID, "Invalid parameter: Attributes Reason: RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."),
    ("Subscribe", web(DeliveryPolicy=retries(numRetries=101)), INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: healthyRetryPolicy.numRetries must be less than or equal to 100"),
    ("Subscribe", web(DeliveryPolicy=retries(minDelayTarget=9)), INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: healthyRetryPolicy.maxDelayTarget must be greater than or equal to minDelayTarget"),
    ("Subscribe", web(DeliveryPolicy=retries(backoffFunction="none")), INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: healthyRetryPolicy.backoffFunction must be one of arithmetic, exponential, geometric, linear"),
    ("Subscribe", web(DeliveryPolicy='{"healthyRetryPolicy":{"numRetries":1}}'), INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: healthyRetryPolicy.minDelayTarget must be specified"),
    ("Subscribe", web(DeliveryPolicy='{"requestPolicy":{"headerContentType":"image/png"}}'), INVALID, "Invalid parameter: Attributes Reason: DeliveryPolicy: requestPolicy.headerContentType is not supported"),
    ("ConfirmSubscription", {"TopicArn": "topic", "Token": "x"}, INVALID, "Invalid parameter: Topic"),
    ("ConfirmSubscription", {"TopicArn": TOPIC, "Token": "randomtoken"}, INVALID, "Invalid token"),
    ("ConfirmSubscription", {"TopicArn": TOPIC, "Token": b"us-east-1/".hex() + "ab" * 64}, INVALID, "Invalid parameter: Token"),
    ("ConfirmSubscription", {"TopicArn": TOPIC, "Token": "51b2ff3edb475b7d" * 18}, INVALID, "Invalid parameter: Token"),
    ("ConfirmSubscription", {"TopicArn": f"{TOPIC}-absent", "Token": b"us-east-1/".hex() + "ab" * 64}, INVALID, "Invalid parameter: Token"),
    ("ConfirmSubscription", {"TopicArn": TOPIC, "Token": b"eu-west-1/".hex() + "ab" * 64}, INVALID, "Invalid parameter: Topic"),
    ("Unsubscribe", {}, INVALID, "Invalid parameter: SubscriptionArn Reason: no value for required parameter"),
    ("Unsubscribe", {"SubscriptionArn": "x"}, INVALID, f"Invalid parameter: SubscriptionArn Reason: {SIX.format(count=1)}"),
    ("Unsubscribe", {"SubscriptionArn": TOPIC}, INVALID, "Invalid parameter: SubscriptionId"),
    ("GetSubscriptionAttributes", {"SubscriptionArn": NO_SUBSCRIPTION}, NOT_FOUND, "Subscription does not exist"),
    ("GetSubscriptionAttributes", {"SubscriptionArn": f"{TOPIC}:fake"}, NOT_FOUND, "Subscription does not exist"),
    ("SetSubscriptionAttributes", {"SubscriptionArn": NO_SUBSCRIPTION, "AttributeName": "FilterPolicy"}, NOT_FOUND, "Subscription does not exist"),
    ("ListSubscriptionsByTopic", {"TopicArn": NO_TOPIC}, NOT_FOUND, "Topic does not exist"),
    ("ListSubscriptions", {"NextToken": "bm9uZQ=="}, INVALID, "Invalid parameter: NextToken"),
    # Publishing
    ("Publish", {"Message": "x"}, INVALID, "Invalid parameter: TopicArn or TargetArn Reason: no value for required parameter"),
    ("Publish", publish(TopicArn=""), INVALID, f"Invalid parameter: TopicArn Reason: {SIX.format(count=1)}"),
    ("Publish", publish(TopicArn="a:b"), INVALID, f"Invalid parameter: TopicArn Reason: {SIX.format(count=2)}"),
    ("Publish", publish(TopicArn=NO_TOPIC), NOT_FOUND, "Topic does not exist"),
    ("Publish", publish(TopicArn=ELSEWHERE), INVALID, "Invalid parameter: TopicArn"),
    ("Publish", publish(Message=""), INVALID, "Invalid parameter: Empty message"),
    ("Publish", publish(Subject=""), INVALID, "Invalid parameter: Subject"),
    ("Publish", publish(Subject="two\nlines"), INVALID, "Invalid parameter: Subject"),
    ("Publish", publish(Subject=" leading"), INVALID, "Invalid parameter: Subject"),
    ("Publish", publish(Subject="s" * 101), INVALID, "Invalid parameter: Subject"),
    ("Publish", publish(Message="m" * 262_145), INVALID, "Invalid parameter: Message too long"),
    ("Publish", publish(Message="m" * 262_140, MessageAttributes={"k": TEXT}), INVALID, "Invalid parameter: Message too long"),
    ("Publish", publish(MessageStructure="json", Message="{"), INVALID, "Invalid parameter: Message Structure - JSON message body failed to parse"),
    ("Publish", publish(MessageStructure="json", Message='{"sqs":"x"}'), INVALID, "Invalid parameter: Message Structure - No default entry in JSON message body"),
    ("Publish", publish(MessageStructure="json", Message='{"default":1}'), INVALID, "Invalid parameter: Message Structure - No default entry in JSON message body"),
    ("Publish", publish(MessageStructure="xml"), INVALID, "Invalid parameter: MessageStructure"),
    ("Publish", publish(MessageDeduplicationId="d"), INVALID, "Invalid parameter: MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this topic type"),
    ("Publish", publish(TopicArn=FIFO), INVALID, GROUP),
    ("Publish", publish(TopicArn=FIFO, MessageGroupId="g"), INVALID, DEDUP),
    ("Publish", publish(TopicArn=FIFO, MessageGroupId="a b"), INVALID, "Invalid parameter: MessageGroupId Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "String", "StringValue": ""}}), BAD_ATTRIBUTE, "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'String'."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "Binary", "BinaryValue": b""}}), BAD_ATTRIBUTE, "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'Binary'."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "String", "BinaryValue": b"x"}}), BAD_ATTRIBUTE, "The message attribute 'attr1' with type 'String' must use field 'String'."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "Number", "BinaryValue": b"x"}}), BAD_ATTRIBUTE, "The message attribute 'attr1' with type 'Number' must use field 'String'."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "Binary", "StringValue": "x"}}), BAD_ATTRIBUTE, "The message attribute 'attr1' with type 'Binary' must use field 'Binary'."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "Number", "StringValue": "x"}}), BAD_ATTRIBUTE, "Could not cast message attribute 'attr1' value to number."),
    ("Publish", publish(MessageAttributes={"attr1": {"DataType": "InvalidType", "StringValue": "x"}}), BAD_ATTRIBUTE, "The message attribute 'attr1' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String."),
    ("Publish", publish(MessageAttributes={"attr1": {"StringValue": "x"}}), "ValidationError", NOT_NULL.format(place="messageAttributes.attr1.member.dataType")),
    ("Publish", publish(MessageAttributes={".a": TEXT}), BAD_ATTRIBUTE, "Invalid message attribute name starting with character '.' was found."),
    ("Publish", publish(MessageAttributes={"a.": TEXT}), BAD_ATTRIBUTE, "Invalid message attribute name ending with character '.' was found."),
    ("Publish", publish(MessageAttributes={"a..b": TEXT}), BAD_ATTRIBUTE, "Message attribute name can not have successive '.' character."),
    ("Publish", publish(MessageAttributes={"a:b": TEXT}), BAD_ATTRIBUTE, "Invalid non-alphanumeric character '#x3A' was found in the message attribute name. Can only include alphanumeric characters, hyphens, underscores, or dots."),
    ("Publish", publish(MessageAttributes={"a" * 257: TEXT}), BAD_ATTRIBUTE, "Length of message attribute name must be less than 256 bytes."),
    ("Publish", {"Message": "x", "TargetArn": DEVICE}, INVALID, "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified"),
    ("Publish", {"Message": "x", "PhoneNumber": "InvalidPhoneNumber"}, INVALID, "Invalid parameter: PhoneNumber Reason: InvalidPhoneNumber is not valid to publish to"),
    ("Publish", {"Message": "x" * 1601, "PhoneNumber": "+15550100"}, INVALID, "Invalid parameter: Message too long"),
    ("PublishBatch", {"TopicArn": TOPIC}, "EmptyBatchRequest", "The batch request doesn't contain any entries."),
    ("PublishBatch", entries(*map(entry, range(11))), "TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible."),
    ("PublishBatch", entries(entry(1), entry(1)), "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id."),
    ("PublishBatch", entries(entry("a b")), "InvalidBatchEntryId", "The Id of a batch entry in the batch request contains an impermissible character: a b"),
    ("PublishBatch", entries(entry("a" * 81)), "InvalidBatchEntryId", f"The Id of a batch entry in the batch request is too long: {'a' * 81}"),
    ("PublishBatch", entries(entry(1), topic=NO_TOPIC), NOT_FOUND, "Topic does not exist"),
    ("PublishBatch", entries(entry(1, Message="m" * 200_000), entry(2, Message="m" * 200_000)), "BatchRequestTooLong", "The length of all the messages put together is more than the limit."),
    ("PublishBatch", entries(entry(1), topic=FIFO), INVALID, GROUP),
    ("PublishBatch", entries(entry(1, MessageGroupId="g"), topic=FIFO), INVALID, DEDUP),
    ("PublishBatch", entries(entry(1, MessageStructure="json", Message="{}")), INVALID, "Invalid parameter: Message Structure - No default entry in JSON message body"),
    ("PublishBatch", entries(entry(1, MessageAttributes={"k": {"StringValue": "x"}})), "ValidationError", NOT_NULL.format(place="publishBatchRequestEntries.1.member.messageAttributes.k.member.dataType")),
    # Mobile applications and phones
    ("CreatePlatformApplication", {"Platform": "GCM", "Attributes": {"PlatformCredential": "x"}}, INVALID, "Invalid parameter:  Reason: cannot be empty"),
    ("CreatePlatformApplication", {"Name": "a b", "Platform": "GCM", "Attributes": {"PlatformCredential": "x"}}, INVALID, "Invalid parameter: a b Reason: must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "XXX", "Attributes": {"PlatformCredential": "x"}}, INVALID, "Invalid parameter: Platform Reason: XXX is not supported"),
    ("CreatePlatformApplication", {"Name": "a", "Attributes": {"PlatformCredential": "x"}}, "ValidationError", NOT_NULL.format(place="platform")),
    ("ListOriginationNumbers", {"NextToken": "%"}, INVALID, "Invalid parameter: NextToken"),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "GCM"}, "ValidationError", NOT_NULL.format(place="attributes")),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "ADM", "Attributes": {"PlatformCredential": "x"}}, INVALID, "Invalid parameter: Attributes Reason: PlatformCredential attribute provided without PlatformPrincipal"),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "ADM", "Attributes": {"PlatformPrincipal": "x"}}, INVALID, "Invalid parameter: Attributes Reason: PlatformPrincipal attribute provided without PlatformCredential"),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "GCM", "Attributes": {"SuccessFeedbackSampleRate": "101"}}, INVALID, "Invalid parameter: Attributes Reason: Invalid value for attribute: SuccessFeedbackSampleRate: 101 value provided is not an integer between 0-100"),
    ("GetPlatformApplicationAttributes", {"PlatformApplicationArn": NO_APPLICATION}, NOT_FOUND, "PlatformApplication does not exist"),
    ("GetPlatformApplicationAttributes", {"PlatformApplicationArn": DEVICE}, INVALID, "Invalid parameter: PlatformApplicationArn Reason: Wrong number of slashes in relative portion of the ARN."),
    ("SetPlatformApplicationAttributes", {"PlatformApplicationArn": NO_APPLICATION, "Attributes": {"Enabled": "true"}}, NOT_FOUND, "PlatformApplication does not exist"),
    ("ListEndpointsByPlatformApplication", {"PlatformApplicationArn": NO_APPLICATION}, NOT_FOUND, "PlatformApplication does not exist"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": NO_APPLICATION, "Token": "t"}, NOT_FOUND, "PlatformApplication does not exist"),
    ("CreatePlatformApplication", {"Name": "a", "Platform": "GCM", "Attributes": {"PlatformCredential": "x" * 30_721}}, INVALID, "Invalid parameter: Attributes Reason: Invalid value for attribute: PlatformCredential: must be at most 30720 bytes long in UTF-8 encoding"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": APPLICATION, "Token": "x" * 30_721}, INVALID, "Invalid parameter: Attributes Reason: Invalid value for attribute: Token: must be at most 30720 bytes long in UTF-8 encoding"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": APPLICATION}, INVALID, "Invalid parameter: Token Reason: cannot be empty"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": APPLICATION, "Token": "t", "Attributes": {"Token": ""}}, INVALID, "Invalid parameter: Attributes Reason: Invalid value for attribute: Token: cannot be empty"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": APPLICATION, "Token": "t", "Attributes": {"Nonsense": "1"}}, INVALID, "Invalid parameter: Attributes Reason: Invalid attribute name: Nonsense"),
    ("CreatePlatformEndpoint", {"PlatformApplicationArn": APPLICATION, "Token": "t", "CustomUserData": "x" * 2049}, INVALID, "Invalid parameter: Attributes Reason: Invalid value for attribute: CustomUserData: must be at most 2048 bytes long in UTF-8 encoding"),
    ("GetEndpointAttributes", {"EndpointArn": DEVICE}, NOT_FOUND, "Endpoint does not exist"),
    ("GetEndpointAttributes", {"EndpointArn": "x"}, INVALID, f"Invalid parameter: EndpointArn Reason: {SIX.format(count=1)}"),
    ("SetEndpointAttributes", {"EndpointArn": DEVICE}, "ValidationError", NOT_NULL.format(place="attributes")),
    ("SetEndpointAttributes", {"EndpointArn": DEVICE, "Attributes": {"Enabled": "true"}}, NOT_FOUND, "Endpoint does not exist"),
    ("CheckIfPhoneNumberIsOptedOut", {"phoneNumber": "+15550100x"}, INVALID, "Invalid parameter: PhoneNumber Reason: input incorrectly formatted"),
    ("OptInPhoneNumber", {"phoneNumber": "x"}, INVALID, "Invalid parameter: PhoneNumber Reason: input incorrectly formatted"),
    ("SetSMSAttributes", {"attributes": {"Nonsense": "1"}}, INVALID, "Nonsense is not a valid attribute"),
    ("SetSMSAttributes", {"attributes": {"DefaultSenderID": "testSenderID"}}, INVALID, "DefaultSenderID is invalid"),
    ("SetSMSAttributes", {"attributes": {"DefaultSMSType": "Loud"}}, INVALID, "DefaultSMSType is invalid"),
    ("SetSMSAttributes", {}, "ValidationError", NOT_NULL.format(place="attributes")),
    ("CreateSMSSandboxPhoneNumber", {"PhoneNumber": "1234567890"}, "ValidationError", f"1 validation error detected: Value '1234567890' at 'phoneNumber' failed to satisfy constraint: Member must satisfy regular expression pattern: {NUMBER_PATTERN}"),
    ("CreateSMSSandboxPhoneNumber", {"PhoneNumber": "+" + "9" * 20}, "ValidationError", f"1 validation error detected: Value '+{'9' * 20}' at 'phoneNumber' failed to satisfy constraint: Member must have length less than or equal to 20"),
    ("DeleteSMSSandboxPhoneNumber", {"PhoneNumber": "+15550100"}, "ResourceNotFound", "Requested Resource does not exist"),
    ("VerifySMSSandboxPhoneNumber", {"PhoneNumber": "+15550100", "OneTimePassword": "123456"}, "ResourceNotFound", "Requested Resource does not exist"),
    ("VerifySMSSandboxPhoneNumber", {"PhoneNumber": "+15550100", "OneTimePassword": "12"}, "ValidationError", "1 validation error detected: Value '12' at 'oneTimePassword' failed to satisfy constraint: Member must have length greater than or equal to 5"),
    ("ListSMSSandboxPhoneNumbers", {"MaxResults": 101}, "ValidationError", "1 validation error detected: Value '101' at 'maxResults' failed to satisfy constraint: Member must have value less than or equal to 100"),
]  # fmt: skip
