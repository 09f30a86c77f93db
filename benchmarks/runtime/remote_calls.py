"""Remote calls over loopback: an empty call, and copies of a large array in both directions; medians."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import tilewright as tvm
from benchmarks.options import takes_json, write_json
from tilewright import rpc

CALLS, ROUNDS = 500, 15


def seconds(run: Callable[[], object]) -> float:
    """The median over the rounds, after one that is not counted."""
    run()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main(argv: list[str] | None = None) -> None:
    """Prints microseconds of a call, and gigabytes a second of copies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks remote_calls", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the array (default: 1000)")
    takes_json(parser)
    options = parser.parse_args(argv)
    tvm.register_func("benchmarks.nothing", lambda: None, override=True)
    server = rpc.Server("127.0.0.1", 0, silent=True)
    remote = rpc.connect("127.0.0.1", server.port)
    python, native = remote.get_function("benchmarks.nothing"), remote.get_function("runtime.NumThreads")

    def calls(function: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                function()

        return run

    data = np.random.default_rng(0).integers(0, 255, options.megabytes * 1_000_000, np.uint8)
    there = tvm.nd.empty(data.shape, "uint8", remote.cpu(0))
    back = tvm.nd.empty(data.shape, "uint8")
    results = {
        "native_call_us": 1e6 * seconds(calls(native)) / CALLS,
        "python_call_us": 1e6 * seconds(calls(python)) / CALLS,
        "to_server_gb_s": data.nbytes / 1e9 / seconds(lambda: there.copyfrom(data)),
        "from_server_gb_s": data.nbytes / 1e9 / seconds(lambda: there.copyto(back)),
    }
    for name, value in results.items():
        print(f"{name:18} {value:8.2f}")
    write_json(options, results)
