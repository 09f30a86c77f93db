"""The generated code of the benchmark programs and models, recorded before a change and compared after it (process replay).

    python -m benchmarks replay record DIR     # before the change
    python -m benchmarks replay compare DIR    # after it: exit status 1 if any kernel's LLVM IR differs

A record holds the text of every kernel (compressed) under its program or model and its name, with a hash of each and the
target that it was made for. A change that is to make compiling faster, or code cleaner, leaves all of it as it was; one that
is to change code shows exactly which kernels changed: `compare` prints the first difference of each. No object code is made
and no cache is read. Options: --models, --programs (comma-separated), --shapes COUNT of random kernels and the --seed that draws
them, --target, --show LINES of each difference.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.compiler import lowering, random_kernels
from benchmarks.options import names, takes_json, write_json
from tilewright.relay.backend.kernels.machine_code import target_key
from tilewright.target import Target

MODELS = (*models.BENCHMARKED, "light_shufflenet_random")
LADDER = ("blocking", "vectorized", "permuted", "array_packing", "parallel")
"""Steps of examples/gemm_te.py beside those that the benchmark times."""


def texts_of_programs(names: list[str], target: Target) -> Iterator[tuple[str, str]]:
    """(name, LLVM IR) of the tensor programs."""
    for name in names:
        yield name, lowering.to_text(*lowering.PROGRAMS[name](), target)[2]
    if "scheduled_gemm" in names:
        import gemm_te

        for name in LADDER:
            s, args = getattr(gemm_te, name)(1026, 1024, 1000)
            yield f"gemm_{name}", lowering.to_text(s, list(args), target)[2]


def texts_of_model(model: str, target: Target) -> Iterator[tuple[str, str]]:
    """(name, LLVM IR) of a model's kernels."""
    for func in lowering.kernels_of(model, target):
        yield str(func.attrs["global_symbol"]), lowering.kernel_text(func, target)[2]


def texts_of_shapes(count: int, seed: int, target: Target) -> Iterator[tuple[str, str]]:
    """(name, LLVM IR) of the kernels of programs of random shapes."""
    for name, mod in random_kernels.programs(count, seed):
        for func in lowering.kernels_of_program(mod, target):
            yield f"{name}: {func.attrs['global_symbol']}", lowering.kernel_text(func, target)[2]


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def records(options: Any, target: Target) -> Iterator[tuple[str, dict[str, str]]]:
    """(record, texts by kernel) of all that was asked for."""
    if options.programs:
        yield "programs", dict(texts_of_programs(options.programs, target))
    if options.shapes:
        yield "shapes", dict(texts_of_shapes(options.shapes, options.seed, target))
    for model in [n for n in options.models.split(",") if n]:
        models.make(model)
        yield model, dict(texts_of_model(model, target))


def record(options: Any, target: Target) -> int:
    """Writes one file a model."""
    options.folder.mkdir(parents=True, exist_ok=True)
    results = []
    for name, texts in records(options, target):
        held = {"target": target_key(target), "kernels": {k: [digest(t), t] for k, t in texts.items()}}
        (options.folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(held).encode(), mtime=0))
        lines = sum([t.count("\n") for t in texts.values()])
        results.append({"record": name, "kernels": len(texts), "lines": lines})
        print(f"{name}: {len(texts)} kernels, {lines} lines", flush=True)
    write_json(options, results)
    return 0


def compare(options: Any, target: Target) -> int:
    """Prints what differs from the record; the number of kernels that do."""
    changed, results = 0, []
    for name, texts in records(options, target):
        path = options.folder / f"{name}.json.gz"
        if not path.exists():
            raise SystemExit(
                f"{options.folder} holds no record of {name}; make one: python -m benchmarks replay record"
            )
        held = json.loads(gzip.decompress(path.read_bytes()))
        if held["target"] != target_key(target):
            raise SystemExit(f"the record of {name} was made for another target: {held['target']}")
        old = {k: text for k, (_, text) in held["kernels"].items()}
        different = [k for k in texts if k in old and old[k] != texts[k]]
        gone, new = [k for k in old if k not in texts], [k for k in texts if k not in old]
        print(f"{name}: {len(texts)} kernels, {len(different)} differ, {len(gone)} gone, {len(new)} new", flush=True)
        for k in different:
            print(f"  {k}")
            lines = difflib.unified_diff(
                old[k].splitlines(), texts[k].splitlines(), "before", "after", n=1, lineterm=""
            )
            for line, _ in zip(lines, range(options.show), strict=False):
                print(f"    {line}")
        for k in (*gone, *new):
            print(f"  {'gone' if k in gone else 'new'}: {k}")
        changed += len(different) + len(gone) + len(new)
        results.append({"record": name, "kernels": len(texts), "different": different, "gone": gone, "new": new})
    write_json(options, results)
    return int(bool(changed))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(MODELS), help='models of benchmarks/models.py; "" for none')
    parser.add_argument("--programs", default=",".join(lowering.PROGRAMS), help='tensor programs; "" for none')
    parser.add_argument("--shapes", type=int, default=300, help="random kernels; 0 for none")
    parser.add_argument("--seed", type=int, default=0, help="draws the random kernels")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--show", type=int, default=12, help="lines of each difference")
    takes_json(parser)
    options = parser.parse_args(argv)
    options.programs = names(parser, "--programs", options.programs, lowering.PROGRAMS)
    return (record if options.action == "record" else compare)(options, Target(options.target))


if __name__ == "__main__":
    sys.exit(main())
