"""Time and memory of importing ONNX files, BERT-base and a gigabyte of external data, beside what onnx.load takes; fails above the limits.

    python -m benchmarks import_time [--models bert_base,external_1gb] [--json FILE]

Seconds are those of `relay.frontend.from_onnx` alone, of a file that the system holds in its cache: the median of fresh processes. Memory
is the peak resident set of the whole process, interpreter and packages included, by the bytes of the weights. The limits: BERT-base
in 1.5 s, a gigabyte of external data in 5 s, either in 1.3 times the weights.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.contests.resident import resident
from benchmarks.options import takes_json, write_json

LIMITS = {"bert_base": 1.5, "external_1gb": 5.0}
"""Seconds by model."""
MEMORY = 1.3
"""Peak resident set by the bytes of the weights."""
LAYERS, WIDTH = 16, 4096
"""The gigabyte: so many square matrices of float32."""


def external_model() -> Path:
    """The path of a model whose weights, a gigabyte, lie in a file beside it; written on first use."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    folder = models.CACHE / "external_1gb"
    if not folder.is_dir():
        models.CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=models.CACHE) as fresh:
            inner = Path(fresh) / "model"
            inner.mkdir()
            size = WIDTH * WIDTH * 4
            block = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), dtype=np.float32).tobytes()
            with (inner / "weights.bin").open("wb") as file:
                for _ in range(LAYERS):
                    file.write(block)
            weights = []
            for k in range(LAYERS):
                t = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
                t.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "weights.bin"), ("offset", k * size), ("length", size)):
                    t.external_data.add(key=key, value=str(value))
                weights.append(t)
            nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(LAYERS)]
            ends = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [1, WIDTH]) for k in (0, LAYERS)]
            graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), inner / "model.onnx")
            os.replace(inner, folder)
    return folder / "model.onnx"


def path_of(name: str) -> Path:
    """The file of a model."""
    return external_model() if name == "external_1gb" else models.make(name)


def weight_bytes(path: Path) -> int:
    """What the model's files take."""
    return sum([p.stat().st_size for p in (path.parent.iterdir() if path.parent.name == "external_1gb" else [path])])


def worker(how: str, path: Path) -> dict[str, float]:
    """Seconds and peak memory of one import in this process."""
    if how == "onnx":
        import onnx

        start = time.perf_counter()
        kept: Any = onnx.load(str(path))
    else:
        from tilewright import relay

        from_onnx = relay.frontend.from_onnx
        start = time.perf_counter()
        kept = from_onnx(path)
    seconds = time.perf_counter() - start
    del kept
    return {"seconds": seconds, "peak": resident("VmHWM") * 2**20}


def in_fresh_process(how: str, what: Path | str) -> Any:
    """`worker`, or how == "make": the path of the model that is called so, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "import_time", "--worker", how, "--path", str(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Medians of both importers, in turn."""
    # What exports a model takes much memory, and processes begin with the peak of the one that starts them.
    path = Path(in_fresh_process("make", name))
    runs: dict[str, list[dict[str, float]]] = {"tilewright": [], "onnx": []}
    for _ in range(rounds):
        for how, found in runs.items():
            found.append(in_fresh_process(how, path))
    size = weight_bytes(path)
    result: dict[str, Any] = {"model": name, "bytes": size, "limit_s": LIMITS.get(name)}
    for how, found in runs.items():
        result[f"{how}_s"] = statistics.median([r["seconds"] for r in found])
        result[f"{how}_memory"] = statistics.median([r["peak"] for r in found]) / size
    return result


def too_much(result: dict[str, Any]) -> bool:
    """Whether a model with a limit is above one."""
    limit = result["limit_s"]
    return limit is not None and (result["tilewright_s"] > limit or result["tilewright_memory"] > MEMORY)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks import_time", description=str(__doc__).split("\n")[0])
    parser.add_argument("--models", default=",".join(LIMITS), help="names of benchmarks.models, or external_1gb")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes for each")
    takes_json(parser)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        print(
            json.dumps(
                str(path_of(str(options.path))) if options.worker == "make" else worker(options.worker, options.path)
            )
        )
        return 0
    results = [measure(name, options.rounds) for name in options.models.split(",")]
    show(results)
    write_json(options, results)
    return int(any(map(too_much, results)))


def show(results: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="importing an ONNX file: seconds, and peak memory of the process by the bytes of the weights")
    for column in ("model", "MB", "seconds", "at most", "memory", "at most", "onnx.load: seconds", "memory", ""):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in results:
        limit = r["limit_s"]
        table.add_row(
            r["model"], f"{r['bytes'] / 1e6:.0f}", f"{r['tilewright_s']:.2f}", f"{limit:.1f}" if limit else "",
            f"{r['tilewright_memory']:.2f}", f"{MEMORY:.1f}" if limit else "", f"{r['onnx_s']:.2f}", f"{r['onnx_memory']:.2f}",
            "too much" if too_much(r) else "",
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
