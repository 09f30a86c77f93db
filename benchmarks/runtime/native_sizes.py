"""The sizes of the native runtime and its server for each machine, as `tilewright runtime build --rpc` builds them."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import names, takes_json, write_json
from tilewright.deploy.machines import MACHINES
from tilewright.deploy.native_build import build_runtime
from tilewright.support.object_kind import WASM

SERVED = [name for name, machine in MACHINES.items() if machine.system.container != WASM]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks native_sizes", description=__doc__)
    parser.add_argument("--machines", default=",".join(SERVED), help="names with commas between (default: all)")
    takes_json(parser)
    options = parser.parse_args(argv)
    results = []
    print("| machine | runtime | server |\n|---|---|---|", flush=True)
    for name in names(parser, "--machines", options.machines, SERVED):
        with tempfile.TemporaryDirectory() as folder:
            built = build_runtime(MACHINES[name], Path(folder), rpc=True)
            assert built.server is not None
            sizes = [path.stat().st_size for path in (built.library, built.server)]
        print(f"| `{name}` | {sizes[0] / 1000:.0f} KB | {sizes[1] / 1000:.0f} KB |", flush=True)
        results.append({"machine": name, "runtime_bytes": sizes[0], "server_bytes": sizes[1]})
    write_json(options, results)
    return 0
