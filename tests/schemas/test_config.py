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


@pytest.mark.parametrize("text", ["[band]\nload = []\n", "[[gate]]\nmeasure = 'tpot_ms'\n", "load_bands = ['1+']\n"])
def test_a_table_that_no_configuration_has_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.toml: \w+ is not known in a configuration; known are warehouse, out"):
        load_settings(written(tmp_path, text))
