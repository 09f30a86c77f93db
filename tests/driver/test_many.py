"""Many builds in one process: from several threads at once, interrupted, and without end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.codegen import interp
from tilewright.codegen.llvm.native.jit import LoadedObjects
from tilewright.node import deep_recursion, structural_equal, structural_hash
from tilewright.support.cache import Cache

ROOT = Path(__file__).resolve().parents[2]


def program(number: float, rows: int = 4) -> tuple[Any, list[Any]]:
    """A scheduled sum of a matrix and a number of its own."""
    a = te.placeholder((rows, 16), name="A")
    c = te.compute((rows, 16), lambda i, j: a[i, j] + number, name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    s[c].parallel(c.op.axis[0])
    return s, [a, c]


def build_and_run(number: float, rows: int = 4) -> None:
    s, args = program(number, rows)
    x, z = tvm.nd.array(np.ones((rows, 16), "float32")), tvm.nd.array(np.zeros((rows, 16), "float32"))
    tvm.build(s, args, "llvm", name="f")["f"](x, z)
    assert (z.numpy() == 1 + number).all()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... side by side; raises what one of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(k: int) -> None:
        try:
            barrier.wait()
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_build_at_once() -> None:
    def work(k: int) -> None:
        for i in range(4):
            build_and_run(10.0 * k + i, 3 + k)

    in_threads(4, work)


def test_threads_have_contexts_of_their_own() -> None:
    """A lowering pass that one thread adds does not run in another."""
    ran: dict[int, int] = {}

    def work(k: int) -> None:
        def count(f: Any, mod: Any, ctx: Any) -> Any:
            ran[k] = ran.get(k, 0) + 1
            return f

        for _ in range(3):
            with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, tir.transform.prim_func_pass(count))]}):
                tvm.lower(*program(k))

    in_threads(4, work)
    assert ran == dict.fromkeys(range(4), 3)


def test_threads_interpret_at_once() -> None:
    """One compiled form of a function serves all threads."""
    s, args = program(2.0)
    mod = tvm.lower(s, args)

    def work(k: int) -> None:
        for _ in range(20):
            x, z = np.full((4, 16), k, "float32"), np.zeros((4, 16), "float32")
            interp.run(mod, [x, z])
            assert (z == k + 2).all()

    in_threads(4, work)


def test_threads_compare_deep_programs_at_once() -> None:
    """What one thread needs of the recursion limit stays while another one is done with its own."""
    limit = sys.getrecursionlimit()

    def deep(depth: int) -> Any:
        e: Any = tir.Var("x", "float32")
        for _ in range(depth):
            e = tir.exp(e)
        return e

    def work(k: int) -> None:
        one, other = deep(1200 * (k + 1)), deep(1200 * (k + 1))
        for _ in range(3):
            assert structural_hash(one, True) == structural_hash(other, True)
            assert structural_equal(one, other, True)

    for _ in range(5):
        in_threads(4, work)
        # One that ends while others are deep leaves the limit to the next.
        with deep_recursion():
            pass
        assert sys.getrecursionlimit() == limit


def test_the_limit_stays_while_another_thread_is_deep() -> None:
    """Lowered under a thread that had gone past it on the strength of others, it ended the process."""
    limit = sys.getrecursionlimit()
    deep, done = threading.Event(), threading.Event()

    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
        else:
            deep.set()
            done.wait()

    with deep_recursion():
        other = threading.Thread(target=down, args=(limit + 500,))
        other.start()
        deep.wait()
    assert sys.getrecursionlimit() > limit
    done.set()
    other.join()
    with deep_recursion():
        pass
    assert sys.getrecursionlimit() == limit


def resident_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_memory_does_not_grow_with_builds() -> None:
    """Once each build kept 100 KB of LLVM's passes; code that nothing refers to is unloaded."""
    build_and_run(0.0)
    alive = weakref.WeakSet[LoadedObjects]([o for o in gc.get_objects() if type(o) is LoadedObjects])
    for k in range(20):
        build_and_run(float(k))
    gc.collect()
    before = resident_kb()
    for k in range(60):
        build_and_run(float(k))
    gc.collect()
    assert resident_kb() - before < 60 * 50
    assert len([o for o in gc.get_objects() if type(o) is LoadedObjects]) <= len(alive)


def test_code_lives_as_long_as_a_function_of_it() -> None:
    s, args = program(3.0)
    function = tvm.build(s, args, "llvm", name="f")["f"]
    gc.collect()
    x, z = tvm.nd.array(np.ones((4, 16), "float32")), tvm.nd.array(np.zeros((4, 16), "float32"))
    function(x, z)
    assert (z.numpy() == 4).all()


INTERRUPTED = """
import numpy as np
from tilewright import relay

x = relay.var("x", shape=(8, 16), dtype="float32")
y = x
for k in range(12):
    y = relay.nn.dense(relay.nn.relu(y), relay.const(np.full((16, 16), 0.01 * k, "float32")))
mod = relay.Function([x], y)
print("ready", flush=True)
relay.build(mod, "llvm")
print("built", flush=True)
"""


@pytest.mark.parametrize("delay", [0.05, 0.15, 0.3])
def test_an_interrupt_leaves_no_broken_cache(tmp_path: Path, delay: float) -> None:
    """Ctrl-C anywhere in a build: no draft is left behind, every entry is whole, and the next build works."""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    # At the very end of a process nothing but the system's own handling of the signal is left.
    assert process.returncode in (0, -signal.SIGINT) or "KeyboardInterrupt" in errors
    held = Cache(tmp_path)
    for entry in held.entries():
        assert not entry.path.name.startswith(".")
        assert held.get(entry.path.parent.name + entry.path.name) is not None
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.stdout == "ready\nbuilt\n", done.stderr
