"""The wheel holds what the repository holds, and nothing is dropped on the way."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {
    ".ci", ".dev", ".gitattributes", ".gitignore", "tests", "docs", "Makefile", "pyproject.toml",
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
}  # fmt: skip


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares the wheel with the repository, and this is none")
def test_the_wheel_holds_exactly_the_files_of_the_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    present = [name for name in tracked if (ROOT / name).is_file()]
    assert inside == {f"specledger/{name}" for name in present if PurePosixPath(name).parts[0] not in NOT_INSTALLED}
