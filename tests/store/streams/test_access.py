"""A queue can be kept to some roles."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.store.streams.queue import Queue

PRODUCE = "select pgque.insert_event(%s, 'type', 'data')"
CONSUME = "select pgque.register_consumer(%s, 'c')"


@pytest.fixture
def roles(queue: Queue) -> Iterator[tuple[str, str]]:
    """Two who may use every queue that is open."""
    names = f"one_{uuid4().hex}", f"two_{uuid4().hex}"
    for name in names:
        queue.connection.execute(sql.SQL("create role {} in role pgque_writer").format(sql.Identifier(name)))
    yield names
    queue.connection.execute("reset role")
    for name in names:
        queue.connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def become(queue: Queue, role: str) -> None:
    queue.connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))


def may(queue: Queue, role: str, query: str) -> bool:
    become(queue, role)
    try:
        queue.rows(query, queue.name)
    except psycopg.errors.InsufficientPrivilege:
        return False
    finally:
        queue.connection.execute("reset role")
    return True


def test_a_queue_is_open_until_someone_is_granted_it(queue: Queue, roles: tuple[str, str]) -> None:
    one, two = roles
    assert may(queue, one, PRODUCE)
    assert may(queue, two, PRODUCE)
    queue.rows("select pgque.grant_queue(%s, %s, 'produce')", queue.name, one)

    assert may(queue, one, PRODUCE)
    assert not may(queue, two, PRODUCE)
    assert not may(queue, one, CONSUME)


def test_rights_are_separate_and_revoked(queue: Queue, roles: tuple[str, str]) -> None:
    one, two = roles
    queue.rows("select pgque.grant_queue(%s, %s, 'produce')", queue.name, one)
    queue.rows("select pgque.grant_queue(%s, %s, 'consume')", queue.name, two)
    assert may(queue, two, CONSUME)
    assert not may(queue, two, PRODUCE)

    queue.rows("select pgque.revoke_queue(%s, %s, 'produce')", queue.name, one)
    assert not may(queue, one, PRODUCE)
    queue.rows("select pgque.open_queue(%s)", queue.name)
    assert may(queue, one, PRODUCE)


def test_a_batch_of_someone_elses_queue_is_out_of_reach(queue: Queue, roles: tuple[str, str]) -> None:
    one, two = roles
    queue.rows("select pgque.grant_queue(%s, %s, 'consume')", queue.name, one)
    queue.register("c")
    queue.insert("a")
    queue.tick()
    batch = queue.open()
    for query in (
        "select * from pgque.get_batch_events(%s)",
        "select pgque.finish_batch(%s)",
        "select pgque.batch_retry(%s, 0)",
    ):
        become(queue, two)
        assert queue.refused(query, batch).sqlstate == "42501"
        queue.connection.execute("reset role")
    assert may(queue, one, "select pgque.next_batch(%s, 'c')")


def test_administrators_may_use_every_queue(queue: Queue, roles: tuple[str, str]) -> None:
    one, two = roles
    queue.rows("select pgque.grant_queue(%s, %s, 'produce')", queue.name, one)
    queue.connection.execute(sql.SQL("grant pgque_admin to {}").format(sql.Identifier(two)))

    assert may(queue, two, PRODUCE)


def test_a_role_that_does_not_exist_is_granted_nothing(queue: Queue) -> None:
    assert queue.refused("select pgque.grant_queue(%s, 'nobody', 'produce')", queue.name).sqlstate == "42704"
    assert queue.refused("select pgque.grant_queue(%s, current_user, 'own')", queue.name).sqlstate == "23514"
