"""The chart JavaScript is put together once a user, and what is kept of it is taken only where it can be relied on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
import vl_convert

from specledger.reports.bundle import vega_bundle


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], tuple[str, int]]]:
    """The bundle as another process gets it, and how often it was put together until then."""
    made: list[str] = []

    def put_together(script: str, vl_version: str) -> str:
        made.append(vl_version)
        return f"<!-- </script> {script}"

    def ask() -> tuple[str, int]:
        vega_bundle.cache_clear()
        return vega_bundle(), len(made)

    monkeypatch.setenv("SPECLEDGER_CACHE", str(tmp_path / "caches"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", put_together)
    yield ask
    vega_bundle.cache_clear()


BUNDLE = "<\\!-- <\\/script> window.vegaEmbed = vegaEmbed;"


def kept(folder: Path) -> Path:
    """The one file that is kept."""
    (path,) = (folder / "caches" / "scripts").iterdir()
    return path


def test_it_is_put_together_once(bundle: Callable[[], tuple[str, int]], tmp_path: Path) -> None:
    assert [bundle(), bundle()] == [(BUNDLE, 1), (BUNDLE, 1)]
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600
    assert kept(tmp_path).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [b"", b"no hash\nalert(1)", b"cut off"])
def test_what_is_not_whole_is_put_together_again(
    bundle: Callable[[], tuple[str, int]], tmp_path: Path, content: bytes
) -> None:
    bundle()
    kept(tmp_path).write_bytes(content)
    assert [bundle(), bundle()] == [(BUNDLE, 2), (BUNDLE, 2)]


def test_what_others_could_have_written_is_not_taken(bundle: Callable[[], tuple[str, int]], tmp_path: Path) -> None:
    bundle()
    kept(tmp_path).chmod(0o666)
    assert [bundle(), bundle()] == [(BUNDLE, 2), (BUNDLE, 2)]


def test_another_version_of_the_libraries_is_another_script(
    bundle: Callable[[], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle()
    monkeypatch.setattr(metadata, "version", lambda package: f"another {package}")
    assert bundle() == (BUNDLE, 2)


def test_where_nothing_can_be_kept_it_is_put_together_each_time(
    bundle: Callable[[], tuple[str, int]], tmp_path: Path
) -> None:
    (tmp_path / "caches").write_text("a file in the place of the folder")
    assert [bundle(), bundle()] == [(BUNDLE, 1), (BUNDLE, 2)]


def test_a_user_without_a_home_gets_it_too(
    bundle: Callable[[], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SPECLEDGER_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    assert [bundle(), bundle()] == [(BUNDLE, 1), (BUNDLE, 2)]
