"""Which files are taken for a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from specledger.schemas.config import load_settings
from specledger.schemas.errors import ConfigError
from specledger.schemas.toml_lines import TomlLines


def written(folder: Path, text: str) -> Path:
    path = folder / "some.toml"
    path.write_text(text)
    return path


def test_the_configuration_of_a_night_serves_every_command(tmp_path: Path) -> None:
    path = written(tmp_path, 'out = "nights"\n[[source]]\npaths = ["*.log"]\n[bands]\nload = ["1", "2+"]\n')
    assert [band.label for band in load_settings(path).load_bands] == ["1", "2+"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[goodput]\nttft_ms = 1" + "0" * 400, "goodput.ttft_ms must be a positive number"),
        ("[goodput]\nttft_ms = nan", "goodput.ttft_ms must be a positive number"),
        ("[bands]\ncontext = [1" + "0" * 20 + "]", "bands.context must be rising"),
        ('[bands]\nload = ["1-' + "9" * 20 + '", "1' + "0" * 20 + '+"]', "bands.load: Load band"),
        ("[goodput]\nttft_ms = 1" + "0" * 5_000, "holds a value that nothing can be"),
        ("out = " + "[" * 3_000 + "]" * 3_000, "nested too deeply"),
    ],
)
def test_numbers_and_nesting_beyond_all_bounds_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(written(tmp_path, text))
    assert "some.toml" in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize("text", ["[band]\nload = []\n", "[[gate]]\nmeasure = 'tpot_ms'\n", "load_bands = ['1+']\n"])
def test_a_table_that_no_configuration_has_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.toml, line 1: \w+ is not known in a configuration; known are"):
        load_settings(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('\n[bands]\n# rising\nload = ["1", "3+"]\n', 4, "bands.load: Load band '3+' does not follow"),
        ('[bands]\nload = "1+"\n', 2, "bands.load must be a list"),
        ("[bands]\n\ncontext = [4, 1]\n", 3, "bands.context must be rising"),
        ("[goodput]\n\ntpot_ms = 0\n", 3, "goodput.tpot_ms must be a positive number"),
        ("\n[goodput]\ntftt_ms = 3\n", 3, "goodput.tftt_ms is not known"),
        ("out = 'nights'\nbands = 3\n", 2, "[bands] must be a table"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load_settings(path)
    assert str(refused.value).startswith(f"{path}, line {line}: {says}")


def test_a_line_is_found_for_keys_written_in_any_way() -> None:
    text = 'a.b = 1\n[c]\n"d e" = [\n  "x = y",\n]\n[[f]]\ng = 1\n[f.h]\ni = 2\n[[f]]\ng = 3\n'
    lines = TomlLines(Path("file"), text)
    assert lines.at("a", "b") == "file, line 1"
    assert lines.at("c", "d e") == "file, line 3"
    assert lines.at("f", 0, "h", "i") == "file, line 9"
    assert lines.at("f", 1, "g") == "file, line 11"
    assert lines.at("f", 1, "absent") == "file, line 10"
    assert [lines.at(name) for name in ("a", "f", "absent")] == ["file, line 1", "file, line 6", "file"]
