"""Nothing stands at the top of a module that nobody reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.test_layering import MODULES

READ_ELSEWHERE = {
    "__init__.__getattr__",  # by Python
    "__main__.EXIT_CODES",  # by the reference
    "ingest.reader.BatchReader",  # what a format's functions are like; formats are found by name
    "ingest.reader.Reader",
    "ingest.reader.UrlReader",
    "reports.json_schema.PUBLISHED",  # by the test that holds the file to the model
}


def defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def read(tree: ast.Module) -> Iterator[str]:
    """Names that are read, and words of short texts: commands and formats are found by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names)
            case ast.Constant(value=str(text)) if len(text) < 60:
                yield from text.replace(":", " ").replace(".", " ").split()


def test_every_name_at_the_top_of_a_module_is_read_somewhere() -> None:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    known = {name for tree in trees.values() for name in read(tree)}
    unread = {f"{module}.{name}" for module, tree in trees.items() for name in defined(tree) if name not in known}
    assert unread == READ_ELSEWHERE
