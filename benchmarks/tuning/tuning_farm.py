"""The share of the time that the boards of a farm are busy while a kernel is tuned: processes of this machine whose kernels sleep.

A candidate is compiled as any other, and calls `usleep` as long as it says, so eight boards do not need eight processors."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from random import Random

from benchmarks.options import takes_json, write_json
from benchmarks.tuning.tuning_throughput import NoModel
from tilewright import rpc
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import BufferLoad, BufferStore, Evaluate, PrimFunc, Var, call_extern, const, decl_buffer, stmt_seq
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.measure import Measured, Run
from tilewright.tuning.running.board import Board
from tilewright.tuning.running.rpc import RPCRunner
from tilewright.tuning.session import Limits, Session
from tilewright.tuning.space import Space
from tilewright.tuning.task import Task

HOST, KEY = "127.0.0.1", "farm"
SLOWEST = 3.0
"""Candidates take from half to so many times the time of the untuned kernel."""


class Sleeps(Space[int]):
    """Kernels of one element that sleep. A candidate is its sleep in microseconds."""

    def __init__(self, milliseconds: float) -> None:
        self.usual = int(1000 * milliseconds)

    def untuned(self) -> IRModule:
        return self.program(self.usual)

    def program(self, candidate: int) -> IRModule:
        a, b = decl_buffer((1,), "float32", "a"), decl_buffer((1,), "float32", "b")
        params = [Var("a_handle", "handle"), Var("b_handle", "handle")]
        sleep = Evaluate(call_extern("int32", "usleep", const(candidate, "uint32")))
        zero = const(0, "int32")
        body = stmt_seq(sleep, BufferStore(b, BufferLoad(a, [zero]), [zero]))
        func = PrimFunc(params, body, buffer_map=dict(zip(params, (a, b), strict=True)))
        return IRModule.from_expr(func.with_attr("global_symbol", "main"))

    def draw(self, random: Random) -> int:
        return random.randint(self.usual // 2, int(self.usual * SLOWEST))

    def neighbour(self, candidate: int, random: Random) -> int:
        return self.draw(random)

    def write(self, candidate: int) -> object:
        return candidate

    def read(self, data: object) -> int:
        if not isinstance(data, int):
            raise TVMError(f"{data!r} is no number of microseconds")
        return data


class Watched(Board):
    """Notes when its board is busy: from sending a candidate to having its times."""

    busy: dict[int, list[tuple[float, float]]] = {}

    def measure(self, run: Run) -> Measured:
        begun = time.monotonic()
        found = super().measure(run)
        self.busy.setdefault(id(self), []).append((begun, time.monotonic()))
        return found


class Farm(RPCRunner):
    """A runner with watched boards."""

    board = Watched


def shares(busy: Sequence[Sequence[tuple[float, float]]]) -> list[float]:
    """The share of the time in which each board was busy, from the first beginning of all to the last one: there is something to measure
    as long as candidates begin."""
    begins = [begun for spans in busy for begun, _ in spans]
    first, last = min(begins), max(begins)
    return [sum([min(end, last) - begun for begun, end in spans if begun < last]) / (last - first) for spans in busy]


def main(argv: list[str] | None = None) -> None:
    """Prints the shares of the boards."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning_farm", description=__doc__)
    parser.add_argument("--boards", type=int, default=8, help="how many (default: 8)")
    parser.add_argument("--trials", type=int, default=160, help="candidates (default: 160)")
    parser.add_argument("--milliseconds", type=float, default=60, help="of the untuned kernel (default: 60)")
    takes_json(parser)
    options = parser.parse_args(argv)
    tracker = rpc.Tracker(HOST, 0, silent=True)
    address = (HOST, tracker.port)
    servers = [rpc.Server(HOST, 0, key=KEY, tracker_addr=address, silent=True) for _ in range(options.boards)]
    client = rpc.connect_tracker(*address)
    while client.summary()["queue_info"].get(KEY, {}).get("free", 0) < options.boards:
        time.sleep(0.1)
    client.close()
    builder, runner = LocalBuilder(), Farm(KEY, tracker=address)
    task = Task("sleep", "sleep", Target("llvm"), Sleeps(options.milliseconds))
    session = Session([task], builder, runner, NoModel())
    session.measure_untuned()
    Watched.busy.clear()
    begun = time.monotonic()
    session.run(Limits(trials=options.trials, patience=options.trials))
    elapsed, failed = time.monotonic() - begun, len([r for r in session.records if r.failure is not None])
    found = sorted(shares(list(Watched.busy.values())))
    results = {
        "boards": len(found),
        "trials": len(session.records),
        "failed": failed,
        "trials_a_minute": 60 * len(session.records) / elapsed,
        "least_busy": found[0],
        "mean_busy": sum(found) / len(found),
    }
    runner.close()
    builder.close()
    for server in servers:
        server.terminate()
    tracker.terminate()
    for name, value in results.items():
        print(f"{name:16} {value:10.3f}")
    write_json(options, results)
