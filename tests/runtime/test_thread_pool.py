"""The thread pool: regions, errors, nesting, callers at once, forks, the end of the process, and how many threads there are."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import runtime
from tilewright.runtime import _ffi
from tilewright.script import tir as T

Task = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
launch = ctypes.CDLL(_ffi.__file__).TWParallelLaunch
launch.argtypes = [Task, ctypes.c_void_p, ctypes.c_int32]


def region(task: Callable[[int, int], Any], tasks: int) -> int:
    """Runs task(index, count) for each index on the pool; the region's code."""

    def body(i: int, n: int, _: Any) -> int:
        return int(task(i, n) or 0)

    return int(launch(Task(body), None, tasks))


@tvm.script.ir_module
class Doubled:
    @T.prim_func
    def main(a: T.Buffer((1 << 16,), "float32"), b: T.Buffer((1 << 16,), "float32")):
        for i in T.parallel(64):
            for j in range(1024):
                with T.block("b"):
                    v = T.axis.spatial(1 << 16, i * 1024 + j)
                    b[v] = a[v] * T.float32(2)


@pytest.fixture(scope="module")
def doubled() -> Callable[[], bool]:
    module = tvm.build(Doubled, target="llvm")
    x = tvm.nd.array(np.arange(1 << 16, dtype="float32"))

    def right() -> bool:
        y = tvm.nd.array(np.zeros(1 << 16, "float32"))
        module["main"](x, y)
        return np.array_equal(y.numpy(), x.numpy() * 2)

    return right


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    runtime.set_num_threads(None)


def python(code: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with an environment that says nothing else of threads."""
    env = {k: v for k, v in os.environ.items() if k not in ("TVM_NUM_THREADS", "OMP_NUM_THREADS")} | environment
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=check, timeout=120
    )


# ---- regions


@pytest.mark.parametrize("tasks", [1, 2, 3, 100, 40000])
def test_every_task_runs_once(tasks: int) -> None:
    seen = np.zeros(tasks, np.int64)

    def task(i: int, n: int) -> None:
        assert n in (tasks, 16 * runtime.num_threads())
        seen[i] += 1

    assert region(task, tasks) == 0
    assert (seen == 1).all()


@pytest.mark.parametrize("most", [1, 3, 40000])
def test_pieces_as_many_as_suit_the_pool(most: int) -> None:
    seen: list[tuple[int, int]] = []
    assert region(lambda i, n: seen.append((i, n)), -most) == 0
    count = min(most, 8 * runtime.num_threads()) if runtime.num_threads() > 1 else 1
    assert sorted(seen) == [(i, count) for i in range(count)]


def test_a_thread_without_tasks_takes_those_of_another() -> None:
    """One thread is held up in its first task: the other does the rest of both shares."""
    runtime.set_num_threads(2)
    if runtime.num_threads() == 1:
        return
    turns, rest = itertools.count(), threading.Event()
    ran: dict[int, int] = {}

    def task(i: int, n: int) -> None:
        if next(turns) == 0:
            assert rest.wait(30)
        ran[i] = threading.get_ident()
        if len(ran) == n - 1:
            rest.set()

    try:
        assert region(task, 16) == 0
    finally:
        runtime.set_num_threads(None)
    assert len(ran) == 16 and sorted([list(ran.values()).count(t) for t in set(ran.values())]) == [1, 15]


def test_tasks_run_in_several_threads() -> None:
    count = min(2, runtime.num_threads())
    together = threading.Barrier(count, timeout=30)
    threads = set()

    def task(i: int, n: int) -> None:
        together.wait()
        threads.add(threading.get_ident())

    assert region(task, count) == 0
    assert len(threads) == count


def test_nested_regions_are_serial() -> None:
    inner: dict[int, set[int]] = {}

    def task(i: int, n: int) -> int:
        threads: set[int] = set()
        code = region(lambda *_: threads.add(threading.get_ident()), 8)
        inner[i] = threads
        assert threads == {threading.get_ident()}
        return code

    assert region(task, 4) == 0
    assert len(inner) == 4


def test_code_of_a_failing_task() -> None:
    ran = []
    assert region(lambda i, n: ran.append(i) or (7 if i == 3 else 0), 8) == 7
    assert region(lambda i, n: 0, 8) == 0


@tvm.script.ir_module
class CallsBack:
    @T.prim_func
    def main(n: T.int32):
        T.func_attr({"global_symbol": "main"})
        for i in T.parallel(n):
            T.evaluate(T.call_packed("test.thread_pool.task", i))


def test_tasks_that_call_python() -> None:
    """Workers take the lock of the interpreter, which the caller does not hold while it waits; errors of tasks come back."""
    seen = []

    def task(i: int) -> None:
        seen.append(i)
        if i == 11:
            raise ValueError("task 11 has failed")

    tvm.register_func("test.thread_pool.task", task, override=True)
    main = tvm.build(CallsBack, target="llvm")["main"]
    main(8)
    assert sorted(seen) == list(range(8))
    with pytest.raises(ValueError, match="task 11 has failed"):
        main(16)
    main(4)


def test_callers_at_once(doubled: Callable[[], bool]) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        wrong.extend(k for _ in range(50) if not doubled())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads) and not wrong


def test_workers_stay_away_while_others_run() -> None:
    """Two callers on two processors are two threads: the pool's worker leaves its place to the second caller."""
    runtime.set_num_threads(2)
    first, second, mine = threading.Event(), threading.Event(), set()

    def slow(i: int, n: int) -> None:
        if i == 0:
            first.set()
            assert second.wait(30)
        mine.add(threading.get_ident())
        time.sleep(0.001)

    def other() -> None:
        first.wait(30)
        mine.clear()

        def task(i: int, n: int) -> None:
            second.set()
            time.sleep(0.002)

        assert region(task, 40) == 0

    try:
        thread = threading.Thread(target=other)
        thread.start()
        assert region(slow, 30) == 0
        thread.join(30)
    finally:
        runtime.set_num_threads(None)
    assert len(mine) <= 2


# ---- processes


def test_fork(doubled: Callable[[], bool]) -> None:
    assert doubled()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if doubled() and doubled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert doubled()


def test_fork_while_another_thread_runs(doubled: Callable[[], bool]) -> None:
    done = threading.Event()
    thread = threading.Thread(target=lambda: [doubled() for _ in iter(done.is_set, True)])
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                region(lambda i, n: 0, 8)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join(30)
    assert doubled()


@pytest.mark.parametrize("daemon", [True, False])
def test_end_of_the_process(daemon: bool) -> None:
    """The interpreter may end while the pool waits, and while a daemon thread runs regions."""
    code = f"""
import threading, time, numpy as np, tilewright as tvm
from tests.runtime.test_thread_pool import Doubled
main = tvm.build(Doubled, target="llvm")["main"]
x, y = tvm.nd.array(np.ones(1 << 16, "float32")), tvm.nd.array(np.ones(1 << 16, "float32"))
def work():
    for _ in range(10**9 if {daemon} else 100): main(x, y)
thread = threading.Thread(target=work, daemon={daemon}); thread.start(); time.sleep(0.05); print("end")
"""
    assert python(code, PYTHONPATH=os.getcwd()).stdout == "end\n"


# ---- numbers of threads


def threads_with(prefix: str = "", **environment: str) -> int:
    return int(python(f"{prefix}\nimport tilewright.runtime as r; print(r.num_threads())", **environment).stdout)


def test_number_of_threads(restored: None) -> None:
    allowed = len(os.sched_getaffinity(0))
    assert 1 <= threads_with() <= allowed
    assert threads_with(TVM_NUM_THREADS="1", OMP_NUM_THREADS="2") == 1
    assert threads_with(OMP_NUM_THREADS="1,4") == 1
    assert threads_with(OMP_NUM_THREADS="1000") <= allowed
    assert threads_with(TVM_NUM_THREADS="") == threads_with()
    runtime.set_num_threads(1)
    assert runtime.num_threads() == 1
    runtime.set_num_threads(1000)
    assert runtime.num_threads() <= allowed


def test_affinity_is_kept() -> None:
    assert threads_with("import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})") == 1


def test_workers_wake_on_other_cores() -> None:
    """A worker sleeps with the core of the caller taken out of those it may use, unless it has no other; awake it may use all."""
    code = """
import os, threading, time
from tests.runtime.test_thread_pool import region
import tilewright.runtime as r
allowed = sorted(os.sched_getaffinity(0))
before = set(os.listdir("/proc/self/task"))
region(lambda i, n: None, r.num_threads())
workers = [int(t) for t in set(os.listdir("/proc/self/task")) - before]
def cores(): return [sorted(os.sched_getaffinity(w)) for w in workers]
def slept(): time.sleep(0.2); return cores()
def awake():
    found = {}
    def task(i, n):
        found[threading.get_native_id()] = sorted(os.sched_getaffinity(0))
        end = time.monotonic() + 5
        while len(found) < n and time.monotonic() < end: time.sleep(0.001)
    region(task, r.num_threads())
    return [found[w] for w in workers]
for core in (allowed[0], allowed[-1]):
    os.sched_setaffinity(0, {core})
    awake()
    assert slept() == [[c for c in allowed if c != core] or allowed for w in workers], (core, cores())
    assert awake() == [allowed for w in workers], core
slept()
for w in workers: os.sched_setaffinity(w, {allowed[-1]})  # chosen while it sleeps: it keeps them
assert awake() == [[allowed[-1]] for w in workers]
print(len(workers) == r.num_threads() - 1)
"""
    assert python(code).stdout == "True\n"


def test_numbers_that_are_none() -> None:
    names, values = ("TVM_NUM_THREADS", "OMP_NUM_THREADS"), ("0", "-2", "two", "1.5", "4x", "99999", "9" * 30)
    code = f"""
import os, tilewright.runtime as r
for name in {names}:
    for value in {values}:
        os.environ[name] = value
        try: print(r.num_threads())
        except ValueError as error: print(error)
    del os.environ[name]
"""
    assert python(code).stdout.splitlines() == [
        f"the environment variable {name} must be a number of threads from 1 to 1024, but it is `{value}`;"
        " unset it for as many as the process may use"
        for name in names
        for value in values
    ]


def test_a_region_tells_of_the_environment() -> None:
    """What compiled code runs in parallel is refused too, when nobody asked before."""
    code = """
from tests.runtime.test_thread_pool import *
a = tvm.nd.array(np.ones(1 << 16, "float32"))
tvm.build(Doubled, target="llvm")["main"](a, a)
"""
    found = python(code, check=False, TVM_NUM_THREADS="none", PYTHONPATH=os.getcwd())
    assert "ValueError: the environment variable TVM_NUM_THREADS must be a number of threads" in found.stderr


@pytest.mark.parametrize("count", [0, -1, 1025, 10**12])
def test_counts_that_are_refused(count: int) -> None:
    message = f"the number of threads must be from 1 to 1024, but it is {count}; leave it out for as many as the process may use"
    with pytest.raises(ValueError, match=message):
        runtime.config_threadpool(1, count)
    with pytest.raises(ValueError, match=message):
        runtime.set_num_threads(count)
    with pytest.raises(TypeError, match="the number of threads"):
        runtime.get_global_func("runtime.config_threadpool")(1, "four")


def test_not_inside_a_region() -> None:
    codes = []

    def task(i: int, n: int) -> None:
        try:
            runtime.set_num_threads(1)
        except RuntimeError as error:
            codes.append(str(error))

    region(task, 2)
    inside = "the number of threads cannot be changed inside a parallel region"
    assert codes == ([inside] * 2 if runtime.num_threads() > 1 else [])


@pytest.mark.parametrize("elements", [1 << 18, (1 << 18) + 1, 3_000_001, (1 << 20) + 13])
def test_long_copies_are_shared_out_whole(elements: int) -> None:
    """Once threads wait for work they take their part of copies: every byte arrives, of sizes that no piece divides too."""
    region(lambda i, n: 0, 2)
    values = np.arange(elements, dtype="float32")
    here = tvm.nd.array(values)
    for _ in range(3):
        assert (here.numpy() == values).all()
