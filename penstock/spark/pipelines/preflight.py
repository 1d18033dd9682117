"""Checks before Spark starts: settings, checkpoints, database, lake, and that no other run works on the same data.

Spark takes seconds to start, and minutes to fail. What can be known without it is said before.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from penstock.spark.lake.checkpoints import checkpoints_of, remember_checkpoints
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import folder, is_folder, make
from penstock.spark.pipelines.claims import Claims
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError


def check_settings(pipeline: Pipeline, *, follow: bool, lake: str, checkpoints: str | None) -> None:
    """The checks that need no database."""
    pipeline.check(follow)
    check_checkpoints(pipeline, lake, checkpoints)


@contextmanager
def prepared(pipeline: Pipeline, *, url: str, lake: str, local: bool = True) -> Iterator[Claims]:
    """Check database and files, and hold the claims of the run, while Spark starts and while it runs.

    `local` says that Spark runs on this machine, so that its files can be checked here.
    """
    pipeline.check_database(url)
    if local or not is_folder(lake):
        check_writable(pipeline, lake)
        pipeline.check_files(url, lake)
    # A run has no number before it starts. The suffix tells two starting runs apart.
    with closing(Claims(url, f"a starting run of {pipeline.name} ({secrets.token_hex(3)})")) as claims:
        claims.take(pipeline.claims(lake))
        yield claims


def check_checkpoints(pipeline: Pipeline, lake: str, checkpoints: str | None) -> None:
    """Raises when there is no folder for checkpoints, or it is not the one that the lake was written with."""
    if pipeline.has_queries:
        remember_checkpoints(lake, pipeline.name, checkpoints_of(lake, checkpoints))
    elif checkpoints is not None:
        raise PipelineError(f"{pipeline.name} runs no streaming queries: omit --checkpoints")


def check_writable(pipeline: Pipeline, lake: str) -> None:
    """Raises when the pipeline cannot write to the folder of the lake."""
    if pipeline.has_queries and is_folder(lake):
        try:
            make(lake)
            if not os.access(folder(lake), os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise LakeError(f"the lake {lake} cannot be written: {error.strerror}") from None
