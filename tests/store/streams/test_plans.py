"""A batch is found through the index on its transactions, a piece of it through the index on ids."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.store.streams.queue import Queue


@pytest.fixture
def loaded(queue: Queue) -> Queue:
    """Fifty batches of a hundred events; one of them open."""
    queue.register("c")
    data = [f"event {number}" for number in range(100)]
    for _ in range(50):
        queue.rows("select cardinality(pgque.insert_events(%s, 't', %s::text[]))", queue.name, data)
        queue.tick()
    return queue


def scans(plan: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(plan["Node Type"], plan.get("Index Name", ""))] if "Relation Name" in plan else []
    for inner in plan.get("Plans", []):
        found += scans(inner)
    return found


def explained(queue: Queue, batch: int, query: str, after: int = 0, through: int = 2**62) -> dict[str, Any]:
    """The plan of a statement that the functions build, with what they would give it."""
    fields = "(b).last_snapshot::text, (b).cur_snapshot::text, (b).sub_id"
    [[last, current, owner]] = queue.rows(
        f"select {fields} from (select pgque.open_batch(%s) as b offset 0) as x", batch
    )
    values = {
        "1": f"'{last}'::pg_snapshot",
        "2": f"'{current}'::pg_snapshot",
        "3": "'{1,2,3}'::xid8[]",
        "4": str(owner),
        "5": str(after),
        "6": str(through),
    }
    text = re.sub(r"\$(\d)", lambda found: values[found[1]], query)
    with queue.connection.transaction():
        queue.connection.execute("set local enable_seqscan = off")
        queue.connection.execute("set local enable_bitmapscan = off")
        [[[plan]]] = queue.connection.execute(f"explain (analyze, format json) {text}".encode()).fetchall()
    found: dict[str, Any] = plan["Plan"]
    return found


def test_a_whole_batch_comes_by_transaction(loaded: Queue) -> None:
    batch = loaded.open()
    assert batch is not None
    text = "select pgque.batch_sql_by_transaction(pgque.open_batch(%s), pgque.event_columns(), true)"
    plan = explained(loaded, batch, loaded.one(text, batch) + " order by 1")

    found = scans(plan)
    assert {kind for kind, _ in found} == {"Index Scan"}
    assert {name for _, name in found} <= {f"event_{loaded.id}_{number}_txid_idx" for number in range(3)}
    assert plan["Actual Rows"] == 100


def test_a_piece_comes_by_id(loaded: Queue) -> None:
    batch = loaded.open()
    assert batch is not None
    ids = [row[0] for row in loaded.rows("select ev_id from pgque.get_batch_events(%s)", batch)]
    text = "select pgque.batch_sql_by_id(pgque.open_batch(%s), 'e.ev_id', ' order by e.ev_id limit 10', 0, null)"
    query = f"select b.ev_id from ({loaded.one(text, batch)}) as b order by b.ev_id offset 9 limit 1"
    plan = explained(loaded, batch, query, ids[20], ids[-1])

    found = scans(plan)
    assert {name for _, name in found} <= {f"event_{loaded.id}_{number}_id_idx" for number in range(3)}
    read = sum(node["Actual Rows"] for node in leaves(plan))
    assert read <= 10


def leaves(plan: dict[str, Any]) -> list[dict[str, Any]]:
    inner = plan.get("Plans", [])
    return [leaf for each in inner for leaf in leaves(each)] if inner else [plan]


def test_a_batch_of_many_pieces_is_read_once_not_once_per_piece(loaded: Queue) -> None:
    """A thousand pieces of a large batch: each costs what it holds."""
    data = [f"event {number}" for number in range(5_000)]
    loaded.drain()
    loaded.rows("select cardinality(pgque.insert_events(%s, 't', %s::text[]))", loaded.name, data)
    loaded.tick()

    def pages(batch: int) -> int:
        query = "explain (analyze, buffers, format json) select * from pgque.batch_hand_out(%s, 10)"
        plan = loaded.rows(query, batch)[0][0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    first = loaded.open()
    assert first is not None
    whole = pages(first)
    loaded.rows("select pgque.batch_acknowledge(%s)", first)
    rest = loaded.open()
    assert rest is not None
    assert pages(rest) < whole / 3


def test_a_load_is_read_by_id_in_pieces_and_not_at_all_by_other_batches(queue: Queue) -> None:
    queue.register("c")
    [[load, table]] = queue.rows("select * from pgque.open_load(%s)", queue.name)
    insert = f"insert into {table} (ev_data) select 'event ' || n from generate_series(1, 5000) as n"
    queue.connection.execute(insert.encode())
    queue.rows("select pgque.close_load(%s)", load)
    queue.rows("select pgque.publish_loads(%s, %s)", queue.name, [load])
    queue.tick()
    batch = queue.open()
    assert batch is not None

    text = "select pgque.batch_sql_by_id(pgque.open_batch(%s), 'e.ev_id', ' order by e.ev_id limit 10', 0, null)"
    plan = explained(queue, batch, queue.one(text, batch), 100, 4000)
    assert f"event_{queue.id}_load_{load}_ev_id_idx" in {name for _, name in scans(plan)}
    assert sum(node["Actual Rows"] for node in leaves(plan)) <= 10

    queue.finish(batch)
    queue.insert("later")
    queue.tick()
    batch = queue.open()
    assert batch is not None
    text = "select pgque.batch_sql_by_transaction(pgque.open_batch(%s), 'e.ev_id', true)"
    assert "load" not in queue.one(text, batch)
