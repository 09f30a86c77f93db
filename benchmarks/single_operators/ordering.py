"""Operators that visit a tensor in an order (sorting, the best k, running sums, scattering) beside NumPy and PyTorch, one thread each.

    python -m benchmarks ordering [--repeat N]

Time over elements should stay about the same from size to size: each is O(n log n) or O(n).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks.options import takes_json, write_json
from tilewright import relay

SIZES = (1 << 12, 1 << 16, 1 << 20)


def best(f: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest of some runs."""
    f()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return min(times)


def compiled(body: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Runs an operator on arrays by the virtual machine."""
    params = [relay.var(f"x{i}", shape=a.shape, dtype=a.dtype.name) for i, a in enumerate(arrays)]
    made = body(*params)
    mod = tvm.IRModule.from_expr(relay.Function(params, getattr(made, "tuple_value", made)))
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    values = [tvm.nd.array(a) for a in arrays]
    return lambda: machine.invoke("main", *values)


def cases(
    n: int,
) -> list[tuple[str, Callable[[], Any], Callable[[], Any], Callable[[Any], Any] | None, tuple[Any, ...]]]:
    """(name, ours, NumPy's, PyTorch's, its arguments) for lines of n elements."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n).astype("float32")
    k = rng.integers(0, n, n).astype("int64")
    u = rng.standard_normal(n).astype("float32")
    few = rng.integers(0, 1000, n).astype("int32")

    def added() -> Any:
        out = x.copy()
        np.add.at(out, k, u)
        return out

    def torch_scatter(t: Any, i: Any, v: Any) -> Any:
        return t.scatter_add(0, i, v)

    return [
        ("argsort", compiled(relay.argsort, x), lambda: np.argsort(x, kind="stable"), lambda t: t.argsort(stable=True), (x,)),
        ("topk 10", compiled(lambda v: relay.topk(v, 10), x), lambda: np.argpartition(-x, 10)[:10], lambda t: t.topk(10), (x,)),
        ("cumsum", compiled(lambda v: relay.cumsum(v, 0), x), lambda: np.cumsum(x), lambda t: t.cumsum(0), (x,)),
        (
            "scatter add",
            compiled(lambda a, b, c: relay.scatter_elements(a, b, c, 0, "add"), x, k, u),
            added,
            torch_scatter,
            (x, k, u),
        ),
        ("unique", compiled(relay.unique, few), lambda: np.unique(few), lambda t: t.unique(), (few,)),
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ordering", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    takes_json(parser)
    options = parser.parse_args(argv)
    repeat, results = options.repeat, list[dict[str, Any]]()
    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]
    else:
        torch.set_num_threads(1)
    print(f"{'operator':<12} {'n':>8} {'ns/element':>11} {'NumPy':>8} {'PyTorch':>8}   (times theirs / ours)")
    for n in SIZES:
        for name, ours, numpy, theirs, arrays in cases(n):
            own = best(ours, repeat)
            ratio = best(numpy, repeat) / own
            beside = None
            if torch is not None and theirs is not None:
                tensors = [torch.from_numpy(a) for a in arrays]
                beside = best(lambda f=theirs, t=tensors: f(*t), repeat) / own  # type: ignore[misc]
            each = own / n * 1e9
            results.append({"operator": name, "n": n, "ns_an_element": each, "numpy": ratio, "torch": beside})
            print(f"{name:<12} {n:>8} {each:>11.2f} {ratio:>8.2f} {'-' if beside is None else f'{beside:.2f}':>8}")
    write_json(options, results)
    return 0
