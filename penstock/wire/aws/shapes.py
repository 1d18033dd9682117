"""What a request or an answer of an AWS service looks like, declared once for all its encodings.

A shape is a msgspec Struct: JSON reads and writes it directly. The Query protocol has names of its own for the
members of lists and maps; `Named`, inside an Annotated, gives them. `plan` reads a Struct once and says how to walk it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct


class Given(Struct, rename="pascal", kw_only=True):
    """The input of an action. What is absent is None: the action says what it needs."""


class Result(Struct, rename="pascal", kw_only=True, omit_defaults=True):
    """The output of an action, or a part of one. None is absent, in every encoding."""


@dataclass(frozen=True, slots=True)
class Named:
    """The names a list or a map has in the Query protocol.

    A flat one repeats `item` where it stands; one that is not wraps them: `Tags.member.1`, `Attributes.entry.1`.
    """

    item: str
    key: str = "key"
    value: str = "value"
    flat: bool = True
    json: str | None = None
    """Its name in the JSON form of a Query answer, where that is another."""


@dataclass(frozen=True, slots=True)
class Scalar:
    blob: bool = False


@dataclass(frozen=True, slots=True)
class ListPlan:
    names: Named
    item: Plan


@dataclass(frozen=True, slots=True)
class MapPlan:
    names: Named
    value: Plan


@dataclass(frozen=True, slots=True)
class Field:
    attribute: str
    name: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class StructPlan:
    fields: tuple[Field, ...]


Plan = Scalar | ListPlan | MapPlan | StructPlan

_LIST = Named("member", flat=False)
_MAP = Named("entry", flat=False)


@lru_cache(None)
def plan(shape: type[Struct]) -> StructPlan:
    hints = get_type_hints(shape, include_extras=True)
    return StructPlan(
        tuple(Field(found.name, found.encode_name, _plan(hints[found.name])) for found in msgspec.structs.fields(shape))
    )


def _plan(hint: Any, names: Named | None = None) -> Plan:
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        return _plan(inner, next((note for note in notes if isinstance(note, Named)), names))
    if origin in (Union, UnionType):
        return _plan(next(arm for arm in get_args(hint) if arm is not type(None)), names)
    if origin is list:
        return ListPlan(names or _LIST, _plan(get_args(hint)[0]))
    if origin is dict:
        return MapPlan(names or _MAP, _plan(get_args(hint)[1]))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return plan(hint)
    return Scalar(blob=hint is bytes)
