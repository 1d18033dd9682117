"""How often, and how long after each failure, a delivery is tried again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

USUAL_DELAYS_S = (10.0, 30.0, 60.0, 300.0)
JITTER = 0.2
"""Each delay is up to this share longer, so that deliveries that failed together do not come back together."""
MOST_RETRIES = 100
MOST_DELAY_S = 3600.0


def jittered(delay_s: float) -> float:
    return delay_s * random.uniform(1.0, 1.0 + JITTER)


def delivery_policy(own: str | None, of_topic: str | None) -> Mapping[str, object]:
    """The delivery policy in force for a subscription: its own members, and for the others its topic's defaults."""
    web = _document(of_topic).get("http")
    web = web if isinstance(web, dict) else {}
    defaults = {
        "healthyRetryPolicy": web.get("defaultHealthyRetryPolicy"),
        "requestPolicy": web.get("defaultRequestPolicy"),
    }
    given = {} if web.get("disableSubscriptionOverrides") is True else _document(own)
    return defaults | {name: value for name, value in given.items() if value is not None}


def _document(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def delays_of(retry: object) -> tuple[float, ...] | None:
    """The delays that a retry policy of SNS asks for; None when it is none."""
    if not isinstance(retry, dict):
        return None
    count = int(_number(retry.get("numRetries"), 3, MOST_RETRIES))
    shortest = _number(retry.get("minDelayTarget"), 20, MOST_DELAY_S)
    longest = max(_number(retry.get("maxDelayTarget"), 20, MOST_DELAY_S), shortest)
    first = int(_number(retry.get("numNoDelayRetries"), 0, count))
    second = min(int(_number(retry.get("numMinDelayRetries"), 0, count)), count - first)
    last = min(int(_number(retry.get("numMaxDelayRetries"), 0, count)), count - first - second)
    middle = _between(count - first - second - last, shortest, longest, str(retry.get("backoffFunction", "linear")))
    return (*[0.0] * first, *[shortest] * second, *middle, *[longest] * last)


def _between(count: int, shortest: float, longest: float, function: str) -> list[float]:
    """So many delays that grow from the shortest to the longest, the way the function says."""
    if count <= 1:
        return [shortest] * count
    shares = [step / (count - 1) for step in range(count)]
    if function == "exponential" and shortest > 0:
        return [shortest * (longest / shortest) ** share for share in shares]
    power = {"arithmetic": 2.0, "geometric": 3.0, "exponential": 4.0}.get(function, 1.0)
    return [shortest + (longest - shortest) * share**power for share in shares]


def _number(value: object, usual: float, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return min(usual, most)
    return min(max(float(value), 0.0), most)
