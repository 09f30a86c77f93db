"""Options and fixtures of pytest for tests of boards: `pytest_plugins = ["tilewright.micro.testing.pytest_plugin"]`.

--platform, --board: what tests with arguments of these names get. --test-build-only: leaves out tests with the mark requires_hardware.
--microtvm-debug: keeps the folders of projects. --serial: the serial number of the board.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.contrib.utils import TempDirectory
from tilewright.micro.testing.utils import get_supported_boards, get_supported_platforms


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    boards = sorted({name for platform in get_supported_platforms() for name in get_supported_boards(platform)})
    parser.addoption("--platform", choices=get_supported_platforms(), help="the platform of the tests' projects")
    parser.addoption("--board", choices=boards, help="the board that tests run on, real or emulated")
    parser.addoption("--test-build-only", action="store_true", help="leave out tests that need a board")
    parser.addoption("--microtvm-debug", action="store_true", help="keep the folders of projects")
    parser.addoption("--serial", default=None, help="the serial number of the board")


def pytest_configure(config: pytest.Config) -> None:
    """Adds the marks."""
    config.addinivalue_line("markers", "skip_boards(boards): leave a test out on these boards")
    config.addinivalue_line("markers", "requires_hardware: the test needs a board")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives tests their platform and board. Raises UsageError where a test wants one, and none was named."""
    for argument in ("platform", "board"):
        if argument in metafunc.fixturenames:
            value = metafunc.config.getoption(f"--{argument}")
            if value is None:
                raise pytest.UsageError(f"{metafunc.definition.nodeid} takes a {argument}: name it by --{argument}")
            metafunc.parametrize(argument, [value])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what --test-build-only says."""
    if config.getoption("--test-build-only"):
        for item in items:
            if "requires_hardware" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="--test-build-only was given"))


@pytest.fixture(scope="session")
def microtvm_debug(request: pytest.FixtureRequest) -> bool:
    """Whether the folders of projects are kept."""
    return bool(request.config.getoption("--microtvm-debug"))


@pytest.fixture
def workspace_dir(request: pytest.FixtureRequest, board: str, microtvm_debug: bool) -> Iterator[TempDirectory]:
    """A folder for a test's project, beside the test's file: workspace_BOARD/TIME. It is removed, unless --microtvm-debug."""
    home = Path(str(request.path)).parent / f"workspace_{board}"
    name = datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    taken = (home / (name if number == 0 else f"{name}-{number}") for number in range(1 << 20))
    folder = TempDirectory(custom_path=next(path for path in taken if not path.exists()))
    yield folder
    if not microtvm_debug:
        shutil.rmtree(folder.path)
        if not any(home.iterdir()):
            home.rmdir()


@pytest.fixture(autouse=True)
def skip_by_board(request: pytest.FixtureRequest, board: str | None = None) -> None:
    """Leaves a test out on the boards of its mark skip_boards. board: by default that of the option, so tests without one need none."""
    mark = request.node.get_closest_marker("skip_boards")
    board = board or request.config.getoption("--board")
    if mark is not None and board in mark.args[0]:
        pytest.skip(f"left out on the board {board}")


@pytest.fixture
def serial_number(request: pytest.FixtureRequest) -> str | None:
    """The serial number of the board."""
    found: str | None = request.config.getoption("--serial")
    return found
