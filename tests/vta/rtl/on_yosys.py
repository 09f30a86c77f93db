"""Verilog and synthesis by Yosys (`make test-rtl`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import command
from tests.vta.rtl.on_amaranth import SMALL
from tilewright.support.errors import TVMError
from tilewright.vta.config_fields import of_fields
from tilewright.vta.hardware.synthesis import cells_of, verilog


def test_verilog() -> None:
    text = verilog(of_fields(SMALL))
    head = text[text.rindex("module vta(") :]
    for port in ("clk", "rst", "start", "busy", "arvalid", "araddr", "rdata", "wstrb", "bvalid", "s_awaddr", "s_rdata"):
        assert f" {port};" in head, port
    assert "latch" not in text


def test_cells() -> None:
    small, wide = (
        cells_of(of_fields({**SMALL, **more}))
        for more in ({}, {"BLOCK_OUT": 8, "WGT_BUFF_SIZE": 2048, "ACC_BUFF_SIZE": 2048})
    )
    assert 0 < small["LUT"] < wide["LUT"] and 0 < small["multiplier"] < wide["multiplier"]
    assert small["block RAM"] and small["flip-flop"]


def test_other_families() -> None:
    with pytest.raises(TVMError, match="there is no family virtex; there are ecp5, ice40"):
        cells_of(of_fields(SMALL), "virtex")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    done = command("vta", "verilog", "--config", tmp_path / "config.json", "-o", tmp_path / "vta.v")
    assert done.code == 0 and "module vta(" in (tmp_path / "vta.v").read_text(), done.err
    assert "nothing to do" in command("vta", "verilog").err
    (tmp_path / "config.json").write_text('{"LOG_BLOCKS": 4}')
    assert (
        "unknown field LOG_BLOCKS"
        in command("vta", "verilog", "--config", tmp_path / "config.json", "-o", tmp_path / "b.v").err
    )
