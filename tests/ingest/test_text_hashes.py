"""Hashes of texts: equal for equal answers, and telling where two part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specledger.ingest.text_hashes import PREFIX_TOKENS, distinct_4gram_share, prefix_hashes, text_hashes

TOKENS = st.lists(st.integers(0, 50_000), max_size=100)


def chat(text: str) -> dict:
    return {"choices": [{"message": {"content": text}}]}


@given(TOKENS, TOKENS)
def test_prefix_hashes_agree_exactly_as_far_as_the_tokens_do(first: list[int], second: list[int]) -> None:
    ours, theirs = prefix_hashes(first), prefix_hashes(second)
    assert len(ours) == len(first) // PREFIX_TOKENS
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        assert (one == other) == (first[: number * PREFIX_TOKENS] == second[: number * PREFIX_TOKENS])


@given(TOKENS)
def test_the_share_of_distinct_runs_of_four(tokens: list[int]) -> None:
    runs = [tuple(tokens[place : place + 4]) for place in range(len(tokens) - 3)]
    expected = len(set(runs)) / len(runs) if runs else None
    assert distinct_4gram_share(tokens) == expected


def test_token_ids_are_preferred_to_text() -> None:
    by_ids = text_hashes({"choices": [{"text": "a b", "token_ids": [5, 6]}]})
    assert by_ids.output_hash == text_hashes({"choices": [{"text": "other", "token_ids": [5, 6]}]}).output_hash
    assert by_ids.output_hash != text_hashes({"choices": [{"text": "a b"}]}).output_hash


def test_every_part_of_a_message_counts() -> None:
    plain = text_hashes(chat("hello world")).output_hash
    assert text_hashes(chat("hello  world")).output_hash != plain
    assert (
        text_hashes({"choices": [{"message": {"content": "hello world", "tool_calls": [{"id": 1}]}}]}).output_hash
        != plain
    )
    assert (
        text_hashes({"choices": [{"message": {"reasoning_content": "hm", "content": "hello world"}}]}).output_hash
        != plain
    )


def test_bodies_are_found_inside_of_envelopes() -> None:
    plain = text_hashes(chat("x y z"))
    for record in ({"response": chat("x y z")}, {"response": {"status_code": 200, "body": chat("x y z")}}):
        assert text_hashes(record) == plain
    output = [{"type": "message", "content": [{"type": "output_text", "text": "x y z"}]}]
    assert text_hashes({"object": "response", "output": output}).output_hash == plain.output_hash


def test_several_sequences_have_a_hash_but_no_chain() -> None:
    found = text_hashes({"choices": [{"text": "a"}, {"text": "b"}]})
    assert found.output_hash is not None
    assert found.output_prefix_hashes is None
    assert found.distinct_4gram_share is None


def test_a_record_without_texts_has_no_hashes() -> None:
    assert text_hashes({"usage": {}, "choices": [{"delta": {}}]}).output_hash is None
    assert text_hashes({}).prompt_hash is None
    assert text_hashes({"request": {"messages": [{"role": "user", "content": "hi"}]}}).prompt_hash is not None
