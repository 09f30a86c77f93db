"""The configuration in use, under the classic names: `vta.get_env()` and the constants of an environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from tilewright.ir import PrimExpr
from tilewright.target import Target, arm_cpu
from tilewright.target import vta as vta_target
from tilewright.tir import Call, IterVar, StringImm, Var, call_extern
from tilewright.vta import config_fields
from tilewright.vta.configuration import MEMORIES
from tilewright.vta.isa.tables import ALU_OPS
from tilewright.vta.names import ACC_SCOPE, COMMANDS, INP_SCOPE, WGT_SCOPE

_HOSTS = {
    "pynq": "llvm -mtriple=armv7-none-linux-gnueabihf",
    "de10nano": "llvm -mtriple=armv7-none-linux-gnueabihf",
    "ultra96": "llvm -mtriple=aarch64-linux-gnu",
    "zcu104": "llvm -mtriple=aarch64-linux-gnu",
}


def get_vta_hw_path() -> str:
    """The folder whose `config/vta_config.json` is the configuration: that of the variable VTA_HW_PATH, or the package's own."""
    return os.path.abspath(os.environ.get("VTA_HW_PATH") or Path(__file__).parent)


class PkgConfig:
    """What builds and programs need of a configuration. cfg: JSON fields. ValueError as from `config_fields.of_fields`."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.configuration = config_fields.of_fields(cfg)
        self.cfg_dict = dict(cfg)
        self.TARGET = self.configuration.target

    @property
    def cfg_json(self) -> str:
        return json.dumps(self.cfg_dict, indent=2)

    @property
    def bitstream(self) -> str:
        """A name of the hardware: shape of the array, widths, sizes of memories (logarithms, or bytes)."""
        c = self.configuration
        block = f"{c.block_in}" if c.block_in == c.block_out else f"{c.block_in}x{c.block_out}"
        sizes = [getattr(c, f"{m}_buff_size") for m in ("uop", "inp", "wgt", "acc")]
        written = "_".join([f"{s}b" if s & (s - 1) else f"{s.bit_length() - 1}" for s in sizes])
        return f"{c.batch}x{block}_i{c.inp_width}w{c.wgt_width}a{c.acc_width}_{written}"


def pkg_config(cfg: Mapping[str, Any]) -> PkgConfig:
    """What builds and programs need of the configuration in these JSON fields."""
    return PkgConfig(cfg)


class DevContext:
    """What the compiler uses of an environment: numbers of memories, operations and units."""

    MEM_ID_UOP, MEM_ID_WGT, MEM_ID_INP, MEM_ID_ACC, MEM_ID_OUT = range(len(MEMORIES))
    ALU_OPCODE_MIN, ALU_OPCODE_MAX, ALU_OPCODE_ADD, ALU_OPCODE_SHR, ALU_OPCODE_MUL, ALU_OPCODE_CLIP = range(
        len(ALU_OPS)
    )
    QID_LOAD_INP = QID_LOAD_WGT = 1
    QID_LOAD_OUT = QID_COMPUTE = 2
    QID_STORE_OUT = 3

    def __init__(self, env: Environment) -> None:
        self.env = env

    @cached_property
    def vta_axis(self) -> IterVar:
        """The axis of the attributes around what a unit does."""
        return IterVar(None, Var("vta", "int32"), IterVar.ThreadIndex, "vta")

    @property
    def vta_push_uop(self) -> StringImm:
        """What micro-ops of products are known by in the classic driver."""
        return StringImm("VTAPushGEMMOp")

    @property
    def command_handle(self) -> PrimExpr:
        """The queue of commands of the classic driver, as an argument of its calls."""
        return Call("handle", "tir.tvm_thread_context", (call_extern("handle", COMMANDS),))

    def get_task_qid(self, qid: int) -> int:
        """The unit of a task; 1 to 3 are load, compute and store."""
        return qid


class Environment:
    """A configuration with its classic constants. cfg: JSON fields. ValueError for what no accelerator can be.

    As a context it is the current one: `with Environment(cfg): vta.get_env()`."""

    current: ClassVar[Environment | None] = None

    inp_scope, wgt_scope, acc_scope = INP_SCOPE, WGT_SCOPE, ACC_SCOPE

    dma_copy = "dma_copy"
    """The pragma of copies; the compiler finds them without it, too."""
    alu = "alu"
    """The pragma of arithmetic between accumulators; the compiler finds it without it, too."""

    MAX_XFER = 1 << 22
    DEBUG_DUMP_INSN, DEBUG_DUMP_UOP, DEBUG_SKIP_READ_BARRIER, DEBUG_SKIP_WRITE_BARRIER = [1 << n for n in range(1, 5)]

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.pkg = PkgConfig(cfg)
        c = self.configuration = self.pkg.configuration
        self.TARGET, self.BITSTREAM = c.target, self.pkg.bitstream
        self.MODEL = f"{c.target}_{self.BITSTREAM}"
        self.BATCH, self.BLOCK_IN, self.BLOCK_OUT = c.batch, c.block_in, c.block_out
        self.INP_WIDTH, self.WGT_WIDTH, self.ACC_WIDTH, self.OUT_WIDTH = (
            c.width(m) for m in ("inp", "wgt", "acc", "out")
        )
        self.UOP_BUFF_SIZE, self.INP_BUFF_SIZE, self.WGT_BUFF_SIZE, self.ACC_BUFF_SIZE, self.OUT_BUFF_SIZE = (
            int(getattr(c, f"{m}_buff_size")) for m in ("uop", "inp", "wgt", "acc", "out")
        )
        self.INP_ELEM_BITS, self.WGT_ELEM_BITS, self.ACC_ELEM_BITS, self.OUT_ELEM_BITS = (
            c.element_bits(m) for m in ("inp", "wgt", "acc", "out")
        )
        self.INP_ELEM_BYTES, self.WGT_ELEM_BYTES, self.ACC_ELEM_BYTES, self.OUT_ELEM_BYTES = (
            c.element_bytes(m) for m in ("inp", "wgt", "acc", "out")
        )
        self.inp_dtype, self.wgt_dtype, self.acc_dtype, self.out_dtype = (
            f"int{c.width(m)}" for m in ("inp", "wgt", "acc", "out")
        )
        self._dev: DevContext | None = None
        self._mock: Environment | None = None
        self._is_mock = False
        self._outer: list[Environment | None] = []

    @property
    def cfg_dict(self) -> dict[str, Any]:
        """The JSON fields that this was made from."""
        return self.pkg.cfg_dict

    @property
    def dev(self) -> DevContext:
        """What the compiler uses."""
        if self._dev is None:
            self._dev = DevContext(self)
        return self._dev

    @property
    def gemm(self) -> Any:
        """The tensor intrinsic of a step of a product (`vta.intrin.gemm`)."""
        from tilewright.vta import intrin

        return intrin.gemm(self, self._is_mock)

    @property
    def mock(self) -> Environment:
        """The same environment, whose products do nothing: for trying schedules."""
        if self._is_mock:
            return self
        if self._mock is None:
            self._mock = Environment(self.cfg_dict)
            self._mock._is_mock = True
        return self._mock

    @property
    def target(self) -> Target:
        """The accelerator as a target, with the CPU beside it as its host."""
        return Target(vta_target(model=self.MODEL), host=self.target_host)

    @property
    def target_host(self) -> Target:
        """The CPU beside the accelerator."""
        return Target(_HOSTS.get(self.TARGET, "llvm"))

    @property
    def target_vta_cpu(self) -> Target:
        """The same CPU, for operators that the accelerator does not run."""
        return arm_cpu(self.TARGET) if self.TARGET in _HOSTS else Target("llvm")

    def __enter__(self) -> Environment:
        self._outer.append(Environment.current)
        Environment.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        Environment.current = self._outer.pop()


def get_env() -> Environment:
    """The current environment: the innermost `with`, else that of the configuration file (`get_vta_hw_path`)."""
    if Environment.current is None:
        path = Path(get_vta_hw_path()) / "config" / "vta_config.json"
        try:
            Environment.current = Environment(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from error
    return Environment.current


__all__ = ["DevContext", "Environment", "PkgConfig", "get_env", "get_vta_hw_path", "pkg_config"]
