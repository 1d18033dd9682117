"""`make bench-quick`: a few results in less than a minute, as ratios to bench/baseline.json.

A machine that is busy, or another one, changes every figure. So a loop of plain Python is timed before each line, and
results are compared in units of that loop. Ratios above 1 are slower than the baseline; they are reported and never
fail. `--write` makes this run the baseline.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path

from bench.cycle import measure
from bench.processes import conditions, serving, store_flags

BASELINE = Path(__file__).parent / "baseline.json"
LINES = (("postgres", "native"), ("postgres", "sqs"), ("memory", "native"), ("memory", "sqs"), ("memory", "simple"))
CONNECTIONS = (8, 64)
SECONDS = 2.0


def yardstick() -> float:
    """CPU seconds of a fixed piece of Python, the best of three."""
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        table = {str(number): number for number in range(60_000)}
        sum(table[str(number)] for number in range(60_000))
        best = min(best, time.process_time() - start)
    return best


def run() -> dict[str, dict[str, float]]:
    found = {}
    with ExitStack() as stack:
        servers = {}
        for store in dict.fromkeys(store for store, _ in LINES):
            flags = stack.enter_context(store_flags(store))
            servers[store] = stack.enter_context(serving(*flags, "--simple"))
            servers[store].request("POST", "/v1/queues", {"name": "bench"})
        for store, door in LINES:
            measure(servers[store], door, 8, 1, 300, 3)  # warm up
            for connections in CONNECTIONS:
                unit = yardstick()
                line = measure(servers[store], door, connections, 1, 1_000_000, SECONDS)
                found[f"{store} {door} {connections}"] = {
                    "cpu_us": round(line["per_request"], 1),
                    "units": round(line["per_request"] / unit, 1),
                    "messages_per_s": round(line["messages"] / line["seconds"]),
                }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make this run the baseline")
    options = parser.parse_args()
    print(f"conditions: {conditions()}; one message per request, {SECONDS} s per line")
    known = json.loads(BASELINE.read_text())["lines"] if BASELINE.exists() else {}
    found = run()
    print(f"{'store, interface, connections':32} {'CPU µs/request':>14} {'messages/s':>10} {'ratio':>7}")
    for name, line in found.items():
        ratio = f"{line['units'] / known[name]['units']:7.2f}" if name in known else f"{'new':>7}"
        print(f"{name:32} {line['cpu_us']:14.1f} {line['messages_per_s']:10,.0f} {ratio}")
    if options.write:
        BASELINE.write_text(json.dumps({"conditions": conditions(), "lines": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
