"""The JSON Schema of report.json, derived from the declared structure of a report.

``python -m specledger.reports.json_schema > reports/report.schema.json`` publishes it anew.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import model

PUBLISHED = Path(__file__).with_name("report.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema as a document: one definition a class, every field required, no field beyond them."""
    definitions: dict[str, Any] = {}
    root = _definition(model.Report, definitions)
    root["properties"]["schema_version"] = {"const": model.SCHEMA_VERSION}
    return {
        "$schema": DIALECT,
        "$id": f"urn:specledger:report:{model.SCHEMA_VERSION}",
        "title": "specledger report",
        **root,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def text() -> str:
    """The schema as the text that is published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _definition(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    sentences = _sentences(kind)
    properties = {}
    for field in dataclasses.fields(kind):
        described = _described(hints[field.name], definitions)
        if field.name in sentences:
            described = {"description": sentences[field.name], **described}
        properties[field.name] = described
    return {
        "description": inspect.getdoc(kind),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _described(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    plain = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}
    if kind in plain:
        return {"type": plain[kind]}
    if dataclasses.is_dataclass(kind):
        name = typing.cast(type, kind).__name__
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _definition(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    return _composed(typing.get_origin(kind), typing.get_args(kind), definitions)


def _composed(origin: Any, arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in {typing.Union, types.UnionType}:
        return {"anyOf": [_described(argument, definitions) for argument in arguments]}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _described(arguments[0], definitions)}
    if origin is tuple:
        items = [_described(argument, definitions) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _described(arguments[1], definitions)}
    raise TypeError(f"No JSON form is known for {origin}[{arguments}].")


def _sentences(kind: type) -> dict[str, str]:
    """The sentence below each field in the source of the class."""
    return _all_sentences().get(kind.__name__, {})


@cache
def _all_sentences() -> dict[str, dict[str, str]]:
    sentences: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(model)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        found = sentences.setdefault(node.name, {})
        for field, following in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                sentence = _sentence(following)
                if sentence:
                    found[field.target.id] = sentence
    return sentences


def _sentence(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return None


if __name__ == "__main__":
    sys.stdout.write(text())
