"""The classic C++ and C interface, and the examples of examples/cpp; `make test-hosts` has what takes longer."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.hosts import CHECKED, HERE, PRINTED, build_examples, compile_cpp, run
from tilewright.runtime import libinfo


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_examples(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("name", CHECKED)
def test_the_classic_interface(name: str, tmp_path: Path) -> None:
    program = compile_cpp(HERE / f"{name}.cc", tmp_path / name, "-std=c++17", "-O0", *libinfo.link_options())
    assert run([program]) == "fine\n"


def test_examples(examples: Path) -> None:
    for name, text in PRINTED.items():
        assert run([examples / name, examples / "models"]) == text


def test_a_plugin(examples: Path) -> None:
    """Its functions and modules from Python, and functions of Python from it; the library is linked with no runtime."""
    ctypes.CDLL(str(examples / "plugin.so"))

    def find(name: str) -> Callable[..., Any]:
        found = tvm.get_global_func(f"plugin.{name}")
        assert found is not None
        return found

    x = tvm.nd.array(np.float32([1, 2]))
    np.testing.assert_array_equal(find("scale")(x, 3).numpy(), [3, 6])
    np.testing.assert_array_equal(x.numpy(), [3, 6])
    with pytest.raises(TypeError, match="plugin.scale takes float32, but was given int32"):
        find("scale")(tvm.nd.array(np.int32([1])), 2)
    with pytest.raises(TypeError) as caught:
        find("scale")("x", 2)
    assert str(caught.value) == (
        "In function plugin.scale(0: runtime.NDArray, 1: double) -> runtime.NDArray: error while converting argument 0: expected"
        " runtime.NDArray but got str"
    )
    assert find("apply")(lambda v: v * 2, 1, 10) == 1024 and find("apply")(lambda v: v + "b", "a", 2) == "abb"

    class Lost(Exception):
        pass

    thrown = Lost("by Python")

    def lose(v: int) -> int:
        raise thrown

    with pytest.raises(Lost) as lost:
        find("apply")(lose, 1, 1)
    assert lost.value is thrown
    counter = find("counter")()
    assert counter.type_key == "counter" and [counter["add_3"](), counter["add_4"]()] == [3, 7]
    with pytest.raises(AttributeError, match="the module has no function `sub_1`"):
        counter["sub_1"]


def test_a_plugin_where_there_is_no_runtime(examples: Path) -> None:
    code = f"import ctypes; ctypes.CDLL({str(examples / 'plugin.so')!r}); print('loaded')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "loaded\n"
    assert done.stderr.splitlines()[0] == (
        "tilewright: while a library was loaded: there is no Tilewright runtime in this process: link the program or library with"
        " libtilewright_runtime (`tilewright runtime config --libs` prints the options), or load the runtime before it (in Python:"
        " import tilewright)"
    )
