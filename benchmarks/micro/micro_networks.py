"""Networks of int8 on a Cortex-M7, beside CMSIS-NN: exact counts of instructions, modelled cycles, bytes of flash and RAM.

The networks have the layers of MLPerf Tiny's, and of the PyPI package cifar-10-model, with random weights. Both programs run in
Unicorn; outputs are compared with LiteRT's reference kernels, bit by bit. CMSIS-NN is built by the same compiler (zig's clang, -O3), from
the archive of its source that --cmsis-nn names; without it, its columns are empty. Flash is code and constants; RAM is what the program's
variables and its stack take. Needs `pip install unicorn capstone ai-edge-litert ziglang`.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks.micro.tuned import write_plans
from benchmarks.options import takes_json, write_json
from tilewright import relay
from tilewright.micro.board import board
from tilewright.micro.export import firmware
from tilewright.micro.export.sources import model_files
from tilewright.relay.backend import Executor, Runtime

BOARD = "mps2_an500"
NETWORKS = ("keywords", "wake_words", "images", "anomalies", "cifar")
NEEDED = ("unicorn", "capstone", "ai_edge_litert", "ziglang")


def ours(
    model: bytes, sample: np.ndarray, trials: int = 0, tuned: Path | None = None
) -> tuple[dict[str, Any], np.ndarray]:
    """(figures, outputs) of a TFLite model, compiled by LLVM for the board. trials: plans to try for each kernel. tuned: a log of plans."""
    from benchmarks.micro.emulator import Emulator

    mod, params = relay.frontend.from_tflite(model)
    target = board(BOARD).target("llvm")
    with tempfile.TemporaryDirectory() as folder:
        plans = tuned or Path(folder) / "plans.jsonl"
        if trials:
            write_plans(board(BOARD), mod, params, plans, trials)
        with tvm.transform.PassContext(opt_level=3, config={"relay.plans": str(plans)} if plans.is_file() else {}):
            lib = relay.build(
                mod, target, params=params, executor=Executor("aot"), runtime=Runtime("crt"), mod_name="net"
            )
    files = model_files(lib)
    image = firmware.build(board(BOARD), files).image
    emulator = Emulator(board(BOARD), image)
    given, made = files.interface.inputs[0], files.interface.outputs[0]
    emulator.write(f"input_{given.member}", sample.tobytes())
    status, counts = emulator.call("main")
    if status:
        raise RuntimeError(f"the program ends with {status}")
    sizes = image.sizes
    figures = {
        "instructions": counts.instructions,
        "cycles": counts.cycles,
        "flash": sum([sizes.get(k, 0) for k in ("text", "rodata", "data")]),
        "ram": sizes.get("bss", 0) + sizes.get("data", 0) + counts.stack,
        "stack": counts.stack,
        "by_function": dict(counts.by_function),
    }
    return figures, np.frombuffer(emulator.read(f"output_{made.member}", made.size), np.int8)


def peers(net: Any, sample: np.ndarray, archive: Path) -> tuple[dict[str, Any], np.ndarray]:
    """The same of CMSIS-NN's program."""
    from benchmarks.micro.cmsis_nn import program
    from benchmarks.micro.emulator import Emulator

    made = program(board(BOARD), net, archive)
    emulator = Emulator(board(BOARD), made.image)
    emulator.write("input", sample.tobytes())
    status, counts = emulator.call("run")
    if status:
        raise RuntimeError(f"layer {status - 1} of CMSIS-NN's program fails")
    figures = {
        "instructions": counts.instructions,
        "cycles": counts.cycles,
        "flash": sum([made.image.sizes.get(k, 0) for k in ("text", "rodata", "data")]),
        "ram": made.ram + counts.stack,
        "stack": counts.stack,
        "by_function": dict(counts.by_function),
    }
    return figures, np.frombuffer(emulator.read("output", int(np.prod(net.last.shape))), np.int8)


def compared(name: str, archive: Path | None, trials: int = 0) -> dict[str, Any]:
    """The figures of a network by both."""
    from benchmarks.micro.tiny_networks import NETWORKS as MADE
    from tests.frontend.tflite.ops.writer import litert

    net = MADE[name]()
    model, sample = net.model(), net.sample()
    wanted = litert(model, [sample])[0].reshape(-1)
    found, outputs = ours(model, sample, trials)
    row: dict[str, Any] = {"network": name, "multiplications": net.multiplications, "ours": found}
    row["equal"] = bool(np.array_equal(outputs, wanted))
    if archive is not None:
        row["peer"], outputs = peers(net, sample, archive)
        row["peer_differs"] = int((outputs != wanted).sum())
    return row


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each network, and how many of CMSIS-NN's results differ from LiteRT's: it rounds those of dense layers twice.
    Status 1 if ours differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_networks", description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="which ones")
    parser.add_argument("--cmsis-nn", type=Path, metavar="ARCHIVE", help="cmsis-nn-7.0.0.tar.xz, the peer's source")
    parser.add_argument("--tune", type=int, default=0, metavar="N", help="first, N plans are tried for each kernel")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="also the N functions that take most")
    takes_json(parser)
    options = parser.parse_args(argv)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(f"missing packages: pip install {' '.join(missing).replace('_', '-')}")
    if options.cmsis_nn is not None and not options.cmsis_nn.is_file():
        parser.error(f"argument --cmsis-nn: {options.cmsis_nn} is not a file")
    print(f"{'network':<12}{'products':>10}{'instructions':>14}{'ratio':>7}{'cycles':>12}{'ratio':>7}{'flash':>9}{'ratio':>7}"
          f"{'RAM':>8}{'ratio':>7}  as LiteRT  CMSIS-NN")  # fmt: skip
    rows = []
    for name in options.networks:
        row = compared(name, options.cmsis_nn, options.tune)
        rows.append(row)
        found, peer = row["ours"], row.get("peer")
        text = f"{name:<12}{row['multiplications']:>10}"
        for key, width in (("instructions", 14), ("cycles", 12), ("flash", 9), ("ram", 8)):
            ratio = f"{found[key] / peer[key]:7.2f}" if peer else " " * 7
            text += f"{found[key]:>{width}.0f}{ratio}"
        differs = row.get("peer_differs")
        words = "" if differs is None else f"{differs} differ" if differs else "equal"
        print(f"{text}  {'equal' if row['equal'] else 'DIFFERENT':<9}  {words}".rstrip())
        if options.functions:
            for who in ("ours", "peer"):
                functions = row.get(who, {}).get("by_function", {})
                for function, count in sorted(functions.items(), key=lambda f: -f[1])[: options.functions]:
                    print(f"    {who:<6}{count:>12}  {function}")
    write_json(options, {"networks": rows})
    return 0 if all([row["equal"] for row in rows]) else 1
