"""Type inference and the whole relay pipeline on transformers of growing depth: the time, and whether it is linear in the layers.

python -m benchmarks relay_pipeline [--layers 12,24,48,96] [--hidden 1024] [--json FILE]

The encoders have the sizes of BERT-large by default (hidden 1024, 16 heads, 128 tokens). Weights are zeros that nothing reads: what is
measured is the compiler's own time on the graph, up to and without kernels. Each figure is the best of three runs on a fresh module. Times
are those of the process (its CPU time), so that other programs on the machine do not count; the wall time of the pipeline stands beside.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.options import takes_json, write_json
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.node import deep_recursion
from tilewright.relay.backend.compilation import optimize

TOKENS, HEADS = 128, 16


def weight(*shape: int) -> relay.Constant:
    """Zeros whose pages exist only once they are read or written."""
    return relay.const(np.zeros(shape, "float32"))


def encoder(layers: int, hidden: int) -> IRModule:
    """The graph as a front end makes it: projections, attention, feed-forward, residuals, normalisation."""
    x: Any = relay.var("x", shape=(1, TOKENS, hidden))
    parameter = x
    mask = relay.var("mask", shape=(1, 1, 1, TOKENS))
    for _ in range(layers):

        def project(v: Any, inputs: int, outputs: int) -> Any:
            return relay.add(relay.nn.dense(v, weight(outputs, inputs)), weight(outputs))

        def heads(v: Any) -> Any:
            return relay.transpose(relay.reshape(v, (1, TOKENS, HEADS, -1)), (0, 2, 1, 3))

        q, k, v = (heads(project(x, hidden, hidden)) for _ in range(3))
        scores = relay.nn.softmax(relay.nn.batch_matmul(q * relay.const(0.125), k) + mask)
        mixed = relay.transpose(relay.nn.batch_matmul(scores, v, transpose_b=False), (0, 2, 1, 3))
        x = x + project(relay.reshape(mixed, (1, TOKENS, hidden)), hidden, hidden)
        x = relay.nn.layer_norm(x, weight(hidden), weight(hidden))
        wide = project(x, hidden, 4 * hidden)
        wide = wide * (relay.erf(wide * relay.const(0.7071)) + relay.const(1.0)) * relay.const(0.5)
        x = relay.nn.layer_norm(x + project(wide, 4 * hidden, hidden), weight(hidden), weight(hidden))
    return IRModule.from_expr(relay.Function([parameter, mask], x))


def seconds(layers: int, hidden: int) -> tuple[float, float, float, int]:
    """(type inference, the whole pipeline, the same by the clock on the wall, calls of operators)."""
    infer = whole = wall = float("inf")
    calls = 0
    for _ in range(3):
        mod = encoder(layers, hidden)
        calls = sum([isinstance(e, relay.Call) for e in relay.analysis.post_order(mod["main"])])
        began = time.process_time()
        with deep_recursion():
            relay.transform.InferType()(mod)
        infer = min(infer, time.process_time() - began)
        mod = encoder(layers, hidden)
        began, began_wall = time.process_time(), time.perf_counter()
        with deep_recursion():
            optimize(mod, "llvm")
        whole, wall = min(whole, time.process_time() - began), min(wall, time.perf_counter() - began_wall)
    return infer, whole, wall, calls


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks relay_pipeline", description=__doc__.split("\n")[0])
    parser.add_argument("--layers", default="12,24,48,96", help="depths, with commas between")
    parser.add_argument("--hidden", type=int, default=1024, help="width; a multiple of 16")
    takes_json(parser)
    options = parser.parse_args(arguments)
    table = Table(title=f"relay pipeline, hidden {options.hidden}, {TOKENS} tokens")
    for column in ("layers", "calls", "infer ms", "pipeline ms", "pipeline ms a layer", "wall ms"):
        table.add_column(column, justify="right")
    rows = []
    for layers in map(int, options.layers.split(",")):
        infer, whole, wall, calls = seconds(layers, options.hidden)
        row = {
            "layers": layers,
            "calls": calls,
            "infer_ms": infer * 1e3,
            "pipeline_ms": whole * 1e3,
            "wall_ms": wall * 1e3,
        }
        rows.append(row)
        figures = (infer * 1e3, whole * 1e3, whole * 1e3 / layers, wall * 1e3)
        table.add_row(str(layers), str(calls), *[f"{f:.{int(i == 2)}f}" for i, f in enumerate(figures)])
    Console().print(table)
    write_json(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
