"""Cells of accelerators on an FPGA, by Yosys: LUTs, flip-flops, block RAMs, multipliers for each configuration."""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.options import takes_json, write_json
from tilewright.vta.config_fields import of_fields

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "1 x 2 x 2": {"BLOCK": 2, "INP_BUFF_SIZE": 2048, "WGT_BUFF_SIZE": 4096, "ACC_BUFF_SIZE": 4096, "DRAM_BYTES": 4},
    "1 x 4 x 4": {"BLOCK": 4, "INP_BUFF_SIZE": 4096, "WGT_BUFF_SIZE": 8192, "ACC_BUFF_SIZE": 8192},
    "1 x 4 x 8": {"BLOCK_IN": 4, "BLOCK_OUT": 8, "INP_BUFF_SIZE": 4096, "WGT_BUFF_SIZE": 16384, "ACC_BUFF_SIZE": 16384},
    "1 x 8 x 8": {"BLOCK": 8, "INP_BUFF_SIZE": 8192, "WGT_BUFF_SIZE": 32768, "ACC_BUFF_SIZE": 16384},
    "1 x 16 x 16": {"BLOCK": 16, "INP_BUFF_SIZE": 16384, "WGT_BUFF_SIZE": 65536, "ACC_BUFF_SIZE": 32768},
}
"""JSON fields beside the ones that all have."""
SMALL = {"UOP_BUFF_SIZE": 4096, "COMMAND_QUEUE": 64, "TOKEN_QUEUE": 64}


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each configuration."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks vta_cells", description=__doc__)
    parser.add_argument("--family", choices=("ecp5", "ice40"), default="ecp5")
    parser.add_argument(
        "--only", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS), metavar="ARRAY"
    )
    takes_json(parser)
    options = parser.parse_args(argv)
    from tilewright.vta.hardware.synthesis import cells_of

    rows = []
    for name in options.only:
        begin = time.process_time()
        cells = cells_of(of_fields({**SMALL, **CONFIGURATIONS[name]}), options.family)
        rows.append({"configuration": name, **cells, "seconds": time.process_time() - begin})
        print(f"{name:<12}" + ", ".join([f"{n} {kind}" for kind, n in cells.items()]), flush=True)
    write_json(options, {"rows": rows})
    return 0
