"""Models in WebAssembly beside onnxruntime-web: latency, load time and sizes, in one run of node.

    python -m benchmarks web --models mobilenetv2 --threads 1

Both load and run a model in the same process, one run each in turn; latencies are medians, and the outputs are compared with those
of ONNX Runtime on the CPU. Needs node (20 or newer) and npm, which fetches onnxruntime-web into build/web. Exits with 1 where a
latency is above the peer's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.options import names, numbers, takes_json, thread_count, write_json

FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "web"
PEER = "onnxruntime-web"
DEFAULT = ("mobilenetv2", "resnet50", "bert_six")
ALLOWED_ERROR = 1e-3
"""Of an output, by the largest number in it."""


def prepare() -> None:
    """The peer, and the JavaScript package of the runtime."""
    from tilewright.deploy.machines import machine_of
    from tilewright.deploy.native_build import build_runtime

    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "node_modules" / PEER).is_dir():
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", PEER]
        subprocess.run(command, cwd=FOLDER, stdout=subprocess.DEVNULL, check=True)
    # After npm, which removes what it has not installed.
    build_runtime(machine_of("wasm32"), FOLDER / "node_modules" / "tilewright")
    shutil.copy(Path(__file__).with_suffix(".mjs"), FOLDER / "web.mjs")


def compile_model(name: str, threads: int) -> Path:
    """The model for WebAssembly, its inputs and the outputs of ONNX Runtime, in a folder."""
    import onnxruntime

    import tilewright as tvm
    from tilewright import relay

    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    path, inputs = models.make(name), models.inputs(name)
    target = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128" + (",+atomics" if threads > 1 else "")
    module, params = relay.frontend.from_onnx(path, shape=models.shapes(name))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(module, target, params=params)
    library.export_library(folder / f"model{threads}.wasm")
    outputs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)
    for kind, arrays in (("in", inputs.values()), ("out", outputs)):
        for i, array in enumerate(arrays):
            (folder / f"{kind}{i}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
    about = {
        "onnx": str(path),
        "inputs": [{"name": n, "shape": list(a.shape), "dtype": str(a.dtype)} for n, a in inputs.items()],
        "outputs": len(outputs),
    }
    (folder / "about.json").write_text(json.dumps(about))
    return folder


def measure(name: str, threads: int, rounds: int) -> dict[str, Any]:
    """Milliseconds and bytes of both, and the largest error of each."""
    folder = compile_model(name, threads)
    done = subprocess.run(
        ["node", str(FOLDER / "web.mjs"), str(folder), str(threads), str(rounds)],
        cwd=FOLDER, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name} failed in node: {done.stderr.strip()[-2000:]}")
    return {"model": name, "threads": threads, **json.loads(done.stdout.splitlines()[-1])}


def main(argv: list[str]) -> int:
    from rich.table import Table

    from benchmarks.contests.standing import console

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks web", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(DEFAULT), help="comma-separated; by default %(default)s")
    parser.add_argument("--threads", default="1", help="threads of each contestant")
    parser.add_argument("--rounds", default="20", help="runs of each that are measured")
    takes_json(parser)
    options = parser.parse_args(argv)
    chosen, threads = names(parser, "--models", options.models, models.ALL), thread_count(parser, options.threads)
    rounds = numbers(parser, "--rounds", options.rounds)[0]
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed; it comes with node, 20 or newer")
    prepare()
    results = [measure(name, threads, rounds) for name in chosen]
    table = Table(
        title=f"WebAssembly in node, {threads} thread{'s' if threads > 1 else ''}: Tilewright / onnxruntime-web"
    )
    for column in ("model", "latency, ms", "ratio", "load, ms", "model, MB", "runtime, MB", "largest error"):
        table.add_column(column, justify="left" if column == "model" else "right")
    missed = []
    for r in results:
        ours, peer = r["tilewright"], r[PEER]
        ratio = ours["latency"] / peer["latency"]
        wrong = ours["error"] > ALLOWED_ERROR
        missed += [r["model"]] if ratio > 1 or wrong else []
        table.add_row(
            r["model"], f"{ours['latency']:.1f} / {peer['latency']:.1f}", f"[{'red' if ratio > 1 else 'green'}]{ratio:.2f}",
            f"{ours['load']:.0f} / {peer['load']:.0f}", f"{ours['model'] / 1e6:.1f} / {peer['model'] / 1e6:.1f}",
            f"{ours['runtime'] / 1e6:.2f} / {peer['runtime'] / 1e6:.2f}", f"{ours['error']:.0e} / {peer['error']:.0e}",
        )  # fmt: skip
    console().print(table)
    write_json(options, results)
    return int(bool(missed))
