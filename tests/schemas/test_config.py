"""Which files are taken for a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from specledger.schemas.config import load_settings
from specledger.schemas.errors import ConfigError


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
    with pytest.raises(ConfigError, match=r"some\.toml: \w+ is not known in a configuration; known are warehouse, out"):
        load_settings(written(tmp_path, text))
