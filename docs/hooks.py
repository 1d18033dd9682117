"""Hooks of MkDocs: pages that exist outside of docs, and pages that are generated from the code.

The pages in docs link to files of the repository, such as ../CONTRIBUTING.md: these links work on GitHub and in an
editor. A site needs a page for each of these files, and links that lead to it.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import penstock

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".ini": "ini", ".json": "json", ".py": "python", ".sql": "sql", ".toml": "toml", ".yml": "yaml"}
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository outside of docs, and where they are on the site."""

log = logging.getLogger("mkdocs.plugins.penstock")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let pages that the navigation does not name appear in it: a new page is found before it has its place."""
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    found = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    if others := sorted(uri for uri in set(found) - named if not uri.startswith("decisions/")):
        assert config.nav is not None
        config.nav.append({"More": others})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for uri, content in generated():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to pages of the site."""
    uri = page.file.src_uri
    source = next((name for name, made in PAGES.items() if made == uri), f"docs/{uri}")

    def rewritten(found: re.Match[str]) -> str:
        path = target(source, found[1])
        if not (ROOT / path).exists() and files.get_file_from_path(_page_of(path)) is None:
            log.warning("%s links to %s, which does not exist", uri, found[1])
        return f"]({os.path.relpath(_page_of(path), os.path.dirname(uri) or '.')}{found[2] or ''})"

    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in FENCED.split(markdown))


def target(source: str, link: str) -> str:
    """The path in the repository that a link in a file leads to."""
    return os.path.normpath(os.path.join(os.path.dirname(source), link))


def _page_of(path: str) -> str:
    """The page of the site for a path of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path == "README.md":
        return "index.md"
    folder = (ROOT / path).is_dir()
    if path.startswith("docs/"):
        return path.removeprefix("docs/") + ("/index.md" if folder else "")
    return f"{path}/index.md" if folder else f"{path}.md"


def generated() -> Iterator[tuple[str, str]]:
    for name, uri in PAGES.items():
        yield uri, (ROOT / name).read_text(encoding="utf-8")
    yield "decisions/index.md", _decisions()
    yield "python-api.md", python_api()
    yield "examples/index.md", _folder("examples", "Complete programs. Tests run each of them.")
    linked = set(_linked()) | {f"examples/{name}" for name in _names("examples")}
    for path in sorted(linked - {"examples"}):
        yield _page_of(path), _folder(path) if (ROOT / path).is_dir() else _file(path)


def _linked() -> Iterator[str]:
    """What pages link to outside of docs."""
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES)]:
        source = path.relative_to(ROOT).as_posix()
        for link, _ in LINK.findall(FENCED.sub("", path.read_text(encoding="utf-8"))):
            found = target(source, link)
            if not found.startswith("docs") and found not in {*PAGES, "README.md"} and (ROOT / found).exists():
                yield found


def _names(folder: str) -> list[str]:
    return sorted(each.name for each in (ROOT / folder).iterdir() if each.is_file() and each.name != "__init__.py")


def _folder(path: str, text: str = "") -> str:
    lines = [f"- [{name}]({name}.md): {_summary(path, name)}" for name in _names(path)]
    if path != "examples":
        lines = [f"- `{each.relative_to(ROOT)}`" for each in sorted((ROOT / path).rglob("*")) if each.is_file()]
    return f"# {path.capitalize()}\n\n{text}\n\n" + "\n".join(lines) + "\n"


def _summary(folder: str, name: str) -> str:
    """The first sentence of a program."""
    text = (ROOT / folder / name).read_text(encoding="utf-8")
    found = re.search(r'^(?:"""|--|#)\s*(.*?)(?:"""|$)', text, re.MULTILINE)
    return found[1] if found else ""


def _file(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    return f"# {path}\n\n```{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n```\n"


def _decisions() -> str:
    lines = ["# Decisions\n\nWhy Penstock is built as it is: the alternatives, and what each choice costs.\n"]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def python_api() -> str:
    """Every public name of the package, with signatures and docstrings."""
    parts = [
        "# Python API\n\nThe public names of `penstock`, generated from the code. Everything else is internal. The"
        " [reference of the client](client.md#reference) has the methods of `client.queues` and the other namespaces."
    ]
    parts += [_described(name, getattr(penstock, name)) for name in penstock.__all__ if not name.startswith("__")]
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: Any) -> str:
    parts = [f"## {name}", f"```python\n{_signature(name, thing)}\n```", inspect.getdoc(thing) or ""]
    if not isinstance(thing, type):
        return "\n\n".join(parts)
    if is_dataclass(thing):
        parts.append(_fields(thing))
    if not issubclass(thing, Exception):
        parts += [_method(name, key, member) for key, member in _members(thing)]
    return "\n\n".join(part for part in parts if part)


def _members(thing: type) -> list[tuple[str, Any]]:
    """Public methods and properties, with those of base classes of ours."""
    found: dict[str, Any] = {}
    for kind in reversed(thing.__mro__):
        if kind.__module__.startswith("penstock"):
            found |= {key: member for key, member in vars(kind).items() if not key.startswith("_")}
    return [(key, member) for key, member in found.items() if callable(_function(member))]


def _function(member: Any) -> Any:
    return member.fget if isinstance(member, property) else getattr(member, "__func__", member)


def _method(owner: str, name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"### {owner}.{name}\n\n{inspect.getdoc(member) or ''}"
    function = _function(member)
    return f"### {owner}.{name}()\n\n```python\n{_signature(name, function)}\n```\n\n{inspect.getdoc(function) or ''}"


def _fields(thing: Any) -> str:
    rows = ["| field | type | default |", "|---|---|---|"]
    for each in fields(thing):
        default = "" if each.default is MISSING else f"`{each.default!r}`"
        kind = str(each.type).replace("|", "\\|")
        rows.append(f"| `{each.name}` | `{kind}` | {default} |")
    return "\n".join(rows)


def _signature(name: str, thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except ValueError:
        return name
    parameters = [str(each).replace("'", "") for each in found.parameters.values() if each.name != "self"]
    one_line = f"{name}({', '.join(parameters)})"
    text = one_line if len(one_line) <= 100 else f"{name}(\n    " + ",\n    ".join(parameters) + ",\n)"
    prefix = "async " if inspect.iscoroutinefunction(thing) else ""
    answer = found.return_annotation
    if isinstance(thing, type) or answer is inspect.Signature.empty:
        return prefix + text
    return f"{prefix}{text} -> {answer if isinstance(answer, str) else getattr(answer, '__name__', answer)}"
