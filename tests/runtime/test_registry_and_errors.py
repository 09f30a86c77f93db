"""Functions across the boundary both ways, and the errors and tracebacks that come back."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
import weakref

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tilewright import runtime, te
from tilewright.support.errors import TVMError


def test_values_survive_the_round_trip():
    echo = runtime.convert(lambda *args: args[0] if len(args) == 1 else list(args))
    big = 2**62
    for value in (
        None,
        True,
        False,
        0,
        -5,
        big,
        1.5,
        "",
        "abcdefg",
        "abcdefgh",
        "ünïcode" * 9,
        os.fsdecode(b"\xff"),
        os.fsdecode(b"not UTF-8: \xff" * 9),
        b"",
        b"1234567",
        b"\0" * 99,
    ):
        assert echo(value) == value and type(echo(value)) is type(value)
    assert echo([1, "two", [3.0, None]]) == [1, "two", [3.0, None]]
    assert echo((1, 2)) == [1, 2]
    assert echo(runtime.cpu(0)) == runtime.cpu(0)
    assert echo(np.dtype("int8")) == "int8" and echo(np.dtype(ml_dtypes.bfloat16)) == "bfloat16"
    assert echo(np.float32(2.5)) == 2.5 and echo(np.int64(7)) == 7
    held = object()
    assert echo(held) is held
    assert echo(lambda x: x + 1)(2) == 3
    array = runtime.array([1.0, 2.0])
    assert echo(array).data_address == array.data_address
    assert echo(*range(40)) == list(range(40))


def test_registry_both_ways():
    runtime.register_func("test.twice", lambda x: 2 * x)
    try:
        assert runtime.get_global_func("test.twice")(21) == 42
        assert "test.twice" in runtime.list_global_func_names()
        with pytest.raises(ValueError, match=r"global function `test.twice` is already registered; pass override=True"):
            runtime.register_func("test.twice", lambda x: x)
        runtime.register_func("test.twice", lambda x: x, override=True)
        assert runtime.get_global_func("test.twice")(21) == 21
    finally:
        runtime.remove_global_func("test.twice")
    assert runtime.get_global_func("test.twice", allow_missing=True) is None
    with pytest.raises(ValueError, match="no global function is registered as `test.twice`"):
        runtime.get_global_func("test.twice")
    assert runtime.get_global_func("runtime.NumThreads")() == runtime.num_threads()


def test_callback_exception_is_the_same_object_with_merged_traceback():
    class Mine(Exception):
        pass

    original = Mine("inside")

    def inner():
        raise original

    with pytest.raises(Mine) as caught:
        runtime.convert(inner)()
    assert caught.value is original
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0].startswith("test_callback") and names[-1] == "inner"


def test_native_errors_become_their_python_classes():
    with pytest.raises(TypeError, match="expected a module, got an int$"):
        runtime.get_global_func("runtime.ModuleGetTypeKey")(1)
    from tilewright.runtime.errors import make_error

    error = make_error(
        "ValueError", "text", '  File "kernel.cc", line 7, in run\n  File "caller.cc", line 9, in outer\n'
    )
    assert isinstance(error, ValueError)
    frames = traceback.extract_tb(error.__traceback__)
    assert [(f.filename, f.lineno, f.name) for f in frames] == [("caller.cc", 9, "outer"), ("kernel.cc", 7, "run")]
    unknown = make_error("StrangeError", "text", "")
    assert isinstance(unknown, TVMError) and str(unknown) == "StrangeError: text"


def test_objects_are_released():
    class Held:
        pass

    held = Held()
    seen = weakref.ref(held)
    function = runtime.convert(lambda h=held: h)
    array = runtime.numpyasarray(values := np.zeros(3, "float32"))
    before = sys.getrefcount(values)
    del held, function, array
    gc.collect()
    assert seen() is None and sys.getrefcount(values) == before - 1


def test_interrupt_stops_a_native_measurement():
    calls = []
    # A process that a shell started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work():
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            runtime.time_function(work, number=1, repeat=100000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) < 1000


def test_time_evaluator_result():
    result = runtime.time_function(lambda: None, number=3, repeat=4)
    assert len(result.results) == 4 and result.min <= result.median <= result.max
    lines = str(result).splitlines()
    assert lines[0] == "Execution time summary:"
    assert lines[1].split() == ["mean", "(ms)", "median", "(ms)", "max", "(ms)", "min", "(ms)", "std", "(ms)"]
    with pytest.raises(ValueError, match="number and repeat must be at least 1, got 0 and 1"):
        runtime.time_function(lambda: None, number=0)


def test_wrong_calls_are_errors_of_both_kinds():
    """Programs catch them as a TVMError, as classic TVM raises it, or as Python's own kind."""
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="b")
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    x = tvm.nd.empty((4,))
    for kind, args in (
        (TypeError, (x,)),
        (ValueError, (x, tvm.nd.empty((5,)))),
        (TypeError, (x, tvm.nd.empty((4,), "int8"))),
    ):
        for expected in (kind, TVMError):
            with pytest.raises(expected, match="default_function: "):
                f(*args)
    with pytest.raises(TVMError, match="is already registered"):
        runtime.register_func("runtime.ModuleImport", f)
    with pytest.raises(TVMError, match="placeholder 'a' is read, but is not among the arguments"):
        tvm.build(te.create_schedule(b.op), [b])
    travelled = runtime.convert(lambda: f(x))
    with pytest.raises(TypeError, match="the number of arguments must be 2"):
        travelled()
