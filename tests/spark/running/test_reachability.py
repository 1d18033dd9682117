"""Addresses of Spark servers. That silent and closed ports are found is tested with the command line."""

from __future__ import annotations

import socket

import pytest

from penstock.spark.running.reachability import UnreachableError, check_reachable


def test_masters_on_this_machine_and_of_yarn_are_not_checked() -> None:
    for master in (None, "local[*]", "local", "yarn"):
        check_reachable(master, None)


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}", None)
        check_reachable(f"k8s://https://127.0.0.1:{port}", None)
        check_reachable(None, f"sc://127.0.0.1:{port}/;token=x")


@pytest.mark.parametrize(
    ("master", "remote", "problem"),
    [
        (None, "http://127.0.0.1", "http://127.0.0.1 is not the address of a Spark Connect server"),
        (None, "127.0.0.1:15002", "is not the address of a Spark Connect server, such as sc://host:15002"),
        ("spark://127.0.0.1:x", None, "127.0.0.1:x is not an address of the form host:port"),
        ("k8s://127.0.0.1:1", None, "no Kubernetes API server answers at k8s://127.0.0.1:1: Connection refused"),
    ],
    ids=["scheme", "no scheme", "port", "kubernetes"],
)
def test_an_address_that_cannot_be_used_is_named(master: str | None, remote: str | None, problem: str) -> None:
    with pytest.raises(UnreachableError, match=problem):
        check_reachable(master, remote)
