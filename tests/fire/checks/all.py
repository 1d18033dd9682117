"""All checks over one history."""

from __future__ import annotations

from tests.fire.checks import Violation, deliveries, events, jobs, queues, site
from tests.fire.history import History

CHECKS = (*queues.CHECKS, *deliveries.CHECKS, *jobs.CHECKS, *events.CHECKS, *site.CHECKS)


def violations(history: History) -> list[Violation]:
    return [violation for check in CHECKS for violation in check(history)]
