"""The prior of the tuner's cost model: measures random schedules, learns from them, and writes the file that comes with the package.

    python -m benchmarks tuning_prior [--minutes N] [--keep FILE] [--from FILE,...]

Measures on one thread, since the estimate of a program tells what further threads bring.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import new_file, takes_json, write_json
from benchmarks.tuning_models.kernels import TRAINED
from benchmarks.tuning_models.measured import Pair, load, measure, save
from tilewright.target import Target
from tilewright.tuning import trees
from tilewright.tuning.features import Rows, features
from tilewright.tuning.trees import Forest, Vector, train

ROUNDS = 600
PARAMETERS = {"max_depth": 3, "min_child_weight": 1}
"""Trees over many kernels are smaller than those of a session: kernels that were never measured were ranked best by these."""


def learn(pairs: Sequence[Pair], target: Target, rounds: int = ROUNDS) -> Forest:
    """Trees for the square root of the throughput in that of the fastest schedule of a kernel: slow schedules differ, too."""
    fastest: dict[str, float] = {}
    for pair in pairs:
        fastest[pair.kernel] = max(fastest.get(pair.kernel, 0.0), pair.ratio)
    rows: list[Rows] = [features(pair.program, target, 1) for pair in pairs]
    wanted: Vector = np.sqrt([pair.ratio / fastest[pair.kernel] for pair in pairs])
    return train(rows, wanted, rounds, options=PARAMETERS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning_prior", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="how long to measure; 0: only learn from files")
    parser.add_argument("--seed", type=int, default=0, help="of the schedules that are drawn")
    parser.add_argument("--keep", type=new_file, metavar="FILE", help="also write the measurements here")
    parser.add_argument(
        "--from",
        dest="files",
        default="",
        metavar="FILE,...",
        help="measurements that were kept, to learn from as well",
    )
    takes_json(parser)
    options = parser.parse_args(argv)
    target = Target("llvm")
    pairs = [pair for name in options.files.split(",") if name for pair in load(Path(name))]
    found = list(measure(TRAINED, target, 60 * options.minutes, options.seed)) if options.minutes else []
    if options.keep is not None:
        save(options.keep, found)
    pairs += found
    if not pairs:
        parser.error("nothing was measured: give --minutes, or --from")
    data = learn(pairs, target).dump()
    path = Path(trees.__file__).with_name(trees.PRIOR)
    path.write_bytes(data)
    print(f"{len(pairs)} schedules of {len({p.kernel for p in pairs})} kernels; {path.name}: {len(data)} bytes")
    write_json(options, {"schedules": len(pairs), "bytes": len(data)})
    return 0
