"""boto3's SNS client against a server as its users start it: with queues, and endpoints that answer for themselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any
from urllib.request import ProxyHandler, build_opener

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from sns_message_validator import SNSMessageValidator  # type: ignore[import-untyped]

from tests import cluster
from tests.system.serving import Running, penstock, serving
from tests.third_party.environment import KEY, REGION, SECRET, eventually

CONFIG = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
DELIVERING = {"PENSTOCK_HTTP_DELIVERY_PRIVATE": "true", "QUEUE_HTTP_DELIVERY_POLL_MS": "50"}
WAIT_S = 20

open_url = build_opener(ProxyHandler({})).open


@pytest.fixture(scope="session")
def memory_notifier() -> Iterator[Running]:
    with serving("--memory", more=DELIVERING) as found:
        yield found


@pytest.fixture(scope="session")
def postgres_notifier(postgres_dsn: str) -> Iterator[Running]:
    with cluster.migrated_database(postgres_dsn) as url, serving(more={"DATABASE_URL": url, **DELIVERING}) as found:
        yield found


@pytest.fixture(scope="session", params=["memory", "postgres"])
def notifier(request: pytest.FixtureRequest) -> Running:
    """A server that may reach endpoints on this machine."""
    found: Running = request.getfixturevalue(f"{request.param}_notifier")
    return found


def connect(url: str, service: str, key: tuple[str, str] = (KEY, SECRET)) -> Any:
    make: Any = boto3.Session(*key, region_name=REGION).client
    return make(service, endpoint_url=url, config=CONFIG)


@pytest.fixture
def sns(notifier: Running) -> Any:
    return connect(notifier.url, "sns")


@pytest.fixture
def sqs(notifier: Running) -> Any:
    return connect(notifier.url, "sqs")


class Endpoint:
    """A web server that notes what it is sent."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        self.requests: SimpleQueue[tuple[dict[str, str], str]] = SimpleQueue()
        self.status = 200

    def next(self) -> tuple[dict[str, str], str]:
        return self.requests.get(timeout=WAIT_S)

    def notice(self, kind: str) -> dict[str, Any]:
        """The next one of its kind: an endpoint may be asked to confirm more than once."""
        while True:
            headers, body = self.next()
            if headers["x-amz-sns-message-type"] == kind:
                found: dict[str, Any] = json.loads(body)
                return found


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            here.requests.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(here.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = Endpoint(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield here
        server.shutdown()
        thread.join(10)


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


def arn_of(sqs: Any, url: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def received(sqs: Any, url: str, most: int = 10) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=5, AttributeNames=["All"], MessageAttributeNames=["All"]
    )
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def verified(envelope: dict[str, Any]) -> None:
    """By a verifier from PyPI, which fetches the certificate itself."""
    validator = SNSMessageValidator(
        cert_url_regex=r"^http://127\.0\.0\.1:[0-9]+/SimpleNotificationService-[0-9a-f]+\.pem$",
        signature_version=envelope["SignatureVersion"],
    )
    validator._cert_session.trust_env = False
    validator.validate_message(envelope)


def test_the_whole_life_of_a_standard_topic(sns: Any, sqs: Any, name: str, hook: Endpoint) -> None:
    topic = sns.create_topic(Name=name, Tags=[{"Key": "team", "Value": "shop"}])["TopicArn"]
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    to_queue = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn_of(sqs, queue))["SubscriptionArn"]
    asked = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=hook.url)
    assert asked["SubscriptionArn"] == "pending confirmation"

    question = hook.notice("SubscriptionConfirmation")
    verified(question)
    with open_url(question["SubscribeURL"], timeout=10) as answer:
        assert answer.status == 200
    attributes = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (attributes["SubscriptionsConfirmed"], attributes["SubscriptionsPending"]) == ("2", "0")

    sent = sns.publish(TopicArn=topic, Message="hello", Subject="Hi")
    (message,) = received(sqs, queue)
    by_queue, by_web = json.loads(message["Body"]), hook.notice("Notification")
    for found in (by_queue, by_web):
        assert (found["MessageId"], found["Message"], found["Subject"]) == (sent["MessageId"], "hello", "Hi")
        verified(found)

    with open_url(by_web["UnsubscribeURL"], timeout=10) as answer:
        assert answer.status == 200
    listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["SubscriptionArn"] for each in listed] == [to_queue]
    sns.unsubscribe(SubscriptionArn=to_queue)
    sns.publish(TopicArn=topic, Message="unheard")
    assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0).get("Messages") is None
    sns.delete_topic(TopicArn=topic)
    with pytest.raises(ClientError, match="Topic does not exist"):
        sns.publish(TopicArn=topic, Message="x")


def test_the_whole_life_of_a_fifo_topic(sns: Any, sqs: Any, name: str) -> None:
    topic = sns.create_topic(
        Name=f"{name}.fifo", Attributes={"FifoTopic": "true", "ContentBasedDeduplication": "true"}
    )["TopicArn"]
    queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    subscription = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn_of(sqs, queue), Attributes={"RawMessageDelivery": "true"}
    )["SubscriptionArn"]
    entries = [{"Id": str(n), "Message": f"m{n}", "MessageGroupId": f"g{n % 2}"} for n in range(6)]

    first = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    again = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)

    assert first["Successful"] == again["Successful"]
    numbers = [each["SequenceNumber"] for each in first["Successful"]]
    assert numbers == sorted(numbers)
    messages = received(sqs, queue)
    by_group: dict[str, list[str]] = {}
    for message in messages:
        by_group.setdefault(message["Attributes"]["MessageGroupId"], []).append(message["Body"])
    assert by_group == {"g0": ["m0", "m2", "m4"], "g1": ["m1", "m3", "m5"]}
    sns.unsubscribe(SubscriptionArn=subscription)
    sns.delete_topic(TopicArn=topic)
    assert sns.list_subscriptions().get("Subscriptions") is not None


def test_an_endpoint_is_told_about_the_notice_by_headers(sns: Any, name: str, hook: Endpoint) -> None:
    topic = sns.create_topic(Name=name, Attributes={"SignatureVersion": "2"})["TopicArn"]
    policy = json.dumps({"requestPolicy": {"headerContentType": "application/json"}})
    arn = sns.subscribe(
        TopicArn=topic,
        Protocol="http",
        Endpoint=hook.url,
        ReturnSubscriptionArn=True,
        Attributes={"DeliveryPolicy": policy},
    )["SubscriptionArn"]
    sns.confirm_subscription(TopicArn=topic, Token=hook.notice("SubscriptionConfirmation")["Token"])

    sent = sns.publish(TopicArn=topic, Message="x")

    headers, body = hook.next()
    assert {key: headers[key] for key in headers if key.startswith("x-amz-sns-")} == {
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": sent["MessageId"],
        "x-amz-sns-topic-arn": topic,
        "x-amz-sns-subscription-arn": arn,
    }
    assert headers["user-agent"] == "Amazon Simple Notification Service Agent"
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["SignatureVersion"] == "2"
    sns.set_subscription_attributes(SubscriptionArn=arn, AttributeName="RawMessageDelivery", AttributeValue="true")
    sns.publish(TopicArn=topic, Message="raw")
    headers, body = hook.next()
    assert (headers["x-amz-sns-rawdelivery"], body) == ("true", "raw")


def test_what_an_endpoint_refuses_ends_among_the_dead_letters(sns: Any, sqs: Any, name: str, hook: Endpoint) -> None:
    topic = sns.create_topic(Name=name)["TopicArn"]
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = sns.subscribe(
        TopicArn=topic,
        Protocol="http",
        Endpoint=hook.url,
        ReturnSubscriptionArn=True,
        Attributes={
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn_of(sqs, dead)}),
            "DeliveryPolicy": json.dumps(
                {
                    "healthyRetryPolicy": {
                        "numRetries": 1,
                        "minDelayTarget": 1,
                        "maxDelayTarget": 1,
                        "numNoDelayRetries": 1,
                    }
                }
            ),
        },
    )["SubscriptionArn"]
    sns.confirm_subscription(TopicArn=topic, Token=hook.notice("SubscriptionConfirmation")["Token"])
    assert sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]["PendingConfirmation"] == "false"
    hook.status = 500

    sns.publish(TopicArn=topic, Message="unwanted")

    (message,) = eventually(lambda: received(sqs, dead), timeout=WAIT_S)
    assert json.loads(message["Body"])["Message"] == "unwanted"


def test_the_key_outlives_the_server_and_is_shared_by_nodes(postgres_dsn: str, name: str) -> None:
    def certificate(server: Running) -> str:
        with open_url(f"{server.url}/SimpleNotificationService.pem", timeout=10) as answer:
            return str(answer.read().decode())

    with cluster.migrated_database(postgres_dsn) as url:
        more = {"DATABASE_URL": url}
        with serving(more=more) as one, serving(more=more) as other:
            found = {certificate(one), certificate(other)}
        with serving(more=more) as later:
            found.add(certificate(later))

    assert len(found) == 1


def test_signed_requests_are_verified_for_the_service_they_name(postgres_dsn: str, name: str) -> None:
    with cluster.migrated_database(postgres_dsn) as url:
        made = penstock("token", "create", "--aws", "--json", more={"DATABASE_URL": url})
        assert made.returncode == 0, made.stderr
        token = json.loads(made.stdout)
        with serving("--auth", "sigv4", more={"DATABASE_URL": url}) as server:
            good = connect(server.url, "sns", (token["access_key_id"], token["secret_access_key"]))
            bad = connect(server.url, "sns", (token["access_key_id"], "wrong"))

            assert good.create_topic(Name=name)["TopicArn"].endswith(name)
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                bad.list_topics()
