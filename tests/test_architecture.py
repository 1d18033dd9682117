"""Who may import whom. The table is the architecture; this is its guard."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent / "penstock"

LEAF = {"model", "errors", "limits", "clock", "auth", "queries"}

MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(LEAF, LEAF),
    "config": LEAF,
    "logs": LEAF,
    "store": LEAF,
    "store.postgres": LEAF | {"store"},
    "store.sqlite": LEAF | {"store"},
    "engine": LEAF | {"store"},
    "spark": LEAF,
    "wire": LEAF | {"engine"},
    "web": LEAF | {"engine"},
    "loops": LEAF | {"engine"},
    "server": LEAF | {"store", "config", "logs", "store.postgres", "store.sqlite", "engine", "wire", "web", "loops"},
    "cli": LEAF | {"config", "logs", "server", "spark"},
    "__main__": {"cli"},
    "client": LEAF,
    "consumer": LEAF,
    "__init__": LEAF | {"client", "consumer"},
}

DOORS = {"rest", "sqs", "sns", "simple", "jobs", "private"}
"""Protocols of `wire`, by the first word of their modules' names. They share the other modules, not each other."""


def modules() -> list[tuple[str, ast.Module]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found.append((name, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def imports(tree: ast.Module) -> set[str]:
    """Our own modules that this one names, without the leading `penstock.`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports are absolute"
            if node.module in ("penstock", "penstock.store", "penstock.wire", "penstock.store.postgres"):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            names.add(node.module)
    return {name.removeprefix("penstock.") for name in names if name.startswith("penstock.")}


def room(module: str) -> str:
    """The room a module, or a name imported from one, belongs to."""
    parts = module.split(".")
    if parts[0] == "store":
        if len(parts) > 1 and parts[1] in ("postgres", "sqlite", "queries"):
            return f"store.{parts[1]}"
        return "store"
    return parts[0]


def violations(found: list[tuple[str, ast.Module]]) -> list[str]:
    wrong = []
    for module, tree in found:
        here = room(module)
        for name in sorted(imports(tree)):
            there = room(name)
            if there != here and there in MAY_IMPORT and there not in MAY_IMPORT[here]:
                wrong.append(f"penstock.{module} imports penstock.{name}: {here} may not import {there}")
    return wrong


def test_every_room_is_in_the_table() -> None:
    assert {room(module) for module, _ in modules()} <= set(MAY_IMPORT)


def test_rooms_import_only_what_they_may() -> None:
    assert violations(modules()) == []


def test_a_planted_violation_is_named() -> None:
    tree = ast.parse("from penstock.wire.rest import Rest")

    assert violations([("engine.messages", tree)]) == [
        "penstock.engine.messages imports penstock.wire.rest: engine may not import wire"
    ]


def door(module: str) -> str | None:
    parts = module.split(".")
    name = parts[1].split("_")[0] if parts[0] == "wire" and len(parts) > 1 else ""
    return name if name in DOORS else None


def test_doors_do_not_import_each_other() -> None:
    crossed = [
        f"{module} imports {name}"
        for module, tree in modules()
        if room(module) == "wire"
        for name in sorted(imports(tree))
        if door(name) is not None and door(name) != door(module)
    ]

    assert crossed == []


def test_leaves_need_only_the_standard_library() -> None:
    import sys

    for module, tree in modules():
        if room(module) not in LEAF:
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                assert top == "penstock" or top in sys.stdlib_module_names, f"{module} imports {name}"
