"""Every error of the tree has its status, by the one table."""

from __future__ import annotations

import json

import pytest

from penstock import errors
from penstock.wire.http.faults import FAULTS, json_fault, status_of
from penstock.wire.http.messages import Refusal
from penstock.wire.rest.door import rest_fault


@pytest.mark.parametrize("kind", errors.BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_table(kind: type[errors.PenstockError]) -> None:
    assert kind in FAULTS
    response = json_fault(kind(), "r1")
    body = json.loads(response.body)

    assert response.status == FAULTS[kind]
    assert body["code"] == kind.__name__
    assert body["error"]


def test_only_unforeseen_errors_and_a_missing_database_are_the_servers_fault() -> None:
    assert {kind for kind, status in FAULTS.items() if status >= 500} == {
        errors.PenstockError,
        errors.Unavailable,
        errors.Unsupported,
    }


def test_a_new_kind_of_error_has_the_status_of_its_parent() -> None:
    class Odd(errors.Conflict):
        pass

    assert status_of(Odd()) == 409


def test_the_field_is_told_when_it_is_known() -> None:
    known = json.loads(json_fault(errors.Invalid("no", field="delay"), "r").body)
    unknown = json.loads(json_fault(errors.Invalid("no"), "r").body)

    assert known == {"error": "no", "code": "Invalid", "field": "delay"}
    assert unknown == {"error": "no", "code": "Invalid"}


def test_a_missing_queue_is_the_one_of_the_path_unless_said_otherwise() -> None:
    error = errors.QueueNotFound("q")
    assert json.loads(rest_fault(error, "r").body)["field"] == "name"
    error.field = "destination"
    assert json.loads(rest_fault(error, "r").body)["field"] == "destination"


def test_a_refusal_lists_what_is_allowed() -> None:
    response = json_fault(Refusal(405, "MethodNotAllowed", "no", allow=["GET"]), "r")

    assert (response.status, response.headers) == (405, ((b"allow", b"GET, OPTIONS"),))
