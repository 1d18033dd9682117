"""JSON texts that Python's parser cannot read are found, whatever their size, and others pass."""

from __future__ import annotations

import json
from random import Random

import pytest

from penstock import limits
from penstock.engine import json_checks
from penstock.engine.json_checks import check_json
from penstock.errors import Invalid

POISON = [
    "[" * 501 + "]" * 501,
    '{"a":' * 501 + "1" + "}" * 501,
    '[1,"x\\"",' * 501 + "1" + "]" * 501,
    "1e400",
    "[-1e400]",
    '{"a":1E+309}',
    "9" * 310,
    "[" + "9" * 5000 + ".5]",
    "[1." + "0" * 70_000 + "e400]",
    "[" + '"' + "x" * 70_000 + '",1e309]',
    "[" + "1," * 50_000 + "1e309]",
    '["' + "\\\\" * 40_000 + '",1e309]',
    '["' + '\\"' * 40_000 + '",' + "[" * 500 + "]" * 501,
]
READABLE = [
    "[" * 500 + "]" * 500,
    '["' + "[" * 70_000 + '"]',
    '["' + '\\"[' * 70_000 + '"]',
    '["' + "\\\\" * 40_000 + '"]',
    "[" + "[]," * 100_000 + "[]]",
    "[" + "[[[[[[[[[[]]]]]]]]]]," * 20_000 + "[]]",
    '"1e400"',
    '["' + "9" * 5000 + '"]',
    "[1e308,1e-400,0e999]",
    "[0." + "1" * 5000 + "]",
    "[1." + "0" * 70_000 + "e10]",
    "[" + "1e100," * 30_000 + "1]",
    "not JSON: 1e400",
    "[1e400",
    '"unfinished ' + "[" * 1000,
]


@pytest.mark.parametrize("text", POISON, ids=lambda text: text[:12])
def test_poison_is_found(text: str) -> None:
    with pytest.raises(Invalid):
        check_json("payload", text)


@pytest.mark.parametrize("text", READABLE, ids=lambda text: text[:12])
def test_what_python_reads_passes(text: str) -> None:
    check_json("payload", text)


def test_where_the_pieces_end_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    parts = ['"', "\\", "\\\\", "[", "]", "{", "}", "1e30", "9", "1e309", ",", ":", "a", "0." + "9" * 20]
    monkeypatch.setattr(limits, "JSON_DEPTH", 3)
    found = 0
    for _ in range(1000):
        text = "".join(random.choices(parts, k=random.randrange(30)))
        if random.random() < 0.5:
            text = json.dumps([text, [text[:3]], [[random.choice([1, 10**400])]]])
        answers = set()
        for piece in (2, 3, 7, 1000):
            monkeypatch.setattr(json_checks, "PIECE", piece)
            try:
                check_json("payload", text)
                answers.add("")
            except Invalid as error:
                answers.add(error.message)
        assert len(answers) == 1, text
        found += answers != {""}
    assert found > 100
