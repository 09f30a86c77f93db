"""Building for the accelerator under the classic names."""

from __future__ import annotations

from typing import Any

from tilewright import driver
from tilewright.ir import IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, module_pass
from tilewright.support.errors import TVMError
from tilewright.tir import Call, call_extern
from tilewright.tir.transform import StorageRewrite
from tilewright.tir.transform.function.launch import MemoryInfo
from tilewright.vta.environment import get_env
from tilewright.vta.names import TOKENS, WAIT


def mem_info_inp_buffer() -> MemoryInfo:
    """The memory of inputs."""
    return _memory("inp")


def mem_info_wgt_buffer() -> MemoryInfo:
    """The memory of weights."""
    return _memory("wgt")


def mem_info_acc_buffer() -> MemoryInfo:
    """The memory of accumulators."""
    return _memory("acc")


def _memory(name: str) -> MemoryInfo:
    config = get_env().configuration
    bits = config.element_bits(name)
    return MemoryInfo(unit_bits=bits, max_num_bits=config.depth(name) * bits, max_simd_bits=bits)


def coproc_sync(op: Call) -> PrimExpr:
    """A wait for the accelerator as a call of the classic driver, with the most cycles to wait."""
    del op
    return call_extern("int32", WAIT, get_env().dev.command_handle, 1 << 31)


def coproc_dep_push(op: Call) -> PrimExpr:
    """A token from a unit to another one as a call of the classic driver."""
    return call_extern("int32", TOKENS[0], get_env().dev.command_handle, *op.args[:2])


def coproc_dep_pop(op: Call) -> PrimExpr:
    """A wait of a unit for a token as a call of the classic driver."""
    return call_extern("int32", TOKENS[1], get_env().dev.command_handle, *op.args[:2])


def EarlyRewrite() -> Pass:
    """Let allocations share storage (`tir.transform.StorageRewrite`) while loops are still as the schedule made them; modules for which
    that is not possible stay as they are."""

    def rewrite(mod: IRModule, ctx: PassContext) -> IRModule:
        try:
            return StorageRewrite()(mod)
        except TVMError:
            return mod

    made: Pass = module_pass(rewrite, opt_level=0, name="tir.vta.EarlyRewrite")
    return made


def build_config(debug_flag: int = 0, **kwargs: Any) -> PassContext:
    """A pass context for building. debug_flag: `Environment.DEBUG_DUMP_INSN` prints the instructions of kernels, `DEBUG_DUMP_UOP` their
    micro-ops, when they are compiled. kwargs: those of PassContext, and options by name in `config`."""
    config = {**kwargs.pop("config", {}), **({"vta.debug_flag": debug_flag} if debug_flag else {})}
    return PassContext(config=config, **kwargs)


def lower(*args: Any, **kwargs: Any) -> Any:
    """`tvm.lower` for the accelerator: a kernel as loops over copies, steps and arithmetic of its memories."""
    return driver.lower(*args, **kwargs)


def build(*args: Any, **kwargs: Any) -> Any:
    """`tvm.build` for the accelerator; the arguments are the same. TVMError for what the accelerator cannot run, and why."""
    return driver.build(*args, **kwargs)


__all__ = [
    "EarlyRewrite", "build", "build_config", "coproc_dep_pop", "coproc_dep_push", "coproc_sync", "lower", "mem_info_acc_buffer",
    "mem_info_inp_buffer", "mem_info_wgt_buffer",
]  # fmt: skip
