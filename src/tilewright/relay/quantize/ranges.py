"""Ranges of activations: the largest magnitude that a tensor's integers are to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.expr import Expr, Function, Tuple
from tilewright.relay.quantize.config import QConfig

BINS = 2048
PERCENTILE = 0.9999

Sample = Mapping[str, np.ndarray]
"""Inputs of one run, by name."""


def ranges(f: Function, points: Sequence[Expr], dataset: Sequence[Sample] | None, config: QConfig) -> list[float]:
    """The range of each of some expressions of a function, from runs over the data set."""
    if config.calibrate_mode == "global_scale":
        return [config.global_scale] * len(points)
    if not dataset:
        raise ValueError(
            f'calibrate_mode="{config.calibrate_mode}" needs a data set: quantize(mod, params, dataset=[...])'
        )
    run = _observer(f, points)
    largest = np.zeros(len(points))
    for sample in dataset:
        largest = np.maximum(largest, [np.abs(x).max(initial=0.0) for x in run(sample)])
    largest = np.where(largest > 0, largest, 1.0)
    if config.calibrate_mode == "max":
        return [float(x) for x in largest]
    counts = np.zeros((len(points), BINS))
    for sample in dataset:
        for k, x in enumerate(run(sample)):
            # Zeros are exact at any scale; those of a relu would outweigh all else.
            counts[k] += np.histogram(np.abs(x[x != 0]), BINS, (0.0, largest[k]))[0]
    choose = by_percentile if config.calibrate_mode == "percentile" else by_divergence
    return [float(choose(c, 2 ** (config.nbit_input - 1)) * top / BINS) for c, top in zip(counts, largest, strict=True)]


def _observer(f: Function, points: Sequence[Expr]) -> Callable[[Sample], list[np.ndarray]]:
    """Runs a function on samples; what it computes at the points."""
    from tilewright.relay.backend.build import build
    from tilewright.runtime import cpu
    from tilewright.runtime.executor import StaticModule

    seen = Function(f.params, Tuple(tuple(points)), None, f.type_params)
    module = StaticModule(build(IRModule.from_expr(seen), "llvm")["default"](cpu()))

    def run(sample: Sample) -> list[np.ndarray]:
        for name, value in sample.items():
            module.set_input(name, np.asarray(value))
        module.run()
        return [module.get_output(k).numpy() for k in range(len(points))]

    return run


def by_percentile(counts: np.ndarray, steps: int) -> float:
    """The bin under which all but 0.01 % of the values lie."""
    total = np.cumsum(counts)
    return float(np.searchsorted(total, PERCENTILE * total[-1]) + 1)


def by_divergence(counts: np.ndarray, steps: int) -> float:
    """The bin at which cutting off, then rounding to so many steps, loses least: by the divergence of Kullback and Leibler between the
    distribution cut off and the same rounded (S. Migacz, "8-bit inference with TensorRT", 2017)."""
    best, at = np.inf, BINS
    for end in range(steps, BINS + 1, 16):
        kept = counts[:end].copy()
        reference = kept.copy()
        reference[-1] += counts[end:].sum()
        if reference.sum() == 0:
            continue
        edges = np.linspace(0, end, steps + 1).astype(int)
        sums = np.add.reduceat(kept, edges[:-1])
        filled = np.add.reduceat((kept > 0).astype(float), edges[:-1])
        level = np.repeat(sums / np.maximum(filled, 1), np.diff(edges))
        rounded = np.where(kept > 0, level, 0.0)
        found = divergence(reference, rounded)
        if found < best:
            best, at = found, end
    return float(at)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """sum(p * log(p / q)) of two histograms as distributions; a little of p's mass stands in for empty bins of q."""
    p, q = p / p.sum(), q / max(q.sum(), 1e-30)
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / np.maximum(q[there], 1e-6))))
