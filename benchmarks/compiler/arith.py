"""Throughput of the simplifier: expressions per second on the index arithmetic of lowering, and on random programs.

python -m benchmarks arith [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.options import takes_json, write_json
from tilewright import arith, tir
from tilewright.ir import Range

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "arith"))


def tiled_indices() -> tuple[dict[tir.Var, Range], list[Any]]:
    """Indices and predicates of a tiled, fused convolution before simplification."""
    n, oh, ow, oc, ih, iw, ic, kh, kw = (
        tir.Var(s, "int32") for s in ("n", "oh", "ow", "oc", "ih", "iw", "ic", "kh", "kw")
    )
    ranges = {n: 8, oh: 14, ow: 14, oc: 4, ih: 2, iw: 7, ic: 16, kh: 3, kw: 3}
    fused = ((n * 14 + oh) * 14 + ow) * 4 + oc
    exprs = [
        tir.floordiv(fused, 784),
        tir.floormod(tir.floordiv(fused, 56), 14),
        tir.floormod(tir.floordiv(fused, 4), 14),
        tir.floormod(fused, 4) * 16 + ic,
        (oh * 2 + ih) * 14 + ow * 7 + iw - (oh * 28 + ow * 7),
        tir.all(oh + kh >= 1, oh + kh < 15, ow + kw >= 1, ow + kw < 15),
        tir.floordiv(oc * 16 + ic, 16) * 16 + tir.floormod(oc * 16 + ic, 16),
        tir.if_then_else(tir.all(oh + kh >= 1, ow * 4 + oc < 60), oh + kh - 1, 0),
        tir.min(oh * 2 + 2, 28) - oh * 2,
        (n * 14 + oh) * 14 + ow < 1568,
    ]
    return {v: Range(0, e) for v, e in ranges.items()}, exprs


def fresh_analyzers(repeat: int) -> int:
    """One analyzer for each round, as a pass or primitive makes it."""
    ranges, _ = tiled_indices()
    count = 0
    for _ in range(repeat):
        ranges, exprs = tiled_indices()
        analyzer = arith.Analyzer()
        for v, r in ranges.items():
            analyzer.bind(v, r)
        for e in exprs:
            analyzer.simplify(e)
            count += 1
    return count


def one_analyzer(repeat: int) -> int:
    """New expressions over the same variables in one analyzer."""
    ranges, _ = tiled_indices()
    analyzer = arith.Analyzer()
    for v, r in ranges.items():
        analyzer.bind(v, r)
    a, b, c = list(ranges)[:3]
    count = 0
    for i in range(repeat * 10):
        analyzer.simplify(
            tir.floordiv((a * 14 + b) * 14 + c + i, 196) + tir.floormod((a * 14 + b) * 14 + c, 14 + i % 3)
        )
        count += 1
    return count


def random_programs(repeat: int) -> int:
    """Random expressions of about fifteen nodes."""
    import random

    from evaluate import Programs

    rng = random.Random(0)
    count = 0
    for _ in range(repeat):
        variables = [tir.Var(s, "int32") for s in "xyz"]
        programs = Programs(rng, variables)
        analyzer = arith.Analyzer()
        for v in variables:
            analyzer.bind(v, Range(0, 16))
        for _ in range(10):
            analyzer.simplify(programs.integer(3))
            count += 1
    return count


def iterator_maps(repeat: int) -> int:
    """Affine binding checks of a tiled matmul's block."""
    i0, i1, i2, j0, j1, k0, k1 = (tir.Var(s, "int32") for s in ("i0", "i1", "i2", "j0", "j1", "k0", "k1"))
    extents = {i0: 8, i1: 4, i2: 4, j0: 16, j1: 16, k0: 32, k1: 4}
    count = 0
    for _ in range(repeat * 2):
        bindings = [(i0 * 4 + i1) * 4 + i2, j0 * 16 + j1, k0 * 4 + k1]
        found = arith.detect_iter_map(bindings, {v: Range(0, e) for v, e in extents.items()}, True, "bijective")
        assert found.indices
        count += 1
    return count


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks arith", description=__doc__)
    parser.add_argument("--profile", action="store_true")
    takes_json(parser)
    options = parser.parse_args(argv)
    results = []
    for work in (fresh_analyzers, one_analyzer, random_programs, iterator_maps):
        work(3)
        best = 0.0
        for _ in range(3):
            start = time.process_time()
            count = work(60)
            best = max(best, count / (time.process_time() - start))
        print(f"{work.__name__:16} {best:9.0f} per second, {1e6 / best:7.1f} us each")
        results.append({"work": work.__name__, "per_second": best})
        if options.profile:
            with cProfile.Profile() as profile:
                work(60)
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)
    write_json(options, results)


if __name__ == "__main__":
    main()
