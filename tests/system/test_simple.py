"""The simple protocol as its users start it: flags, the configuration file, restarts."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.system.serving import Running, penstock, serving


def send(server: Running, body: str, queue: str = "q") -> httpx.Response:
    message = {"queue_name": queue, "message_body": body}
    return httpx.post(f"{server.url}/send", json=message, trust_env=False)


def test_a_generated_file_starts_a_server_that_keeps_its_messages(tmp_path: Path) -> None:
    (tmp_path / "queues.ini").write_text(penstock("config", "generate").stdout)
    start = ("--config", "queues.ini")

    with serving(*start, cwd=tmp_path) as server:
        first = send(server, "kept")
    with serving(*start, cwd=tmp_path) as server:
        second = send(server, "later")
        received = httpx.post(f"{server.url}/receive", json={"queue_name": "q"}, trust_env=False)

    assert (first.json()["sequence_number"], second.json()["sequence_number"]) == (1, 2)
    assert [message["message_body"] for message in received.json()["messages"]] == ["kept"]
    assert (tmp_path / "penstock.db").is_file()


def test_the_flags_for_sizes_work() -> None:
    with serving("--memory", "--max-queue-length", "1", "--max-message-size", "1") as server:
        answers = [send(server, body) for body in ("x" * 1025, "x" * 1024, "y")]

    assert [answer.status_code for answer in answers] == [413, 200, 503]
    assert answers[2].json()["error"]["code"] == "QueueFull"


def test_the_protocol_can_be_switched_off() -> None:
    with serving("--memory", "--no-simple") as server:
        assert send(server, "x").status_code in (404, 405)
        assert httpx.get(f"{server.url}/health", trust_env=False).json() == {"status": "ok"}


def test_every_problem_of_a_file_is_printed(tmp_path: Path) -> None:
    (tmp_path / "bad.ini").write_text("port = 0\nport = 1\ncolour = blue\n")

    done = penstock("serve", "--config", "bad.ini", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "penstock: bad.ini: line 1: port must be a whole number between 1 and 65535",
        "penstock: bad.ini: line 2: duplicate key 'port'; it is on line 1 already",
        "penstock: bad.ini: line 3: unknown key 'colour'",
    ]


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        ("--max-message-size", "10241", "--max-message-size must be a whole number from 1 to 10240"),
        ("--max-queue-length", "0", "--max-queue-length must be a whole number from 1 to 1000000000"),
    ],
)
def test_a_flag_out_of_bounds_is_refused(flag: str, value: str, problem: str) -> None:
    done = penstock("serve", "--memory", flag, value)

    assert (done.returncode, done.stderr.strip()) == (2, f"penstock: {problem}")
