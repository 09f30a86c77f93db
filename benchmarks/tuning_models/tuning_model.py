"""How well cost models rank random schedules of kernels that the prior was not learned from.

    python -m benchmarks tuning_model [--minutes N] [--keep FILE] [--from FILE,...]

For each kernel: Spearman's correlation of scores and throughput, and the regret of measuring only the schedule with the best score of 64:
the share of the throughput of the fastest of them that is lost. "trained" is the prior after it learned from a half of the schedules of the
kernel, judged by the other half, by turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from benchmarks.options import new_file, takes_json, write_json
from benchmarks.tuning_models.kernels import HELD_OUT
from benchmarks.tuning_models.measured import Pair, load, measure, save
from benchmarks.tuning_models.ranks import correlation, regret
from tilewright.target import Target
from tilewright.tuning.cost_model import AnalyticModel, TreeModel

COUNT = 64
"""The number of schedules from which the best is chosen."""
RANDOM = 20
"""Random models whose mean is shown."""


class Quality(NamedTuple):
    """How well a model ranks the schedules of a kernel."""

    correlation: float
    regret: float


def _judged(scores: Sequence[float], pairs: Sequence[Pair]) -> Quality:
    ratios = [pair.ratio for pair in pairs]
    return Quality(correlation(scores, ratios), regret(scores, ratios, COUNT))


def _halves(name: str, pairs: list[Pair], target: Target) -> Quality:
    """The mean over two halves. For each, the model learned from the other half."""
    found = []
    for seen, unseen in ((pairs[::2], pairs[1::2]), (pairs[1::2], pairs[::2])):
        model = TreeModel(1)
        model.update(name, [p.program for p in seen], target, [1 / p.ratio for p in seen])
        found.append(_judged(model.predict([p.program for p in unseen], target), unseen))
    return _mean(found)


def _mean(found: Sequence[Quality]) -> Quality:
    return Quality(*np.mean(found, axis=0).tolist())


def qualities(name: str, pairs: list[Pair], target: Target) -> dict[str, Quality]:
    """Each model's."""
    programs, random = [p.program for p in pairs], Random(0)
    return {
        "random": _mean([_judged([random.random() for _ in pairs], pairs) for _ in range(RANDOM)]),
        "analytic": _judged(AnalyticModel(1).predict(programs, target), pairs),
        "prior": _judged(TreeModel(1).predict(programs, target), pairs),
        "trained": _halves(name, pairs, target),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning_model", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="how long to measure; 0: only what files contain")
    parser.add_argument("--seed", type=int, default=1, help="of the schedules that are drawn")
    parser.add_argument("--keep", type=new_file, metavar="FILE", help="also write the measurements here")
    parser.add_argument("--from", dest="files", default="", metavar="FILE,...", help="measurements that were kept")
    takes_json(parser)
    options = parser.parse_args(argv)
    target = Target("llvm")
    found = list(measure(HELD_OUT, target, 60 * options.minutes, options.seed)) if options.minutes else []
    if options.keep is not None:
        save(options.keep, found)
    kernels: dict[str, list[Pair]] = {}
    for pair in [*[p for name in options.files.split(",") if name for p in load(Path(name))], *found]:
        kernels.setdefault(pair.kernel, []).append(pair)
    if not kernels:
        parser.error("nothing was measured: give --minutes, or --from")
    table = {name: qualities(name, pairs, target) for name, pairs in kernels.items()}
    models = list(next(iter(table.values())))
    print("| kernel (schedules) | " + " | ".join(models) + " |")
    for name, row in table.items():
        print(f"| {name} ({len(kernels[name])}) | " + " | ".join(map(_shown, row.values())) + " |")
    means = {m: _mean([row[m] for row in table.values()]) for m in models}
    print("| mean | " + " | ".join(map(_shown, means.values())) + " |")
    write_json(
        options, {name: {m: q._asdict() for m, q in row.items()} for name, row in {**table, "mean": means}.items()}
    )
    return 0


def _shown(q: Quality) -> str:
    return f"{q.correlation:.2f} / {q.regret:.2f}"
