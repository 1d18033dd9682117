"""Temporary files: each process has a folder, and the next one removes those of processes that were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.system.serving import environment

CODE = """
import sys
from penstock.spark.running.scratch import scratch_folder
folder = scratch_folder()
(folder / "blockmgr").mkdir()
(folder / "blockmgr" / "file").write_text("left")
print(folder, flush=True)
sys.stdin.read()
"""


def started(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        env={**environment(), "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    killed, left = started(tmp_path)
    living, kept = started(tmp_path)
    killed.kill()
    killed.communicate()
    assert (left / "blockmgr" / "file").exists()

    last, own = started(tmp_path)

    assert (left.exists(), kept.exists(), own.exists()) == (False, True, True)
    for process in (living, last):
        process.communicate()
        assert process.returncode == 0
    assert not kept.exists()
    assert not own.exists()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    first, folder = started(tmp_path)
    first.communicate()
    folder.parent.chmod(0o777)
    process, said = started(tmp_path)
    process.communicate()

    assert process.returncode != 0
    assert str(said) == "."
