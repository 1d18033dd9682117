"""What administrators do at the command line is written down, and listed by `penstock audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.system.serving import penstock


def run(*arguments: str) -> Any:
    done = penstock(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tokens_and_tenants_leave_their_traces(tmp_path: Path) -> None:
    store = ("--sqlite", str(tmp_path / "queues.db"))
    run("tenant", "create", "acme", *store)
    made = run("token", "create", "--name", "ci", "--tenant", "acme", *store)
    new = run("token", "rotate", str(made["id"]), "--overlap", "1h", *store)
    run("token", "revoke", str(new["id"]), *store)

    acts = run("audit", "--tenant", "acme", *store)

    assert [(act["actor"], act["act"], act["subject"]) for act in acts] == [
        ("operator", "token revoked", str(new["id"])),
        ("operator", "token rotated", str(made["id"])),
        ("operator", "token created", str(new["id"])),
        ("operator", "token created", str(made["id"])),
        ("operator", "tenant created", "acme"),
    ]
    assert json.loads(acts[1]["detail"]) == {"by": new["id"], "overlap_s": 3600}
    assert made["token"] not in json.dumps(acts)
    assert run("audit", "--limit", "1", *store) == acts[:1]
    assert penstock("audit", *store).stdout.count("token created") == 2
