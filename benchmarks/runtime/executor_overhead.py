"""What executors add to each call of an operator: a chain of small operators that are not fused, in the graph executor, the
ahead-of-time executor and the virtual machine, beside their kernels called in a loop."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np

import tilewright as tvm
from benchmarks.options import takes_json, write_json
from tilewright import relay
from tilewright.relay.backend import Executor
from tilewright.runtime.vm import VirtualMachine

CALLS, ROUNDS = 2000, 21


def chain(calls: int) -> tvm.IRModule:
    """`calls` additions of a number, one after the other."""
    x = relay.var("x", shape=(1,))
    value = x
    for _ in range(calls):
        value = relay.add(value, x)
    return tvm.IRModule.from_expr(relay.Function([x], value))


def cases(calls: int) -> dict[str, Callable[[], float]]:
    """By name: what measures the seconds of one run of the whole chain, natively."""
    mod, dev, x = chain(calls), tvm.cpu(), np.ones(1, "float32")
    found: dict[str, Callable[[], float]] = {}
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 1}):
        for kind in ("graph", "aot"):
            library = relay.build(mod, "llvm", executor=Executor(kind))
            assert len(library.plan.calls) == calls, "the chain was fused"
            executor = library["default"](dev)
            executor["set_input"]("x", x)
            evaluate = executor.time_evaluator("run", dev, number=20, repeat=1)
            found[kind] = lambda evaluate=evaluate: evaluate().mean  # type: ignore[misc]
            if kind == "aot":
                kernel = executor.time_evaluator("run_kernel", dev, number=20, repeat=1)
                found["kernels alone"] = lambda kernel=kernel: kernel(1, calls).mean  # type: ignore[misc]
        machine = VirtualMachine(relay.vm.compile(mod, "llvm"), dev).module
        machine["set_input"]("main", x)
        run = machine.time_evaluator("invoke_stateful", dev, number=20, repeat=1)
        found["vm"] = lambda: run("main").mean
    return found


def main(argv: list[str] | None = None) -> int:
    """Prints nanoseconds for each call of an operator."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks executor_overhead", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="operators of the chain")
    takes_json(parser)
    options = parser.parse_args(argv)
    calls, results = options.calls, []
    measured = cases(calls)
    # Interleaved: the machine is not the same from one second to the next.
    rounds = [{name: measure() / calls * 1e9 for name, measure in measured.items()} for _ in range(ROUNDS)]
    print(f"{calls} calls of an operator on one number, medians of {ROUNDS} interleaved rounds, one thread")
    print(f"{'executor':<16}{'ns a call':>12}{'overhead ns':>14}")
    for name in ("kernels alone", "graph", "aot", "vm"):
        whole = statistics.median([r[name] for r in rounds])
        extra = statistics.median([r[name] - r["kernels alone"] for r in rounds])
        results.append({"executor": name, "ns_a_call": whole, "overhead_ns": extra})
        print(f"{name:<16}{whole:>12.1f}{extra:>14.1f}")
    write_json(options, {"calls": calls, "executors": results})
    return 0
