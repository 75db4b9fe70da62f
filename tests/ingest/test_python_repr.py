"""Python's repr, read without running any of it."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specledger.ingest.python_repr import MAX_DEPTH, NotRead, read_arguments, read_value

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_every_literal_is_read_as_python_reads_it(value: Any) -> None:
    text = repr(value)
    assert read_value(text) == (ast.literal_eval(text), len(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auto", "auto"),
        ("torch.bfloat16", "torch.bfloat16"),
        ("(1, 2,)", [1, 2]),
        ("{1, 2}", [1, 2]),
        ('{"a": true, "b": null}', {"a": True, "b": None}),
        ("<CompilationMode.NONE: 0>", "<CompilationMode.NONE: 0>"),
        ("<bound method A of <B object at 0x7f>>", "<bound method A of <B object at 0x7f>>"),
        ("Config(method='eagle', model=None, k=[1, (2, 3)])", {"method": "eagle", "model": None, "k": [1, [2, 3]]}),
        ("1e999", "1e999"),
        ("0x7f12", "0x7f12"),
        ("Config()", {}),
    ],
)  # fmt: skip
def test_what_is_no_literal(text: str, value: Any) -> None:
    assert read_value(text) == (value, len(text))


def test_arguments_are_read_to_their_end() -> None:
    assert read_arguments("a=1, ip=192.0.2.2 (local), b='x, y=2', c={'d': <E.F: 0>}")[0] == {
        "a": 1,
        "ip": "192.0.2.2",
        "b": "x, y=2",
        "c": {"d": "<E.F: 0>"},
    }


@pytest.mark.parametrize("text", ["[1, 2", "{'a': ", "'open", "F(a=1", "<open", "", "[1 2]"])
def test_what_ends_early_is_not_read(text: str) -> None:
    with pytest.raises(NotRead):
        read_value(text)


def test_arguments_that_end_early_give_what_was_read() -> None:
    with pytest.raises(NotRead) as caught:
        read_arguments("a=1, b='two', c=[3, ")
    assert caught.value.found == {"a": 1, "b": "two"}


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(NotRead):
        read_value("[" * (MAX_DEPTH + 1))


def test_a_number_of_hundreds_of_digits_is_a_number() -> None:
    found, _ = read_arguments("seed=" + "9" * 400 + ")", 0)
    assert found == {"seed": int("9" * 400)}
