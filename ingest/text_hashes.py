"""Hashes of prompts and outputs, for telling whether two deployments answered alike; the text itself is never kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PREFIX_TOKENS = 16
"""Output tokens between two links of the chain of prefix hashes."""
_PIECE = re.compile(r"\s?\w+|\s?[^\w\s]+|\s+")
"""What stands for a token where only text is given: a word or a run of punctuation with the space before it."""


@dataclass(frozen=True)
class TextHashes:
    """What is kept of the texts of one request; None where the record does not hold them.

    ``output_prefix_hashes`` has one 64-bit hash for every PREFIX_TOKENS whole tokens, each covering all tokens before
    it: two outputs agree up to the first hash in which they differ.
    """

    prompt_hash: str | None = None
    output_hash: str | None = None
    output_prefix_hashes: list[int] | None = None
    distinct_4gram_share: float | None = None


def text_hashes(record: Mapping[str, Any]) -> TextHashes:
    """The hashes of one logged record (envelope or body); token ids are preferred to text where both are given."""
    prompt = _prompt(record)
    outputs = _outputs(record)
    tokens = outputs[0] if len(outputs) == 1 else None
    return TextHashes(
        prompt_hash=None if prompt is None else _hex(prompt),
        output_hash=_hex(outputs) if outputs else None,
        output_prefix_hashes=None if tokens is None else prefix_hashes(tokens),
        distinct_4gram_share=None if tokens is None else distinct_4gram_share(tokens),
    )


def prefix_hashes(tokens: Sequence[int | str]) -> list[int]:
    """A chained 64-bit hash after every PREFIX_TOKENS tokens; what is left at the end is not covered."""
    chain, link = [], b""
    for start in range(0, len(tokens) - PREFIX_TOKENS + 1, PREFIX_TOKENS):
        part = json.dumps(list(tokens[start : start + PREFIX_TOKENS])).encode()
        link = hashlib.blake2b(link + part, digest_size=8).digest()
        chain.append(int.from_bytes(link, "big"))
    return chain


def distinct_4gram_share(tokens: Sequence[int | str]) -> float | None:
    """Distinct runs of four tokens over all runs of four; None for fewer than four tokens."""
    grams = list(zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False))
    return len(set(grams)) / len(grams) if grams else None


def _hex(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()


def _prompt(record: Mapping[str, Any]) -> object:
    for holder in (record.get("request"), record.get("request_body"), record, _body(record)):
        if isinstance(holder, Mapping):
            for key in ("prompt_token_ids", "messages", "prompt", "input"):
                if holder.get(key):
                    return holder[key]
    return None


def _outputs(record: Mapping[str, Any]) -> list[list[int | str]]:
    """The tokens (or pieces of text) of each returned sequence."""
    for holder in (_body(record), record):
        ids = holder.get("output_token_ids")
        if isinstance(ids, list) and ids:
            return [ids]
        choices = holder.get("choices")
        found = [_sequence(choice) for choice in choices or () if isinstance(choice, Mapping)]
        if found and all(found):
            return found
        text = "".join(_output_texts(holder.get("output"))) or holder.get("output_text")
        if isinstance(text, str) and text:
            return [list(_PIECE.findall(text))]
    return []


def _sequence(choice: Mapping[str, Any]) -> list[int | str]:
    ids = choice.get("token_ids")
    if isinstance(ids, list) and ids:
        return ids
    message = choice.get("message")
    if isinstance(message, Mapping):
        parts = [message.get(key) for key in ("reasoning_content", "reasoning", "content")]
        text = "".join(part for part in parts if isinstance(part, str))
        if message.get("tool_calls"):
            text += json.dumps(message["tool_calls"], sort_keys=True)
    else:
        text = choice["text"] if isinstance(choice.get("text"), str) else ""
    return list(_PIECE.findall(text))


def _output_texts(output: object) -> list[str]:
    """The texts of a Responses API output list."""
    texts: list[str] = []
    for item in output if isinstance(output, list) else ():
        parts = (item.get("content") if isinstance(item, Mapping) else None) or ()
        texts += [part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    return texts


def _body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("response", "body", "response_body"):
        body = record.get(key)
        if isinstance(body, Mapping):
            inner = body.get("body")
            return inner if isinstance(inner, Mapping) else body
    return record
