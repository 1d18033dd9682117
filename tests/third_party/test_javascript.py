"""The AWS SDK for JavaScript; the story itself is in `javascript/sqs.mjs`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.system.serving import Running
from tests.third_party.environment import CACHE, client_environment, only_one

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
"""The first run downloads the SDK."""

HERE = Path(__file__).parent / "javascript"
MANIFEST = (".npmrc", "package.json", "package-lock.json")
OLDEST_NODE = 20
"""The SDK's own demand."""


@pytest.fixture(scope="session")
def script() -> Path:
    """The script beside the locked SDK, in a folder that outlives the run."""
    if shutil.which("npm") is None or _node() < OLDEST_NODE:
        pytest.skip(f"node {OLDEST_NODE} or later and npm are not installed")
    folder = CACHE / "javascript"
    with only_one(CACHE / "javascript.lock"):
        stamp = folder / "installed"
        wanted = "\n".join((HERE / name).read_text() for name in MANIFEST)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for name in MANIFEST:
                shutil.copy(HERE / name, folder)
            command = ["npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts"]
            installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
            assert installed.returncode == 0, installed.stderr
            stamp.write_text(wanted)
        # Replaced in one step: another test process may be about to run it.
        copy = shutil.copy(HERE / "sqs.mjs", folder / "sqs.mjs.new")
        return Path(copy).replace(folder / "sqs.mjs")


def _node() -> int:
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    return int(said.removeprefix("v").partition(".")[0])


def tell(script: Path, server: Running, *arguments: str) -> list[str]:
    """The steps that were taken."""
    run = subprocess.run(
        ["node", str(script), *arguments],
        env=client_environment(server.url),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, (run.stdout, run.stderr)
    steps: list[str] = json.loads(run.stdout)
    return steps


def test_the_sdk_for_javascript_lives_a_whole_life_with_a_standard_queue(
    script: Path, server: Running, name: str
) -> None:
    assert tell(script, server, "standard", name) == [
        "created",
        "listed",
        "changed",
        "sent with typed attributes",
        "batched, in part",
        "polled",
        "dead and back",
        "purged",
        "deleted",
    ]


def test_the_sdk_for_javascript_lives_a_whole_life_with_a_fifo_queue(script: Path, server: Running, name: str) -> None:
    assert tell(script, server, "fifo", name) == [
        "created",
        "in order of groups",
        "without duplicates",
        "batched, in part",
        "dead and back, in order",
        "purged",
        "deleted",
    ]
