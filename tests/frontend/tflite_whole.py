"""Whole TFLite files, compiled, against LiteRT: `make test-tflite` (python -m tests.frontend.tflite_whole FOLDER-OR-FILE ...).

Whole numbers must be those of LiteRT's reference kernels, bit by bit (within two units where a model has operators that have none, so
that the other kernels run), floats within 1e-4 of the largest (dynamic range: 2e-2). Ends with 1 where one is not. Files that LiteRT
itself refuses to run are named.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from tests.frontend.tflite_ops.writer import litert
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.tflite import from_tflite

CLOSE = 1e-4
ROUGH = 2e-2
"""Dynamic range: activations are rounded in every layer, and one that falls the other way goes through all layers behind."""


def arguments(path: Path) -> dict[str, np.ndarray]:
    """Random inputs of a file; open axes have the extent 1."""
    mod, params = from_tflite(path)
    rng, found = np.random.default_rng(0), {}
    for p in mod["main"].params:
        if p.name_hint in params:
            continue
        shape = [d.value if hasattr(d, "value") else 1 for d in p.type_annotation.shape]
        dtype = np.dtype(str(p.type_annotation.dtype))
        whole = dtype.kind in "iu"
        numbers = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape) if whole else rng.standard_normal(shape)
        found[p.name_hint] = numbers.astype(dtype)
    return found


def compiled(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the command line's build answers."""
    mod, params = formats.format_of(path).load(path, {n: x.shape for n, x in inputs.items()})
    executor = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    for name, x in inputs.items():
        executor.set_input(name, x)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


def reference(path: Path, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], int]:
    """LiteRT's answer, and how far whole numbers may be from it. Its reference kernels end the process on some models."""
    data, given = path.read_bytes(), list(inputs.values())
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:
            return apart.submit(litert, data, given).result(), 0
    except (RuntimeError, ValueError):
        return litert(data, given, optimised=True), 2


def main(places: list[str]) -> int:
    """A line for each file."""
    files = [f for p in map(Path, places) for f in (sorted(p.glob("*.tflite")) if p.is_dir() else [p])]
    wrong = refused = 0
    for path in files:
        begin = time.perf_counter()
        inputs = arguments(path)
        found = compiled(path, inputs)
        try:
            wanted, apart_by = reference(path, inputs)
        except (RuntimeError, ValueError) as error:
            refused += 1
            print(
                f"      {path.name:34} LiteRT refuses what its own converter wrote: {' '.join(str(error).split())[:160]}",
                flush=True,
            )
            continue
        good, said = True, []
        for f, w in zip(found, wanted, strict=True):
            if w.dtype.kind == "f":
                error = float(np.abs(f - w).max() / max(np.abs(w).max(), 1e-30))
                good &= error <= (ROUGH if path.stem.endswith("_dynamic") else CLOSE)
                said.append(f"{error:.1e}")
            else:
                apart: Any = np.abs(f.astype(np.int64) - w.astype(np.int64))
                good &= bool(apart.max() <= apart_by)
                said.append(f"{np.count_nonzero(apart)} of {apart.size} differ, by at most {apart.max()}")
        wrong += not good
        print(
            f"{'ok   ' if good else 'WRONG'} {path.name:34} {'; '.join(said)} ({time.perf_counter() - begin:.1f} s)",
            flush=True,
        )
    print(f"{len(files) - wrong - refused} of {len(files) - refused} as LiteRT has them; it refuses {refused}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
