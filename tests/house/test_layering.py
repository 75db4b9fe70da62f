"""Who may import whom: ingest, transforms and reports see the declarations, the command line sees all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import specledger

PACKAGE = Path(specledger.__file__).parent
ROOMS = ("demo", "ingest", "nightly", "reports", "schemas", "transforms")
MAY_IMPORT = {
    "schemas": {"schemas"},
    "ingest": {"ingest", "schemas"},
    "transforms": {"transforms", "schemas"},
    "reports": {"reports", "schemas"},
    "nightly": {"nightly", "ingest", "reports", "schemas", "transforms"},
}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in [*PACKAGE.glob("*.py"), *(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))]
}


def imported(module: str) -> set[str]:
    """The modules of the package that a module imports, anywhere in it, as dotted names inside the package."""
    path = MODULES[module]
    parents = module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("specledger.")]
            found |= {name.removeprefix("specledger.") for name in names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = parents[: len(parents) - node.level + 1]
            elif node.module and node.module.split(".")[0] == "specledger":
                base = []
            else:
                continue
            inside = (node.module or "").split(".") if node.level else (node.module or "").split(".")[1:]
            target = ".".join([*base, *filter(None, inside)])
            for alias in node.names:
                name = f"{target}.{alias.name}" if target else alias.name
                found.add(name if name in MODULES else target or "__init__")
    return {name if name in MODULES else f"{name}.__init__" for name in found}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.split(".")[0] in MAY_IMPORT))
def test_a_room_imports_only_itself_and_the_declarations(module: str) -> None:
    room = module.split(".", maxsplit=1)[0]
    assert {name for name in imported(module) if name.split(".")[0] not in MAY_IMPORT[room] | {"version"}} == set()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_nobody_imports_the_command_line(module: str) -> None:
    assert "__main__" not in imported(module)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_inside_the_package_are_relative(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    absolute = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    assert [name for name in absolute if name and name.split(".")[0] == "specledger"] == []


def test_imports_run_in_no_circle() -> None:
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"a circle of imports: {' -> '.join([*trail[trail.index(module) :], module])}"
        if module not in done:
            for name in imported(module) & MODULES.keys():
                if name != module:
                    visit(name, (*trail, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
