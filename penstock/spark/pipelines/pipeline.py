"""The base class of all pipelines: a frozen dataclass of settings, and hooks with defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from penstock.spark.pipelines.run import Run


class PipelineError(Exception):
    """An error that the user can correct; its text says how."""


class Pipeline(ABC):
    """Settings of a pipeline, and what it does with them.

    The `check…` hooks run before Spark starts, which takes seconds. They raise an error that names what is missing.
    """

    __slots__ = ()

    name: ClassVar[str]
    has_queries: ClassVar[bool] = False
    """Whether the pipeline runs streaming queries, which need a folder for checkpoints."""
    interval_s: ClassVar[float] = 10.0
    """Seconds between two looks for new data with `--follow`, unless the user sets an interval."""

    @property
    def owner(self) -> str:
        """Tenant that the run is recorded for."""
        return "default"

    @abstractmethod
    def run(self, run: Run) -> None:
        """Process what there is, or follow until the run is stopped."""

    def check(self, follow: bool) -> None:
        """Check the settings alone."""
        return

    def check_database(self, url: str) -> None:
        """Check that the database has what the pipeline reads and writes."""
        return

    def check_files(self, url: str, lake: str) -> None:
        """Check that the lake, or other files, have what the pipeline reads. Not called when they are elsewhere."""
        return

    def claims(self, lake: str) -> Sequence[str]:
        """Names that this run locks, so that no second run works on the same data."""
        return ()
