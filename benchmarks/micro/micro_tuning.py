"""Measurements of AutoTVM a second, on emulated boards by their own clocks, with compilation and without.

The template is a product of matrices of int32; QEMU is that of `make build/qemu-system/.done`, or the one on PATH.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.micro.micro_sessions import with_qemu
from benchmarks.options import write_json
from tilewright import autotvm, micro, te
from tilewright.micro.board import board

NAME = "mps2_an500"


@autotvm.template("benchmarks/micro/product")
def product(size: int) -> Any:
    """c = a b, of int32, tiled."""
    a, b = te.placeholder((size, size), "int32", "a"), te.placeholder((size, size), "int32", "b")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    cfg = autotvm.get_config()
    y, x = s[c].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


def main(argv: list[str] | None = None) -> int:
    """Prints measurements a second for some numbers of boards."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_tuning", description=__doc__)
    parser.add_argument("--boards", type=int, nargs="+", default=[1, 2, 4], help="boards at once")
    parser.add_argument("--size", type=int, default=16, help="rows and columns of the matrices")
    options = with_qemu(parser, argv)
    task = autotvm.task.create("benchmarks/micro/product", args=(options.size,), target=board(NAME).target("llvm"))
    count = min(20, len(task.config_space))
    given = [autotvm.measure.MeasureInput(task.target, task, task.config_space.get(k)) for k in range(count)]
    builder = micro.micro_builder(60)
    builder.set_task(task, {})
    begun = time.perf_counter()
    built = builder.build(given)
    building = (time.perf_counter() - begun) / count
    builder.close()
    print(f"compilation: {1 / building:.1f} a second")
    results = []
    for boards in options.boards:
        runner = micro.MicroRunner(micro.generate_config(NAME, instruction_shift=6), n_parallel=boards, number=3)
        runner.set_task(task)
        try:
            runner.run(given, built)
            begun = time.perf_counter()
            found = runner.run(given * 5, list(built) * 5)
            rate = len(found) / (time.perf_counter() - begun)
        finally:
            runner.close()
        failed = len([r for r in found if r.error_no])
        results.append({"boards": boards, "rate": rate, "failed": failed})
        print(f"{boards} boards: {rate:.1f} measurements a second, {failed} failed")
    write_json(options, {"compilations": 1 / building, "boards": results})
    return 0
