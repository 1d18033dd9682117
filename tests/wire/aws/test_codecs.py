"""The codecs of the AWS doors: bytes that may never change, and what goes in comes out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus, urlencode
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from penstock.model.arns import parse_arn, partition_of
from penstock.model.uuids import number_of, uuid_of
from penstock.wire.aws import json_protocol as aws_json
from penstock.wire.aws import query_protocol as aws_query
from penstock.wire.aws import xml as aws_xml
from penstock.wire.aws.checksums import attributes_md5, body_md5
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.shapes import Given, ListPlan, MapPlan, Plan, Result, Scalar, StructPlan, plan
from penstock.wire.sqs import types as shapes
from penstock.wire.sqs.names import sequence_number
from tests.effort import examples
from tests.wire.amazon import NAMESPACE, flatten

ID = "0000-id"


class Nested(Given):
    """Lists and maps that are not flat, as SNS has them."""

    topic: str | None = None
    tags: list[shapes.DeleteEntry] | None = None
    attributes: dict[str, str] | None = None


class NestedResult(Result):
    names: list[str] | None = None
    pairs: dict[str, str] | None = None


MESSAGE = shapes.Message(
    message_id="m-1",
    receipt_handle="r-1",
    md5_of_body="5d41402abc4b2a76b9719d911017c592",
    body='a\rb "<&>😇',
    attributes={"SentTimestamp": "1"},
    md5_of_message_attributes="x",
    message_attributes={
        "s": shapes.AttributeOut(data_type="String", string_value="v"),
        "b": shapes.AttributeOut(data_type="Binary", binary_value=b"\x00\x01"),
    },
)
FAILED = shapes.FailedEntry(id="a", sender_fault=True, code="InvalidParameterValue", message="no & never")
ERROR = AwsError("InvalidParameterValueException", 'bad "<&>', code="InvalidParameterValue")

GOLDEN: list[tuple[str, Result | None, bytes, str]] = [
    ("DeleteMessage", None, b"", ""),
    ("ReceiveMessage", shapes.Received(), b"{}", "<ReceiveMessageResult/>"),
    (
        "CreateQueue",
        shapes.QueueUrl(queue_url="http://h/0/q"),
        b'{"QueueUrl":"http://h/0/q"}',
        "<CreateQueueResult><QueueUrl>http://h/0/q</QueueUrl></CreateQueueResult>",
    ),
    (
        "ListQueues",
        shapes.QueueList(queue_urls=["u1", "u2"], next_token="t"),
        b'{"QueueUrls":["u1","u2"],"NextToken":"t"}',
        "<ListQueuesResult><QueueUrl>u1</QueueUrl><QueueUrl>u2</QueueUrl><NextToken>t</NextToken></ListQueuesResult>",
    ),
    (
        "ListDeadLetterSourceQueues",
        shapes.SourceList(queue_urls=[]),
        b'{"queueUrls":[]}',
        "<ListDeadLetterSourceQueuesResult/>",
    ),
    (
        "GetQueueAttributes",
        shapes.AttributeList(attributes={"DelaySeconds": "0"}),
        b'{"Attributes":{"DelaySeconds":"0"}}',
        "<GetQueueAttributesResult><Attribute><Name>DelaySeconds</Name><Value>0</Value></Attribute>"
        "</GetQueueAttributesResult>",
    ),
    (
        "ListQueueTags",
        shapes.TagList(tags={"k": ""}),
        b'{"Tags":{"k":""}}',
        "<ListQueueTagsResult><Tag><Key>k</Key><Value/></Tag></ListQueueTagsResult>",
    ),
    (
        "SendMessage",
        shapes.Sent(md5_of_message_body="m", message_id="i", sequence_number="1"),
        b'{"MD5OfMessageBody":"m","MessageId":"i","SequenceNumber":"1"}',
        "<SendMessageResult><MD5OfMessageBody>m</MD5OfMessageBody><MessageId>i</MessageId>"
        "<SequenceNumber>1</SequenceNumber></SendMessageResult>",
    ),
    (
        "ReceiveMessage",
        shapes.Received(messages=[MESSAGE]),
        '{"Messages":[{"MessageId":"m-1","ReceiptHandle":"r-1","MD5OfBody":"5d41402abc4b2a76b9719d911017c592",'
        '"Body":"a\\rb \\"<&>😇","Attributes":{"SentTimestamp":"1"},"MD5OfMessageAttributes":"x","MessageAttributes":'
        '{"s":{"StringValue":"v","DataType":"String"},"b":{"BinaryValue":"AAE=","DataType":"Binary"}}}]}'.encode(),
        "<ReceiveMessageResult><Message><MessageId>m-1</MessageId><ReceiptHandle>r-1</ReceiptHandle>"
        "<MD5OfBody>5d41402abc4b2a76b9719d911017c592</MD5OfBody><Body>a&#xD;b &quot;&lt;&amp;&gt;😇</Body>"
        "<Attribute><Name>SentTimestamp</Name><Value>1</Value></Attribute>"
        "<MD5OfMessageAttributes>x</MD5OfMessageAttributes>"
        "<MessageAttribute><Name>s</Name><Value><StringValue>v</StringValue><DataType>String</DataType></Value>"
        "</MessageAttribute><MessageAttribute><Name>b</Name><Value><BinaryValue>AAE=</BinaryValue>"
        "<DataType>Binary</DataType></Value></MessageAttribute></Message></ReceiveMessageResult>",
    ),
    (
        "DeleteMessageBatch",
        shapes.DeletedBatch(successful=[shapes.DoneEntry(id="b")], failed=[FAILED]),
        b'{"Successful":[{"Id":"b"}],"Failed":[{"Id":"a","SenderFault":true,"Code":"InvalidParameterValue",'
        b'"Message":"no & never"}]}',
        "<DeleteMessageBatchResult><DeleteMessageBatchResultEntry><Id>b</Id></DeleteMessageBatchResultEntry>"
        "<BatchResultErrorEntry><Id>a</Id><SenderFault>true</SenderFault><Code>InvalidParameterValue</Code>"
        "<Message>no &amp; never</Message></BatchResultErrorEntry></DeleteMessageBatchResult>",
    ),
    (
        "ListMessageMoveTasks",
        shapes.TaskList(
            results=[
                shapes.Task(
                    status="RUNNING",
                    source_arn="s",
                    approximate_number_of_messages_moved=0,
                    approximate_number_of_messages_to_move=2,
                    started_timestamp=7,
                )
            ]
        ),
        b'{"Results":[{"Status":"RUNNING","SourceArn":"s","ApproximateNumberOfMessagesMoved":0,'
        b'"ApproximateNumberOfMessagesToMove":2,"StartedTimestamp":7}]}',
        "<ListMessageMoveTasksResult><ListMessageMoveTasksResultEntry><Status>RUNNING</Status><SourceArn>s</SourceArn>"
        "<ApproximateNumberOfMessagesMoved>0</ApproximateNumberOfMessagesMoved>"
        "<ApproximateNumberOfMessagesToMove>2</ApproximateNumberOfMessagesToMove>"
        "<StartedTimestamp>7</StartedTimestamp></ListMessageMoveTasksResultEntry></ListMessageMoveTasksResult>",
    ),
    (
        "Nested",
        NestedResult(names=["a", "b"], pairs={"k": "v"}),
        b'{"Names":["a","b"],"Pairs":{"k":"v"}}',
        "<NestedResult><Names><member>a</member><member>b</member></Names>"
        "<Pairs><entry><key>k</key><value>v</value></entry></Pairs></NestedResult>",
    ),
]


@pytest.mark.parametrize(("action", "result", "as_json", "as_xml"), GOLDEN)
def test_answers_are_these_bytes(action: str, result: Result | None, as_json: bytes, as_xml: str) -> None:
    wrapped = (
        f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">{as_xml}'
        f"<ResponseMetadata><RequestId>{ID}</RequestId></ResponseMetadata></{action}Response>"
    )

    assert aws_json.answer(result, ID).body == as_json
    assert aws_xml.answer(action, result, ID, NAMESPACE).body == wrapped.encode()


def test_errors_are_these_bytes() -> None:
    answer = aws_json.fault(ERROR, ID)

    assert answer.body == (
        b'{"__type":"com.amazon.coral.service#InvalidParameterValueException","message":"bad \\"<&>"}'
    )
    assert dict(answer.headers) == {
        b"x-amzn-requestid": ID.encode(),
        b"x-amzn-query-error": b"InvalidParameterValue;Sender",
    }
    assert (
        aws_xml.fault(ERROR, ID, NAMESPACE, detail=True).body
        == (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type>'
            f"<Code>InvalidParameterValue</Code><Message>bad &quot;&lt;&amp;&gt;</Message><Detail/></Error>"
            f"<RequestId>{ID}</RequestId></ErrorResponse>"
        ).encode()
    )
    assert b"<Detail/>" not in aws_xml.fault(ERROR, ID, NAMESPACE).body
    assert aws_xml.json_fault(ERROR, ID).body == (
        b'{"Error":{"Type":"Sender","Code":"InvalidParameterValue","Message":"bad \\"<&>"},"RequestId":"0000-id"}'
    )
    assert aws_json.fault(AwsError("X", status=500), ID).headers[1][1] == b"X;Receiver"


def test_a_query_answered_in_json_is_these_bytes() -> None:
    result = shapes.Received(messages=[MESSAGE])

    assert (
        aws_xml.json_answer("ReceiveMessage", result, ID).body
        == (
            '{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[{"MessageId":"m-1","ReceiptHandle":"r-1",'
            '"MD5OfBody":"5d41402abc4b2a76b9719d911017c592","Body":"a\\rb \\"<&>😇",'
            '"Attributes":[{"Name":"SentTimestamp","Value":"1"}],"MD5OfMessageAttributes":"x","MessageAttributes":'
            '[{"Name":"s","Value":{"StringValue":"v","DataType":"String"}},'
            '{"Name":"b","Value":{"BinaryValue":"AAE=","DataType":"Binary"}}]}]},'
            '"ResponseMetadata":{"RequestId":"0000-id"}}}'
        ).encode()
    )


FORMS: list[tuple[type[Struct], str, Struct]] = [
    (shapes.OfQueue, "", shapes.OfQueue()),
    (
        shapes.SendMessage,
        "MessageBody=a+b%2Bc&DelaySeconds=5",
        shapes.SendMessage(message_body="a b+c", delay_seconds=5),
    ),
    (
        shapes.CreateQueue,
        "QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=5&Attribute.2.Name=Policy&Attribute.2.Value="
        "&Tag.1.Key=k&Tag.1.Value=v",
        shapes.CreateQueue(queue_name="q", attributes={"DelaySeconds": "5", "Policy": ""}, tags={"k": "v"}),
    ),
    (
        shapes.GetQueueAttributes,
        "AttributeName.10=c&AttributeName.2=b&AttributeName.1=a",
        shapes.GetQueueAttributes(attribute_names=["a", "b", "c"]),
    ),
    (shapes.GetQueueAttributes, "AttributeName=All", shapes.GetQueueAttributes(attribute_names=["All"])),
    (
        shapes.SetQueueAttributes,
        "Attribute.Name=DelaySeconds&Attribute.Value=5",
        shapes.SetQueueAttributes(attributes={"DelaySeconds": "5"}),
    ),
    (
        shapes.SendMessageBatch,
        "SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n"
        "&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType=Binary"
        "&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.BinaryValue=AAE%3D",
        shapes.SendMessageBatch(
            entries=[
                shapes.SendEntry(
                    id="a", message_attributes={"n": shapes.SentAttribute(data_type="Binary", binary_value=b"\x00\x01")}
                )
            ]
        ),
    ),
    (
        Nested,
        "Topic=t&Tags.member.1.Id=a&Tags.member.2.Id=b&Attributes.entry.1.key=k&Attributes.entry.1.value=v",
        Nested(topic="t", tags=[shapes.DeleteEntry(id="a"), shapes.DeleteEntry(id="b")], attributes={"k": "v"}),
    ),
    (Nested, "Tags=", Nested(tags=[])),
]


@pytest.mark.parametrize(("shape", "form", "expected"), FORMS)
def test_forms_are_read(shape: type[Struct], form: str, expected: Struct) -> None:
    assert aws_query.read(shape, aws_query.parse(form.encode())) == expected


def test_a_form_and_a_query_string_are_one_set_of_parameters() -> None:
    parameters = aws_query.parse(b"a=1&b=2", b"b=3&c=%C3%BC")

    assert {name: aws_query.text(parameters, name) for name in parameters} == {"a": "1", "b": "3", "c": "ü"}
    assert aws_query.text(parameters, "d") is None


def test_a_large_value_is_decoded_as_a_small_one_is() -> None:
    value = "a=b c+ü%=" * 20_000

    assert aws_query.decode(quote_plus(value).encode()) == value


@pytest.mark.parametrize("bad", [b"%%41", b"%zz", b"%4", b"a\nb%41", b"%41\r"])
def test_a_large_value_must_be_escaped_well(bad: bytes) -> None:
    assert aws_query.decode(bad)
    with pytest.raises(AwsError, match="not well formed"):
        aws_query.decode(b"%41" * 30_000 + bad)


@pytest.mark.parametrize("bad", [b"MessageBody=%ff", "MessageBody=ü".encode(), b"&".join([b"a=1"] * 2_001), b"a" * 513])
def test_a_malformed_form_is_refused(bad: bytes) -> None:
    with pytest.raises(AwsError, match="not well formed"):
        aws_query.read(shapes.SendMessage, aws_query.parse(bad))


def test_a_number_of_thousands_of_digits_is_no_number() -> None:
    parameters = {f"AttributeName.{'9' * digits}": b"All" for digits in (1, 10, 5000)}

    assert aws_query.read(shapes.GetQueueAttributes, parameters).attribute_names == ["All"]


@pytest.mark.parametrize(
    "form",
    ["MessageBody.1=x", "DelaySeconds=x", "MessageAttribute.1.Value.DataType=String", "MessageAttribute.1=x"],
)
def test_a_form_of_the_wrong_shape_is_refused(form: str) -> None:
    with pytest.raises(AwsError) as found:
        aws_query.read(shapes.SendMessage, aws_query.parse(form.encode()))
    assert found.value.code == "MalformedInput"


@given(st.dictionaries(st.text("ab.1", max_size=30), st.text(max_size=3), max_size=20))
def test_any_form_is_read_or_refused(parameters: dict[str, str]) -> None:
    for shape in (shapes.SendMessageBatch, shapes.CreateQueue, Nested):
        with suppress(AwsError):
            aws_query.read(shape, aws_query.parse(urlencode(parameters).encode()))


# What goes in comes out

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
XML_TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        exclude_characters="".join(map(chr, [*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF])),
    ),
    max_size=20,
)
NAMES = XML_TEXT.filter(bool)


def values(shape: Plan, texts: st.SearchStrategy[str], name: str) -> st.SearchStrategy[Any]:
    if isinstance(shape, StructPlan):
        return members(shape, texts)
    if isinstance(shape, ListPlan):
        return st.lists(values(shape.item, texts, name), min_size=1, max_size=3)
    if isinstance(shape, MapPlan):
        return st.dictionaries(NAMES, values(shape.value, texts, name), min_size=1, max_size=3)
    if shape.blob:
        return st.binary(max_size=20)
    if name.startswith(("delay", "max_", "visibility_", "wait_", "approximate", "started")):
        return st.integers(-(2**31), 2**31)
    return st.booleans() if name == "sender_fault" else texts


def members(shape: StructPlan, texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: values(field.plan, texts, field.attribute) for field in shape.fields})


def neutral(value: Any) -> Any:
    """A Struct as JSON's own types, its bytes kept."""
    return msgspec.to_builtins(value, builtin_types=(bytes,))


INPUTS = [
    shapes.CreateQueue, shapes.SendMessage, shapes.SendMessageBatch, shapes.ReceiveMessage, shapes.DeleteMessageBatch,
    shapes.ChangeMessageVisibilityBatch, shapes.AddPermission, shapes.UntagQueue, shapes.TagQueue,
    shapes.StartMessageMoveTask,
]  # fmt: skip
OUTPUTS: list[type[Result]] = [
    shapes.QueueList, shapes.SourceList, shapes.AttributeList, shapes.TagList, shapes.SentBatch, shapes.Received,
    shapes.DeletedBatch, shapes.ChangedBatch, shapes.TaskList, NestedResult,
]  # fmt: skip


@pytest.mark.parametrize("shape", INPUTS, ids=lambda shape: shape.__name__)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_an_input_is_the_same_in_both_protocols(shape: type[Struct], data: st.DataObject) -> None:
    drawn = data.draw(members(plan(shape), TEXT))
    expected = msgspec.convert(drawn, shape)

    as_json = aws_json.read(msgspec.json.Decoder(shape), msgspec.json.encode(drawn))
    form = urlencode(flatten(drawn, action=shape.__name__))
    as_query = aws_query.read(shape, aws_query.parse(form.encode()))

    assert as_json == expected
    assert as_query == expected


@pytest.mark.parametrize("shape", OUTPUTS, ids=lambda shape: shape.__name__)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_an_output_is_the_same_in_both_protocols(shape: type[Result], data: st.DataObject) -> None:
    result = msgspec.convert(data.draw(members(plan(shape), XML_TEXT)), shape)

    as_json = msgspec.json.decode(aws_json.answer(result, ID).body, type=shape)
    answer = aws_xml.answer("Any", result, ID, NAMESPACE).body
    inner = ElementTree.fromstring(answer).find(f"{{{NAMESPACE}}}AnyResult")
    assert inner is not None
    as_xml = msgspec.convert(read_struct(plan(shape), inner), shape, strict=False)

    assert as_json == result
    assert neutral(as_xml) == neutral(result)


def read_struct(shape: StructPlan, element: ElementTree.Element) -> dict[str, Any]:
    """An XML answer read back by the same declarations."""
    found: dict[str, Any] = {}
    for field in shape.fields:
        value = read_member(field.plan, field.name, element)
        if value is not None:
            found[field.name] = value
    return found


def read_member(shape: Plan, name: str, element: ElementTree.Element) -> Any:
    if isinstance(shape, Scalar | StructPlan):
        inner = element.find(f"{{{NAMESPACE}}}{name}")
        return None if inner is None else read_item(shape, inner)
    names = shape.names
    place = element if names.flat else element.find(f"{{{NAMESPACE}}}{name}")
    items = [] if place is None else place.findall(f"{{{NAMESPACE}}}{names.item}")
    if isinstance(shape, ListPlan):
        return [read_item(shape.item, item) for item in items]
    pairs = ((item.find(f"{{{NAMESPACE}}}{names.key}"), item.find(f"{{{NAMESPACE}}}{names.value}")) for item in items)
    return {key.text: read_item(shape.value, value) for key, value in pairs if key is not None and value is not None}


def read_item(shape: Plan, element: ElementTree.Element) -> Any:
    return read_struct(shape, element) if isinstance(shape, StructPlan) else element.text or ""


# Sums and names


def test_sums_are_those_on_record() -> None:
    assert body_md5("hello") == "5d41402abc4b2a76b9719d911017c592"
    three = [("Hello", "String", "There"), ("General", "String", "Kenobi"), ("Help.Me", "String", "Me")]
    assert attributes_md5(three) == attributes_md5(reversed(three)) == "4c360f3fdafd970e05fae2f149d997f5"
    trace = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
    assert attributes_md5([("attr1", "Binary", trace)]) == "8cbe4db156db8a94db8b801b7addb984"


@given(st.integers(1, 2**52 - 1))
def test_a_uuid_leads_back_to_its_number(number: int) -> None:
    uuid = uuid_of(number)

    assert number_of(uuid) == number
    assert (uuid[14], uuid[19] in "89ab") == ("8", True)


@pytest.mark.parametrize("other", ["", "x", "00000000-0000-0000-0000-000000000000", uuid_of(5)[:-1] + "x"])
def test_another_uuid_is_none_of_ours(other: str) -> None:
    assert number_of(other) is None


def test_sequence_numbers_have_twenty_digits_and_rise() -> None:
    numbers = [sequence_number(number) for number in (1, 2, 10**6, 2**52)]

    assert {len(number) for number in numbers} == {20}
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("bad", ["", "dummy", "arn:aws:sqs:r:a", "arn:aws:sqs:r:a:", "x:aws:sqs:r:a:n"])
def test_what_is_no_arn(bad: str) -> None:
    assert parse_arn(bad) is None


def test_arns_have_partitions() -> None:
    assert str(parse_arn("arn:aws:sqs:eu-west-1:123456789012:a:b")) == "arn:aws:sqs:eu-west-1:123456789012:a:b"
    assert [partition_of(region) for region in ("us-east-1", "cn-north-1", "us-gov-west-1")] == [
        "aws",
        "aws-cn",
        "aws-us-gov",
    ]
