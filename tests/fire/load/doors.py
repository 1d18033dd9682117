"""The doors to a queue: SQS through boto3, the native REST API over raw HTTP, and SQL. Each call is recorded."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import boto3
import httpx
import psycopg
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

from penstock.model.uuids import number_of
from tests.fire.history import Answer, Outcome, Recorder
from tests.plain import PLAIN

TIMEOUT_S = 8.0
ATTRIBUTE = "check"


class Refused(Exception):
    """The server said no, and changed nothing."""


class Unsure(Exception):
    """No answer came, or one that does not tell whether something was changed."""


class Door(ABC):
    """One connection of one client. `urls` are the nodes; an error moves on to the next."""

    name: str

    def __init__(self, recorder: Recorder, urls: Sequence[str]) -> None:
        self._recorder = recorder
        self._urls = list(urls)
        self._turn = 0

    @property
    def url(self) -> str:
        return self._urls[self._turn % len(self._urls)]

    def send(self, queue: str, messages: list[dict[str, Any]]) -> Answer:
        """The messages are dicts of body, attributes, delay, group and dedup_id; `refused` are their places."""
        given = {"messages": messages, "door": self.name}
        return self._call("send", queue, given, lambda: self._send(queue, messages))

    def receive(self, queue: str, limit: int, vt: int, wait: int = 0) -> list[dict[str, Any]]:
        given = {"max": limit, "vt": vt, "wait": wait, "door": self.name}
        answer = self._call("receive", queue, given, lambda: self._receive(queue, limit, vt, wait))
        return answer.result if answer.ok else []

    def delete(self, queue: str, deliveries: list[dict[str, Any]]) -> Outcome:
        """One request; the history has one call for each message."""
        numbers = [self._recorder.begin("delete", queue, self._handle(each)) for each in deliveries]
        outcome: Outcome = "ok"
        deleted: set[str] = set()
        try:
            deleted = self._delete(queue, deliveries)
        except Exception as error:
            outcome = self._classify(error)
        for number, each in zip(numbers, deliveries, strict=True):
            self._recorder.end(number, outcome, each["id"] in deleted if outcome == "ok" else None)
        return outcome

    def hide(self, queue: str, delivery: dict[str, Any], seconds: int) -> Answer:
        given = {**self._handle(delivery), "seconds": seconds}
        return self._call("hide", queue, given, lambda: self._hide(queue, delivery, seconds))

    def _handle(self, delivery: dict[str, Any]) -> dict[str, Any]:
        return {name: delivery[name] for name in ("id", "count", "receipt")} | {"door": self.name}

    def _call(self, op: str, queue: str, given: dict[str, Any], act: Callable[[], Any]) -> Answer:
        answer = self._recorder.call(op, queue, given, act, self._classify)
        if answer.outcome == "unknown":
            time.sleep(0.05)
        return answer

    def _classify(self, error: Exception) -> Outcome:
        if isinstance(error, Refused):
            return "fail"
        self._turn += 1
        self.reconnect()
        return "fail" if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)) else "unknown"

    def reconnect(self) -> None:
        """Drop a connection that may be broken. HTTP clients do so by themselves."""
        return

    @abstractmethod
    def _send(self, queue: str, messages: list[dict[str, Any]]) -> dict[str, Any]: ...

    @abstractmethod
    def _receive(self, queue: str, limit: int, vt: int, wait: int) -> list[dict[str, Any]]: ...

    @abstractmethod
    def _delete(self, queue: str, deliveries: list[dict[str, Any]]) -> set[str]: ...

    @abstractmethod
    def _hide(self, queue: str, delivery: dict[str, Any], seconds: int) -> bool: ...


class Rest(Door):
    name = "rest"

    def __init__(self, recorder: Recorder, urls: Sequence[str], token: str) -> None:
        super().__init__(recorder, urls)
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(headers=headers, timeout=TIMEOUT_S, verify=PLAIN, trust_env=False)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The answer as JSON. A status below 500 that is not a success is `Refused`, one above `Unsure`."""
        answer = self._http.request(method, self.url + path, json=body, params=query or None)
        if answer.status_code >= 500 or answer.status_code == 408:
            raise Unsure(f"{answer.status_code} {answer.text[:100]}")
        if answer.status_code >= 400:
            raise Refused(f"{answer.status_code} {answer.text[:100]}")
        return answer.json() if answer.content else None

    def close(self) -> None:
        self._http.close()

    def text(self, path: str) -> str:
        return self._http.get(self.url + path).raise_for_status().text

    def _send(self, queue: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        entries = [
            {
                "message": each["body"],
                **{name: each[key] for name, key in _REST if each.get(key) is not None},
                "attributes": {
                    name: {"type": "String", "value": value} for name, value in (each.get("attributes") or {}).items()
                },
            }
            for each in messages
        ]
        answer = self.ask("POST", f"/v1/queues/{name_of(queue)}/messages", entries)
        return {"refused": [error["index"] for error in answer.get("errors", [])]}

    def _receive(self, queue: str, limit: int, vt: int, wait: int) -> list[dict[str, Any]]:
        answer = self.ask("GET", f"/v1/queues/{name_of(queue)}/messages", max=limit, vt=vt, wait=wait)
        return [
            {
                "id": str(each["id"]),
                "count": each["read_count"],
                "body": each["message"],
                "attributes": {name: found["value"] for name, found in (each.get("attributes") or {}).items()},
                "group": each.get("group_id"),
                "headers": each.get("headers"),
                "receipt": each["receipt"],
            }
            for each in answer
        ]

    def _delete(self, queue: str, deliveries: list[dict[str, Any]]) -> set[str]:
        answer = self.ask(
            "DELETE", f"/v1/queues/{name_of(queue)}/messages", {"receipts": [each["receipt"] for each in deliveries]}
        )
        return {str(number) for number in answer["deleted"]}

    def _hide(self, queue: str, delivery: dict[str, Any], seconds: int) -> bool:
        try:
            body = {"vt": seconds, "receipt": delivery["receipt"]}
            self.ask("PATCH", f"/v1/queues/{name_of(queue)}/messages/{delivery['id']}", body)
        except Refused:
            return False
        return True


_REST = (("delay", "delay"), ("group_id", "group"), ("dedup_id", "dedup_id"))


def name_of(queue: str) -> str:
    """Its name at the server. In histories, queues of another tenant have its name in front."""
    return queue.rpartition(":")[2]


class Sqs(Door):
    name = "sqs"

    def __init__(self, recorder: Recorder, urls: Sequence[str], key: str, secret: str) -> None:
        super().__init__(recorder, urls)
        self._key, self._secret = key, secret
        self._clients: dict[str, Any] = {}

    @property
    def _sqs(self) -> Any:
        if self.url not in self._clients:
            config = Config(
                retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=TIMEOUT_S, parameter_validation=False
            )
            session: Any = boto3.Session(self._key, self._secret, region_name="us-east-1")
            self._clients[self.url] = session.client("sqs", endpoint_url=self.url, config=config)
        return self._clients[self.url]

    def _classify(self, error: Exception) -> Outcome:
        if isinstance(error, ClientError):
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return super()._classify(Unsure() if status >= 500 else Refused())
        if isinstance(error, (EndpointConnectionError, ConnectTimeoutError)):
            self._turn += 1
            return "fail"
        return super()._classify(error)

    def _at(self, queue: str) -> str:
        return f"{self.url}/000000000000/{queue}"

    def _send(self, queue: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        entries = []
        for place, each in enumerate(messages):
            entry: dict[str, Any] = {"Id": str(place), "MessageBody": each["body"]}
            if each.get("attributes"):
                entry["MessageAttributes"] = {
                    name: {"DataType": "String", "StringValue": value} for name, value in each["attributes"].items()
                }
            entry |= {name: each[key] for name, key in _SQS if each.get(key) is not None}
            entries.append(entry)
        answer = self._sqs.send_message_batch(QueueUrl=self._at(queue), Entries=entries)
        return {"refused": [int(failed["Id"]) for failed in answer.get("Failed", [])]}

    def _receive(self, queue: str, limit: int, vt: int, wait: int) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=self._at(queue), MaxNumberOfMessages=min(limit, 10), VisibilityTimeout=vt, WaitTimeSeconds=wait,
            MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"],
        )  # fmt: skip
        return [
            {
                "id": str(number_of(each["MessageId"])),
                "count": int(each["Attributes"]["ApproximateReceiveCount"]),
                "body": each["Body"],
                "attributes": {name: found["StringValue"] for name, found in each.get("MessageAttributes", {}).items()},
                "group": each["Attributes"].get("MessageGroupId"),
                "receipt": each["ReceiptHandle"],
            }
            for each in answer.get("Messages", [])
        ]

    def _delete(self, queue: str, deliveries: list[dict[str, Any]]) -> set[str]:
        entries = [{"Id": str(place), "ReceiptHandle": each["receipt"]} for place, each in enumerate(deliveries)]
        answer = self._sqs.delete_message_batch(QueueUrl=self._at(queue), Entries=entries)
        return {deliveries[int(done["Id"])]["id"] for done in answer.get("Successful", [])}

    def _hide(self, queue: str, delivery: dict[str, Any], seconds: int) -> bool:
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._at(queue), ReceiptHandle=delivery["receipt"], VisibilityTimeout=seconds
            )
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise
            return False
        return True


_SQS = (("DelaySeconds", "delay"), ("MessageGroupId", "group"), ("MessageDeduplicationId", "dedup_id"))


class Sql(Door):
    """Directly on PostgreSQL, with one connection. `urls` are connection strings."""

    name = "sql"
    _connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def reconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _classify(self, error: Exception) -> Outcome:
        if isinstance(error, Unsure):
            self._turn += 1
            return "fail"  # it never connected
        if isinstance(error, psycopg.Error) and error.sqlstate is not None and error.sqlstate[:2] == "PS":
            return "fail"
        return super()._classify(error)

    def rows(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        if self._connection is None:
            try:
                self._connection = psycopg.connect(self.url, autocommit=True, connect_timeout=3)
            except psycopg.Error as error:
                raise Unsure(str(error)) from error
            self._connection.execute("set statement_timeout = '8s'")
        return self._connection.execute(statement.encode(), arguments).fetchall()

    def _send(self, queue: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        first = messages[0]
        self.rows(
            "select penstock.send_batch(%s, %s, delay_s => %s, group_id => %s, dedup_ids => %s)",
            queue, [each["body"] for each in messages], first.get("delay"), first.get("group"),
            [each["dedup_id"] for each in messages] if first.get("dedup_id") else None,
        )  # fmt: skip
        return {"refused": []}

    def _receive(self, queue: str, limit: int, vt: int, wait: int) -> list[dict[str, Any]]:
        rows = self.rows(
            "select id, lease, body, receives, attributes, headers, group_id"
            " from penstock.receive(%s, visibility_timeout_s => %s, max_messages => %s)",
            queue, vt, limit,
        )  # fmt: skip
        return [
            {
                "id": str(number),
                "receipt": lease,
                "body": body,
                "count": receives,
                "attributes": {name: found["value"] for name, found in (attributes or {}).items()},
                "headers": headers,
                "group": group,
            }
            for number, lease, body, receives, attributes, headers, group in rows
        ]

    def _delete(self, queue: str, deliveries: list[dict[str, Any]]) -> set[str]:
        ids, leases = [int(each["id"]) for each in deliveries], [each["receipt"] for each in deliveries]
        [[deleted]] = self.rows("select penstock.delete_batch(%s, %s, %s)", queue, ids, leases)
        return {str(number) for number in deleted}

    def _hide(self, queue: str, delivery: dict[str, Any], seconds: int) -> bool:
        statement = "select penstock.change_visibility(%s, %s, %s, lease => %s) is not null"
        [[done]] = self.rows(statement, queue, int(delivery["id"]), seconds, delivery["receipt"])
        return bool(done)
