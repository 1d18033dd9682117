"""The page about tasks is true: its examples run as printed."""

from __future__ import annotations

import subprocess
import sys

from penstock.testing import TestTenant
from tests.system.serving import environment
from tests.test_docs import blocks, page


def test_the_examples_of_tasks_answer_as_printed(penstock_tenant: TestTenant) -> None:
    found = blocks(page("docs/tasks.md"))
    script = "\n".join(text for language, text in found if language == "python")
    printed = "".join(text for language, text in found if language == "text")

    done = subprocess.run(
        [sys.executable, "-c", script + "\napp.close()\n"],
        env=environment({"PENSTOCK_URL": penstock_tenant.url, "PENSTOCK_TOKEN": penstock_tenant.token}),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.returncode) == (printed, 0), done.stderr
