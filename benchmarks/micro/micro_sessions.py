"""Sessions with emulated boards: seconds until one is open and until the first result, those that processors worked for it (this process
and the emulator), eager and deferred calls a second, and the bytes of the runtime and of firmware with a small network.

QEMU is that of `make build/qemu-system/.done`, or the one on PATH.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks.options import takes_json, write_json
from tilewright import micro, relay, te
from tilewright.micro.board import board, known_boards
from tilewright.relay.backend import Executor, Runtime

UNPACKED = Path(__file__).resolve().parents[2] / "build" / "qemu-system"
ROUNDS, EAGER, DEFERRED = 5, 100, 2000


def find_qemu() -> None:
    """Lets sessions find the QEMU that make unpacked, and its libraries."""
    if (UNPACKED / "usr" / "bin").is_dir():
        os.environ.setdefault("TILEWRIGHT_QEMU_SYSTEM", str(UNPACKED / "usr" / "bin"))
        folders = [str(f) for f in (*UNPACKED.glob("usr/lib/*-linux-gnu"), *UNPACKED.glob("lib/*-linux-gnu"))]
        os.environ["LD_LIBRARY_PATH"] = ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")


def with_qemu(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """The options of a benchmark on emulated boards, which sessions find from now on."""
    takes_json(parser)
    find_qemu()
    return parser.parse_args(argv)


def addition(target: Any) -> Any:
    """A short kernel: eight additions of int32."""
    a, b = te.placeholder((8,), "int32", "a"), te.placeholder((8,), "int32", "b")
    return tvm.build(
        te.create_prim_func([a, b, te.compute((8,), lambda i: a[i] + b[i], "c")]), target=target, name="add"
    )


def worked(process: int) -> float:
    """Seconds that processors have worked for this process, and for another one."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def round_of(name: str, code: Any) -> dict[str, float]:
    """One session: seconds, and calls a second."""
    begun, before = time.perf_counter(), time.process_time()
    with micro.Session(name) as session:
        opened = time.perf_counter()
        module = micro.create_micro_mod(code, session)
        arrays = [tvm.nd.array(np.arange(8, dtype="int32"), session.device) for _ in range(3)]
        module["add"](*arrays)
        arrays[2].numpy()
        first = time.perf_counter()
        assert session._server is not None
        spent = worked(session._server.process.pid) - before
        found = {"open": opened - begun, "first": first - begun, "processor": spent}
        for kind, count in (("eager", EAGER), ("deferred", DEFERRED)):
            session.deferred = kind == "deferred"
            start = time.perf_counter()
            for _ in range(count):
                module["add"](*arrays)
            arrays[2].numpy()
            found[kind] = count / (time.perf_counter() - start)
    return found


def firmware(name: str) -> micro.export.report.Report:
    """What firmware with a small network takes: a dense layer of 64 x 32 float32, and softmax."""
    x, w = relay.var("x", shape=(1, 64)), relay.var("w", shape=(32, 64))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w))))
    bare = {"executor": Executor("aot", {"unpacked-api": True}), "runtime": Runtime("crt")}
    lib = relay.build(
        mod, board(name).target("c"), params={"w": np.ones((32, 64), "float32")}, mod_name="small", **bare
    )
    return micro.firmware_report(lib, name)


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each board."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_sessions", description=__doc__)
    emulated = [name for name in known_boards() if board(name).qemu is not None]
    parser.add_argument(
        "--boards", nargs="+", choices=emulated, default=emulated, metavar="BOARD", help=", ".join(emulated)
    )
    options = with_qemu(parser, argv)
    codes = {name: addition(board(name).target("llvm")) for name in options.boards}
    for name, code in codes.items():
        round_of(name, code)  # compiles the runtime, which the cache keeps
    rounds = {name: [] for name in codes}
    for _ in range(ROUNDS):
        for name, code in codes.items():
            rounds[name].append(round_of(name, code))
    print(f"medians of {ROUNDS} interleaved rounds; the runtime is in the compile cache")
    print(
        f"{'board':<16}{'open s':>9}{'first s':>9}{'worked s':>10}{'eager/s':>9}{'deferred/s':>12}{'ratio':>7}{'flash':>8}{'RAM':>8}"
        f"{'stack':>7}"
    )
    results = []
    for name, found in rounds.items():
        row = {key: statistics.median([r[key] for r in found]) for key in found[0]}
        report = firmware(name)
        row |= {
            "ratio": row["deferred"] / row["eager"],
            "flash": report.flash,
            "ram": report.ram,
            "stack": report.stack,
        }
        results.append({"board": name, **row})
        print(
            f"{name:<16}{row['open']:>9.3f}{row['first']:>9.3f}{row['processor']:>10.3f}{row['eager']:>9.0f}{row['deferred']:>12.0f}{row['ratio']:>7.1f}"
            f"{row['flash']:>8}{row['ram']:>8}{row['stack']:>7}"
        )
    write_json(options, {"boards": results})
    return 0
