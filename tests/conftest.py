"""Shared by all tests: nodes that refuse assignment, and goldens, which `pytest --update` rewrites beside the tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from tests import slow_cases
from tilewright.node import install_immutability_guard

# Tests start hundreds of processes. Where bytecode is not kept, each of them compiles a thousand files before it does anything.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the tests in the background lets them ignore interrupts, which those of Ctrl-C, and processes that tests start, need.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything declares a node type: constructors are generated for the guard.
install_immutability_guard()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files from what the tests produce")
    parser.addoption(
        "--roundtrip", action="store_true", help="print and parse every tensor program that the tests make"
    )
    parser.addoption(
        "--choose-slow", action="store_true", help="run every case, and write those that wait into slow_cases.txt"
    )
    parser.addoption("--through-c", action="store_true", help="let the C back end make what is built for llvm")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--roundtrip"):
        from tests.roundtrip_plugin import RoundTrip

        config.pluginmanager.register(RoundTrip())
    if config.getoption("--choose-slow"):
        config.pluginmanager.register(slow_cases.Choice())
    if config.getoption("--through-c"):
        from tests.through_c import ThroughC

        config.pluginmanager.register(ThroughC())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--choose-slow"):
        slow_cases.mark(items)


def pytest_collection_finish() -> None:
    # Modules and tests stay until the end; Python's garbage collector need not look through them again and again.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_random_numbers(request: pytest.FixtureRequest) -> None:
    """What a test draws from its module's RNG depends on the test alone, not on those that ran before it in the same process."""
    rng = getattr(request.module, "RNG", None)
    if isinstance(rng, np.random.Generator):
        rng.bit_generator.state = type(rng.bit_generator)(crc32(request.node.name.encode())).state


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name", text)` compares text with goldens/name.txt beside the test."""
    folder = Path(request.path).parent / "goldens"

    def check(name: str, text: str) -> None:
        path = folder / f"{name}.txt"
        if request.config.getoption("--update"):
            folder.mkdir(exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n")
            return
        assert path.exists(), f"{path.name} is missing; run pytest with --update and look at what it wrote"
        assert text.rstrip("\n") + "\n" == path.read_text()

    return check


@pytest.fixture
def untold_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators without what other tests of the process told of them: attributes of operators keep models out of the compile cache."""
    from tilewright.ir import Op

    own = {key: value for key, value in Op._properties.items() if key[1] == "TCallEffectKind"}
    monkeypatch.setattr(Op, "_properties", own)
