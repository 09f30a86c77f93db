"""The plugin of pytest for tests of boards, in suites as users write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest

def test_platform(platform, board):
    assert (platform, board) == ("qemu", "microbit")

@pytest.mark.skip_boards(["microbit"])
def test_elsewhere():
    raise AssertionError

@pytest.mark.requires_hardware
def test_hardware(serial_number):
    assert serial_number == "77"

def test_folder(workspace_dir, microtvm_debug):
    (workspace_dir.path / "project").mkdir()
    assert workspace_dir.path.parent.name == "workspace_microbit"
"""


def run(folder: Path, *options: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tilewright.micro.testing.pytest_plugin"]\n')
    (folder / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *options,
    ]
    done = subprocess.run([*command, str(folder)], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_suite(tmp_path: Path) -> None:
    board = ("--platform", "qemu", "--board", "microbit")
    status, said = run(tmp_path, *board, "--serial", "77")
    assert status == 0 and "3 passed, 1 skipped" in said and "left out on the board microbit" in said
    assert not (tmp_path / "workspace_microbit").exists()
    status, said = run(tmp_path, *board, "--test-build-only", "--microtvm-debug")
    assert status == 0 and "2 passed, 2 skipped" in said and "--test-build-only was given" in said
    assert len([*tmp_path.glob("workspace_microbit/*/project")]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--board", "microbit"), "test_platform takes a platform: name it by --platform"),
        (("--board", "micro-bit"), "argument --board: invalid choice: 'micro-bit'"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    status, said = run(tmp_path, *options)
    assert status != 0 and message in said, said
