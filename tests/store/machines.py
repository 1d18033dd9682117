"""Running a state machine of Hypothesis against a store that is opened once for all its examples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from penstock.store import Store
from tests.effort import examples
from tests.store.conftest import build

Result = TypeVar("Result")
Run = Callable[[Coroutine[Any, Any, Result]], Result]


def run_machine(
    request: pytest.FixtureRequest, kind: str, make: Callable[[Store, Run[Any]], RuleBasedStateMachine], most: int = 16
) -> None:
    """`make` is called for each example; `most` is the number of examples of a thorough run."""
    store = build(kind, request)
    chosen = settings(
        max_examples=examples(most),
        stateful_step_count=25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            run_state_machine_as_test(lambda: make(store, runner.run), settings=chosen)  # type: ignore[arg-type]  # not a class
        finally:
            runner.run(store.close())
