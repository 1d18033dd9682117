"""SQS to the byte: what the protocols look like below the SDKs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from tests.plain import PLAIN
from tests.wire.amazon import NAMESPACE, Clients, Raw, Sqs, text, xml
from tests.wire.conftest import Live, running

NO_QUEUE = "The specified queue does not exist."
NO_QUEUE_QUERY = "The specified queue does not exist for this wsdl version."


@pytest.fixture
async def queue(raw: Raw) -> str:
    """The path of a new queue."""
    name = f"q-{uuid4().hex[:12]}"
    assert (await raw.json("CreateQueue", {"QueueName": name})).status_code == 200
    return f"/000000000000/{name}"


class TestErrors:
    async def test_in_json_have_a_type_and_the_older_code_in_a_header(self, raw: Raw) -> None:
        answer = await raw.json("GetQueueUrl", {"QueueName": "nowhere"})

        assert answer.status_code == 400
        assert answer.json() == {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": NO_QUEUE}
        assert answer.headers["x-amzn-query-error"] == "AWS.SimpleQueueService.NonExistentQueue;Sender"
        assert answer.headers["content-type"] == "application/x-amz-json-1.0"

    @pytest.mark.parametrize(
        ("action", "given", "kind", "code"),
        [
            ("SendMessage", {"QueueUrl": "QUEUE"}, "MissingRequiredParameterException", "MissingParameter"),
            (
                "ReceiveMessage",
                {"QueueUrl": "QUEUE", "WaitTimeSeconds": 21},
                "InvalidParameterValueException",
                "InvalidParameterValue",
            ),
            (
                "GetQueueAttributes",
                {"QueueUrl": "QUEUE", "AttributeNames": ["X"]},
                "InvalidAttributeName",
                "InvalidAttributeName",
            ),
            (
                "SetQueueAttributes",
                {"QueueUrl": "QUEUE", "Attributes": {"DelaySeconds": "x"}},
                "InvalidAttributeValue",
                "InvalidAttributeValue",
            ),
            (
                "SendMessageBatch",
                {"QueueUrl": "QUEUE", "Entries": []},
                "EmptyBatchRequest",
                "AWS.SimpleQueueService.EmptyBatchRequest",
            ),
        ],
    )
    async def test_have_names_in_pairs(
        self, raw: Raw, queue: str, action: str, given: dict[str, object], kind: str, code: str
    ) -> None:
        given = given | {"QueueUrl": queue}

        answer = await raw.json(action, given)
        older = await raw.query(action, given)

        assert answer.json()["__type"].partition("#")[2] == kind
        assert answer.headers["x-amzn-query-error"] == f"{code};Sender"
        assert text(xml(older), "Error", "Code") == code

    async def test_in_xml_say_whose_fault_it_is_and_no_more(self, raw: Raw) -> None:
        answer = await raw.query("GetQueueUrl", {"QueueName": "nowhere"})

        assert answer.status_code == 400
        request_id = answer.headers["x-amzn-requestid"]
        assert answer.text == (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type>'
            f"<Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>{NO_QUEUE_QUERY}</Message><Detail/></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        assert str(UUID(request_id)) == request_id
        assert answer.headers["content-type"] == "text/xml"

    async def test_of_an_unknown_action(self, raw: Raw) -> None:
        answer = await raw.json("Levitate", {})
        older = await raw.query("Levitate", {})

        assert answer.status_code == 400
        assert answer.json()["__type"].endswith("#UnknownOperationException")
        assert older.status_code == 400
        assert text(xml(older), "Error", "Code") == "InvalidAction"
        assert text(xml(older), "Error", "Message") == "The action Levitate is not valid for this endpoint."

    async def test_of_a_service_that_is_not_here(self, raw: Raw) -> None:
        head = {"x-amz-target": "DynamoDB_20120810.ListTables", "authorization": "x"}
        answer = await raw.http.post("/", content=b"{}", headers=head)

        assert answer.json()["__type"].endswith("#UnknownOperationException")

    async def test_of_a_body_that_is_no_json(self, raw: Raw, queue: str) -> None:
        answer = await raw.json("SendMessage", b"{")

        assert answer.status_code == 400
        assert answer.json()["__type"] == "com.amazon.coral.service#SerializationException"
        assert answer.headers["x-amzn-query-error"] == "MalformedInput;Sender"


class TestAbsence:
    async def test_of_everything_that_is_empty(self, raw: Raw, queue: str) -> None:
        sent = await raw.json(
            "SendMessageBatch", {"QueueUrl": queue, "Entries": [{"Id": "a", "MessageBody": "x", "DelaySeconds": 900}]}
        )

        assert (await raw.json("ReceiveMessage", {"QueueUrl": queue})).json() == {}
        assert (await raw.json("ListQueueTags", {"QueueUrl": queue})).json() == {}
        assert (await raw.json("GetQueueAttributes", {"QueueUrl": queue})).json() == {}
        assert (await raw.json("ListQueues", {"QueueNamePrefix": uuid4().hex})).json() == {}
        assert set(sent.json()) == {"Successful"}
        assert set(sent.json()["Successful"][0]) == {"Id", "MessageId", "MD5OfMessageBody"}
        answer = await raw.query("ReceiveMessage", {"QueueUrl": queue})
        assert "<ReceiveMessageResult/>" in answer.text

    async def test_of_a_result_where_the_action_has_none(self, raw: Raw, queue: str) -> None:
        answer = await raw.json("PurgeQueue", {"QueueUrl": queue})
        older = await raw.query("PurgeQueue", {"QueueUrl": queue})

        assert answer.content == b""
        request_id = older.headers["x-amzn-requestid"]
        assert older.text == (
            f'<?xml version="1.0"?><PurgeQueueResponse xmlns="{NAMESPACE}">'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></PurgeQueueResponse>"
        )


class TestQueueUrls:
    async def test_take_json_too(self, raw: Raw, queue: str) -> None:
        answer = await raw.json("SendMessage", {"MessageBody": "x"}, queue)
        found = await raw.json("ReceiveMessage", {"QueueUrl": f"http://somewhere{queue}"}, queue)

        assert answer.headers["content-type"] == "application/x-amz-json-1.0"
        assert found.json()["Messages"][0]["Body"] == "x"

    async def test_take_forms(self, raw: Raw, queue: str) -> None:
        answer = await raw.query("SendMessage", {"MessageBody": "x"}, queue)

        assert text(xml(answer), "SendMessageResult", "MessageId")

    async def test_take_gets(self, raw: Raw, queue: str) -> None:
        await raw.get(queue, Action="SendMessage", MessageBody="x y")
        answer = await raw.get(queue, Action="ReceiveMessage")

        assert text(xml(answer), "ReceiveMessageResult", "Message", "Body") == "x y"

    async def test_take_the_region_from_credentials_in_the_query(self, raw: Raw) -> None:
        name = uuid4().hex
        await Raw(raw.http, "eu-west-3").json("CreateQueue", {"QueueName": name})
        path = f"/000000000000/{name}"

        here = await raw.get(path, Action="ReceiveMessage")
        credential = {"X-Amz-Credential": "AKIDEXAMPLE/20260101/eu-west-3/sqs/aws4_request"}
        there = await raw.get(path, None, Action="ReceiveMessage", **credential)

        assert (here.status_code, there.status_code) == (400, 200)

    async def test_yield_to_the_url_among_the_parameters(self, raw: Raw, queue: str) -> None:
        answer = await raw.get(queue, Action="ReceiveMessage", QueueUrl="http://here/000000000000/other")

        assert text(xml(answer), "Error", "Code") == "AWS.SimpleQueueService.NonExistentQueue"

    @pytest.mark.parametrize("accept", ["*/*", "application/json"])
    async def test_without_an_action_are_an_unknown_operation_in_xml(self, raw: Raw, queue: str, accept: str) -> None:
        answer = await raw.get(queue, {"accept": accept})

        assert answer.status_code == 404
        assert xml(answer).tag == "UnknownOperationException"

    @pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
    async def test_do_not_take_actions_of_no_queue(self, raw: Raw, queue: str, action: str) -> None:
        answer = await raw.get(queue, Action=action, QueueName="x")

        assert answer.status_code == 400
        assert text(xml(answer), "Error", "Code") == "InvalidAction"
        assert text(xml(answer), "Error", "Message") == f"The action {action} is not valid for this endpoint."

    async def test_give_the_urls_of_others(self, raw: Raw, queue: str, live: Live) -> None:
        name = queue.rpartition("/")[2]
        answer = await raw.get("/000000000000/another", Action="GetQueueUrl", QueueName=name)

        assert text(xml(answer), "GetQueueUrlResult", "QueueUrl") == f"{live.url}{queue}"

    @pytest.mark.parametrize("account", ["123456789012", "queue", "anything"])
    async def test_work_under_any_account(self, raw: Raw, queue: str, account: str) -> None:
        path = queue.replace("000000000000", account)

        assert (await raw.get(path, Action="ReceiveMessage")).status_code == 200
        assert (await raw.query("ReceiveMessage", {}, path)).status_code == 200
        assert (await raw.json("ReceiveMessage", {"QueueUrl": f"http://here{path}"})).status_code == 200

    @pytest.mark.parametrize(
        "url", ["http://aws-local:12345/000000000000/{}", "https://x/{}", "{}", "/000000000000/{}"]
    )
    async def test_of_any_host_will_do_and_a_bare_name_too(self, raw: Raw, queue: str, url: str) -> None:
        name = queue.rpartition("/")[2]

        answer = await raw.json("ReceiveMessage", {"QueueUrl": url.format(name)})

        assert answer.status_code == 200

    async def test_have_the_host_the_client_used(self, raw: Raw) -> None:
        answer = await raw.query("CreateQueue", {"QueueName": uuid4().hex}, host="aws-local:12345")

        assert "http://aws-local:12345/000000000000/" in answer.text

    async def test_have_the_base_url_when_one_is_set(self) -> None:
        async with (
            running(base_url="https://queues.example.com/sqs") as live,
            httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http,
        ):
            answer = await Raw(http).json("CreateQueue", {"QueueName": "q"})

        assert answer.json()["QueueUrl"] == "https://queues.example.com/sqs/000000000000/q"


ACCEPT = {"accept": "application/json"}


class TestJsonOfQuery:
    async def test_lists(self, raw: Raw, queue: str, live: Live) -> None:
        answer = await raw.get("/", ACCEPT, Action="ListQueues", QueueNamePrefix=queue.rpartition("/")[2])

        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["ListQueuesResponse"]["ListQueuesResult"] == {"queueUrls": [f"{live.url}{queue}"]}

    async def test_messages_and_attributes(self, raw: Raw, queue: str) -> None:
        await raw.get(queue, ACCEPT, Action="SendMessage", MessageBody="x")

        received = await raw.get(queue, ACCEPT, Action="ReceiveMessage")
        attributes = await raw.get(queue, ACCEPT, **{"Action": "GetQueueAttributes", "AttributeName.1": "DelaySeconds"})

        messages = received.json()["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"]
        assert [message["Body"] for message in messages] == ["x"]
        assert attributes.json()["GetQueueAttributesResponse"]["GetQueueAttributesResult"] == {
            "Attributes": [{"Name": "DelaySeconds", "Value": "0"}]
        }

    async def test_errors(self, raw: Raw) -> None:
        answer = await raw.get("/000000000000/nowhere", ACCEPT, Action="ReceiveMessage")

        assert answer.status_code == 400
        error = answer.json()["Error"]
        assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
        assert error["Message"] == NO_QUEUE_QUERY


class TestNeighbours:
    """The door takes no path from those who were there before."""

    @pytest.mark.parametrize("path", ["/", "/dashboard", "/docs", "/static/penstock.css"])
    async def test_pages_are_served(self, raw: Raw, path: str) -> None:
        answer = await raw.get(path)

        assert answer.status_code == 200
        assert "xml" not in answer.headers["content-type"]

    async def test_an_unknown_page_is_a_page(self, raw: Raw) -> None:
        answer = await raw.http.get("/docs/nothing", headers={"accept": "text/html"})

        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")

    async def test_the_native_door_is_served(self, raw: Raw) -> None:
        answer = await raw.http.get("/v1/queues", headers={"authorization": "Bearer x"})
        unknown = await raw.http.post(
            "/v1/nothing", headers={"authorization": "Bearer x"}, data={"Action": "ListQueues"}
        )

        assert answer.status_code == 200
        assert unknown.json()["code"] == "NotFound"

    async def test_both_doors_see_one_message(self, raw: Raw, queue: str) -> None:
        name = queue.rpartition("/")[2]
        native = {"authorization": "Bearer x"}
        given = {"n": {"DataType": "Number", "StringValue": "7"}, "b": {"DataType": "Binary", "BinaryValue": "AAE="}}
        await raw.json("SendMessage", {"QueueUrl": queue, "MessageBody": "hé", "MessageAttributes": given})
        [message] = (await raw.http.get(f"/v1/queues/{name}/messages?vt=0", headers=native)).json()

        assert message["message"] == "hé"
        assert message["attributes"] == {
            "n": {"type": "Number", "value": "7"},
            "b": {"type": "Binary", "value": "AAE="},
        }
        body = {"message": {"a": [1]}, "attributes": message["attributes"]}
        await raw.http.post(f"/v1/queues/{name}/messages", headers=native, json=body)
        found = await raw.json(
            "ReceiveMessage", {"QueueUrl": queue, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        )
        assert [item["Body"] for item in found.json()["Messages"]] == ["hé", '{"a":[1]}']
        assert [item["MessageAttributes"] for item in found.json()["Messages"]] == [given, given]


class TestTraces:
    async def test_come_from_the_http_header_too(self, raw: Raw, queue: str) -> None:
        await raw.json("SendMessage", {"QueueUrl": queue, "MessageBody": "x"}, **{"x-amzn-trace-id": "Root=1-2-3"})

        answer = await raw.json("ReceiveMessage", {"QueueUrl": queue, "AttributeNames": ["AWSTraceHeader"]})

        assert answer.json()["Messages"][0]["Attributes"] == {"AWSTraceHeader": "Root=1-2-3"}

    async def test_of_the_message_win(self, raw: Raw, queue: str) -> None:
        given = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=own"}}
        sent = {"QueueUrl": queue, "MessageBody": "x", "MessageSystemAttributes": given}
        await raw.json("SendMessage", sent, **{"x-amzn-trace-id": "Root=header"})

        answer = await raw.json("ReceiveMessage", {"QueueUrl": queue, "AttributeNames": ["All"]})

        assert answer.json()["Messages"][0]["Attributes"]["AWSTraceHeader"] == "Root=own"


class TestRequestIds:
    async def test_differ(self, raw: Raw) -> None:
        ids = {(await raw.json("ListQueues", {"MaxResults": 1})).headers["x-amzn-requestid"] for _ in range(5)}

        assert len(ids) == 5
        assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found) for found in ids)


class TestCarriageReturns:
    async def test_are_written_as_references(self, raw: Raw, queue: str) -> None:
        body = 'a\rb"c&quot;<&>😇'
        await raw.json("SendMessage", {"QueueUrl": queue, "MessageBody": body})

        answer = await raw.query("ReceiveMessage", {"QueueUrl": queue})

        assert "<Body>a&#xD;b&quot;c&amp;quot;&lt;&amp;&gt;😇</Body>" in answer.text
        assert text(xml(answer), "ReceiveMessageResult", "Message", "Body") == body


class TestSignatures:
    @pytest.fixture
    async def signed(self) -> AsyncIterator[Live]:
        async with running(Mode.SIGV4) as live:
            yield live

    async def test_are_required_and_verified(self, signed: Live, clients: Clients) -> None:
        async with httpx.AsyncClient(base_url=signed.url, trust_env=False, verify=PLAIN) as http:
            nobody = await http.post("/", headers={"x-amz-target": "AmazonSQS.ListQueues"}, content=b"{}")
            older = await http.get("/?Action=ListQueues")
            forged = await Raw(http).json("ListQueues", {})

        assert nobody.status_code == 403
        assert nobody.json()["__type"].endswith("#MissingAuthenticationToken")
        assert text(xml(older), "Error", "Code") == "MissingAuthenticationToken"
        assert forged.status_code in (400, 403)

    async def test_of_a_known_key_pass_and_reach_what_it_may(self, signed: Live, clients: Clients) -> None:
        token, secret = await signed.engine.tenants.create_token(
            DEFAULT_TENANT, "sender", frozenset({Scope.SEND, Scope.MANAGE}), queues="mine-*", aws=True
        )
        for protocol in ("json", "query"):
            client = clients.make(protocol, signed.url, key=(token.prefix, secret))
            sqs = Sqs(client, protocol)
            url = await sqs.queue("mine-1")
            await sqs.send(url, "x")
            with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
                await sqs.receive(url)
            with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
                await sqs.queue("theirs")


async def test_a_large_form_is_read(raw: Raw, queue: str) -> None:
    answer = await raw.query("SendMessage", {"QueueUrl": queue, "MessageBody": "\U0001f607" * 262_144})

    assert answer.status_code == 200
    found = await raw.query("ReceiveMessage", {"QueueUrl": queue})
    assert text(xml(found), "ReceiveMessageResult", "Message", "Body") == "\U0001f607" * 262_144


async def test_unknown_members_are_ignored(raw: Raw, queue: str) -> None:
    given = {"QueueUrl": queue, "MessageBody": "x", "Colour": "blue", "Nothing": None}

    assert (await raw.json("SendMessage", given)).status_code == 200
    assert (await raw.query("SendMessage", given)).status_code == 200


async def test_attributes_may_be_bare_numbers_and_booleans(raw: Raw) -> None:
    name = f"{uuid4().hex}.fifo"
    given = {"FifoQueue": True, "DelaySeconds": 5, "ContentBasedDeduplication": False, "VisibilityTimeout": None}

    assert (await raw.json("CreateQueue", {"QueueName": name, "Attributes": given})).status_code == 200

    answer = await raw.json("GetQueueAttributes", {"QueueUrl": name, "AttributeNames": ["DelaySeconds"]})
    assert json.loads(answer.content) == {"Attributes": {"DelaySeconds": "5"}}
