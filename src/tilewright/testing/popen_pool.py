"""Functions that tests hand to `contrib.popen_pool`: initialisers, calls through packed functions, and work that takes a while."""

from __future__ import annotations

import time
from typing import Any

from tilewright.runtime import get_global_func, register_func
from tilewright.testing.functions import identity_cpp

TEST_GLOBAL_STATE_1 = 0
TEST_GLOBAL_STATE_2 = 0
TEST_GLOBAL_STATE_3 = 0


def initializer(test_global_state_1: int, test_global_state_2: int, test_global_state_3: int) -> None:
    """Sets the globals of a process, as an initialiser of a pool."""
    global TEST_GLOBAL_STATE_1, TEST_GLOBAL_STATE_2, TEST_GLOBAL_STATE_3
    TEST_GLOBAL_STATE_1, TEST_GLOBAL_STATE_2 = test_global_state_1, test_global_state_2
    TEST_GLOBAL_STATE_3 = test_global_state_3


def after_initializer() -> tuple[int, int, int]:
    """The globals of the process."""
    return TEST_GLOBAL_STATE_1, TEST_GLOBAL_STATE_2, TEST_GLOBAL_STATE_3


def register_ffi() -> None:
    """Registers "testing.identity_py" as a packed function of the process."""
    register_func("testing.identity_py", identity_py, override=True)


def identity_py(arg: Any) -> Any:
    """Gives its argument back."""
    return arg


def call_py_ffi(arg: Any) -> Any:
    """Calls the packed function "testing.identity_py"."""
    function = get_global_func("testing.identity_py")
    assert function is not None
    return function(arg)


def call_cpp_ffi(arg: Any) -> Any:
    """Calls a packed function of the package."""
    return identity_cpp(arg)


def call_cpp_py_ffi(arg: Any) -> Any:
    """Calls a packed function of the package with what one of the process gave."""
    return identity_cpp(call_py_ffi(arg))


def fast_summation(n: int) -> int:
    """The sum of the numbers below n, by its formula."""
    return n * (n - 1) // 2


def slow_summation(n: int) -> int:
    """The sum of the numbers below n, one after the other."""
    total = 0
    for k in range(n):
        total += k
    return total


def timeout_job(n: float) -> None:
    """Takes three times n seconds, beyond a limit of n."""
    time.sleep(3 * n)
