"""Packages import only what the table allows, and folders and functions stay small."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "penstock"

LEAF = {"model", "errors", "limits", "clock", "auth", "queries", "tracing"}

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
    "cli": LEAF | {"client", "config", "logs", "mcp_server", "server", "spark"},
    "mcp_server": LEAF | {"client", "config"},
    "testing": LEAF | {"config", "server", "client", "engine"},
    "__main__": {"cli"},
    "client": LEAF,
    "consumer": LEAF,
    "__init__": LEAF | {"client", "consumer"},
}

PROTOCOLS = {"rest", "sqs", "sns", "simple", "jobs", "private"}
"""Packages of `wire` that must not import each other. They share the remaining ones."""


@cache
def modules() -> list[tuple[str, ast.Module]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found.append((name, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def imports(tree: ast.Module) -> set[str]:
    """The modules of penstock that this one imports, without the leading `penstock.`."""
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


def package(module: str) -> str:
    """The row of the table that a module, or a name imported from one, belongs to."""
    parts = module.split(".")
    if parts[0] == "store":
        if len(parts) > 1 and parts[1] in ("postgres", "sqlite"):
            return f"store.{parts[1]}"
        return "store"
    return parts[0]


def violations(found: list[tuple[str, ast.Module]]) -> list[str]:
    wrong = []
    for module, tree in found:
        here = package(module)
        for name in sorted(imports(tree)):
            there = package(name)
            if there != here and there in MAY_IMPORT and there not in MAY_IMPORT[here]:
                wrong.append(f"penstock.{module} imports penstock.{name}: {here} may not import {there}")
    return wrong


def test_every_package_is_in_the_table() -> None:
    assert {package(module) for module, _ in modules()} <= set(MAY_IMPORT)


def test_packages_import_only_what_they_may() -> None:
    assert violations(modules()) == []


def test_a_planted_violation_is_named() -> None:
    tree = ast.parse("from penstock.wire.rest.door import Rest")

    assert violations([("engine.queues.messages", tree)]) == [
        "penstock.engine.queues.messages imports penstock.wire.rest.door: engine may not import wire"
    ]


def protocol(module: str) -> str | None:
    parts = module.split(".")
    name = parts[1] if parts[0] == "wire" and len(parts) > 1 else ""
    return name if name in PROTOCOLS else None


def test_protocols_do_not_import_each_other() -> None:
    crossed = [
        f"{module} imports {name}"
        for module, tree in modules()
        if package(module) == "wire"
        for name in sorted(imports(tree))
        if protocol(name) is not None and protocol(name) != protocol(module)
    ]

    assert crossed == []


def test_leaves_need_only_the_standard_library() -> None:
    for module, tree in modules():
        if package(module) not in LEAF:
            continue
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                allowed = top == "penstock" or top in sys.stdlib_module_names
                # Imported only by processes that export traces.
                allowed = allowed or (module == "tracing.spans" and top == "opentelemetry")
                assert allowed, f"{module} imports {name}"


def folders() -> list[Path]:
    """All folders of the package, without caches."""
    found = [path for path in ROOT.rglob("*") if path.is_dir() and "__pycache__" not in path.parts]
    return sorted([ROOT, *found])


OF_OTHERS = {"os._exit", "SparkContext._gateway", "SparkContext._ensure_initialized"}
"""Private names of Python and Spark that have no public equivalent."""


def reached_into(tree: ast.Module) -> set[str]:
    """Private attributes that code uses of objects of other classes."""
    own = {"self", "cls"} | {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value)
            if owner not in own and owner != "super()":
                found.add(f"{owner}.{node.attr}")
    # A class method may finish an object that it has made.
    return {name for name in found if name.partition(".")[2] not in defined(tree)}


def defined(tree: ast.Module) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_nothing_uses_private_attributes_of_other_objects() -> None:
    wrong = {f"penstock.{module}: {name}" for module, tree in modules() for name in reached_into(tree) - OF_OTHERS}
    assert not wrong


def test_a_private_attribute_of_another_object_is_found() -> None:
    text = "class One:\n    def _own(self): self._a, super()._b, One()._own(), other.one._c\n"
    assert reached_into(ast.parse(text)) == {"other.one._c"}
