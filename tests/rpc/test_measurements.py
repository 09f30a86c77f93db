"""What `time_evaluator` does on the server: each of its numbers, counted and timed there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_sessions import add_one, functions
from tilewright import rpc
from tilewright.runtime import Module
from tilewright.support.errors import RPCError

LOOPBACK = "127.0.0.1"


def counted() -> None:
    """A server's module whose function `work` counts, and tells when it was called."""
    calls: list[str] = []
    times: list[float] = []

    def work(seconds: float = 0.0) -> None:
        calls.append("work")
        times.append(time.monotonic())
        time.sleep(seconds)

    tvm.register_func("tests.rpc.module", lambda: Module.from_functions({"work": work}, "counted"), override=True)
    tvm.register_func("tests.rpc.before", lambda *_: calls.append("before"), override=True)
    tvm.register_func("tests.rpc.calls", lambda: list(calls), override=True)
    tvm.register_func("tests.rpc.times", lambda: list(times), override=True)


@pytest.fixture
def remote() -> Iterator[rpc.RPCSession]:
    functions()
    counted()
    server = rpc.Server(LOOPBACK, 0, silent=True)
    yield rpc.connect(LOOPBACK, server.port, session_timeout=60)
    server.terminate()


def test_runs_and_repeats(remote: rpc.RPCSession) -> None:
    """One call to warm up; then `number` calls for each result, before which `f_preproc` is called."""
    module = remote.get_function("tests.rpc.module")()
    found = module.time_evaluator("work", remote.cpu(0), number=3, repeat=2, f_preproc="tests.rpc.before")(0.01)
    assert remote.get_function("tests.rpc.calls")() == ["work", *2 * ["before", "work", "work", "work"]]
    assert len(found.results) == 2 and all(0.01 <= seconds < 1 for seconds in found.results)


def test_the_shortest_time_of_a_repeat(remote: rpc.RPCSession) -> None:
    """More runs are taken until a repeat lasts so long; each result is the time of one run."""
    module = remote.get_function("tests.rpc.module")()
    found = module.time_evaluator("work", remote.cpu(0), number=1, repeat=1, min_repeat_ms=60)(0.004)
    assert 0.004 <= found.mean < 0.06
    assert len(remote.get_function("tests.rpc.calls")()) >= 10


def test_runs_that_take_no_time(remote: rpc.RPCSession) -> None:
    """On a clock that stands still, they are given up after `limit_zero_time_iterations`."""
    module = remote.get_function("tests.rpc.module")()
    evaluator = module.time_evaluator(
        "work", remote.cpu(0), number=1, repeat=1, min_repeat_ms=1, limit_zero_time_iterations=1
    )
    assert evaluator(0.0).mean >= 0


def test_pauses_between_repeats(remote: rpc.RPCSession) -> None:
    """After every second one of six."""
    module = remote.get_function("tests.rpc.module")()
    module.time_evaluator("work", remote.cpu(0), number=1, repeat=6, cooldown_interval_ms=100, repeats_to_cooldown=2)(
        0.0
    )
    times = remote.get_function("tests.rpc.times")()[1:]
    pauses = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert [pause >= 0.1 for pause in pauses] == [False, True, False, True, False]


def test_caches_are_flushed(remote: rpc.RPCSession, tmp_path: Path) -> None:
    """By bytes that are read, and by the function that lets the arguments but the first leave the caches. Of 64 KB each, since a clock may
    tick in steps of 10 ns, in which one line of memory is fetched."""
    size = 1 << 14
    remote.upload(add_one(tmp_path, size))
    module, device = remote.load_module("add_one.so"), remote.cpu(0)
    a, b = tvm.nd.array(np.arange(size, dtype="float32"), device), tvm.nd.empty((size,), "float32", device)
    for options in ({"cache_flush_bytes": 4 << 20}, {"f_preproc": "cache_flush_cpu_non_first_arg"}):
        found = module.time_evaluator("add_one", device, number=1, repeat=3, **options)(a, b)
        assert len(found.results) == 3 and found.max < 1
        np.testing.assert_array_equal(b.numpy(), np.arange(size) + 1)
    cold = module.time_evaluator("add_one", device, 1, 30, f_preproc="cache_flush_cpu_non_first_arg")(a, b)
    warm = module.time_evaluator("add_one", device, 1, 30)(a, b)
    assert cold.median > warm.median


def test_measurements_that_cannot_be(remote: rpc.RPCSession) -> None:
    module, device = remote.get_function("tests.rpc.module")(), remote.cpu(0)
    with pytest.raises(RPCError, match="there is no function `missing` to call before each repeat"):
        module.time_evaluator("work", device, f_preproc="missing")
    with pytest.raises(ValueError, match="f_preproc is its name"):
        module.time_evaluator("work", device, f_preproc=lambda: None)
    with pytest.raises(RPCError, match="number and repeat must be at least 1, got 0 and 1"):
        module.time_evaluator("work", device, number=0)
    with pytest.raises(RPCError, match="cache_flush_bytes must not be negative, got -1"):
        module.time_evaluator("work", device, cache_flush_bytes=-1)
    with pytest.raises(RPCError, match="device type hexagon has no runtime"):
        module.time_evaluator("work", remote.hexagon(0))(0.0)
