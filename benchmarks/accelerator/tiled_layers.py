"""Convolutions on the accelerator with given knobs, and their cycles, for measurements of the search."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from tilewright import autotvm, te, topi, vta
from tilewright.codegen.device import split
from tilewright.driver.pipeline import lower_for
from tilewright.ir import GlobalVar, IRModule
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc
from tilewright.vta.compiler.emitter import kernels_of
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import Environment
from tilewright.vta.image import Kernel
from tilewright.vta.search.problem import Problem, Tiling, square
from tilewright.vta.simulator.native import Simulator

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "classic": {},
    "small memories": {"LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 15},
    "32 x 32": {"LOG_BLOCK": 5, "DRAM_BYTES": 16},
    "16 x 32, wide DRAM": {"BLOCK_IN": 16, "BLOCK_OUT": 32, "DRAM_BYTES": 32, "DRAM_LATENCY": 80},
    "8 x 8, slow DRAM": {"LOG_BLOCK": 3, "DRAM_BYTES": 4, "DRAM_LATENCY": 100, "DRAM_REQUESTS": 4},
}
"""Accelerators that are measured; JSON fields beside those of the classic one."""


class Convolution(NamedTuple):
    """A convolution with even padding: rows of the data, blocks of input and output channels, kernel, stride; columns of the data, 0 for a
    square. depthwise: whether each block of channels has filters of its own (1) or all have (0)."""

    size: int
    in_blocks: int
    out_blocks: int
    kernel: int
    stride: int
    columns: int = 0
    depthwise: int = 0

    def problem(self) -> Problem:
        made = square(*self[:5])
        width = self.columns or self.size
        columns = (width + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1
        ins = 1 if self.depthwise else self.in_blocks
        return made._replace(columns=columns, size=(self.size, width), in_blocks=ins, per_group=self.depthwise)


def _scheduled(*layer: int) -> tuple[Any, list[Any]]:
    """A layer with a shift and a range, and its arguments."""
    env, c = vta.get_env(), Convolution(*layer)
    strides, pads = (c.stride,) * 2, (c.kernel // 2,) * 4
    if c.columns == 1:
        pads = (c.kernel // 2, 0, c.kernel // 2, 0)
    rows = c.size, c.columns or c.size
    data = te.placeholder((1, c.in_blocks, *rows, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    ins = 1 if c.depthwise else c.in_blocks
    shape = (c.out_blocks, ins, c.kernel, c.kernel, env.BLOCK_OUT, env.BLOCK_IN)
    weight = te.placeholder(shape, env.wgt_dtype, "weight")
    layout = f"NCHW{env.BATCH}n{env.BLOCK_IN}c"
    if c.depthwise:
        res = vta.top.group_conv2d_packed(data, weight, strides, pads, (1, 1), c.in_blocks, env.acc_dtype)
    else:
        res = vta.top.conv2d_packed(data, weight, strides, pads, (1, 1), layout, env.acc_dtype)
    res = topi.right_shift(res, te.const(8, env.acc_dtype))
    res = te.compute(res.shape, lambda *i: te.min(te.max(res(*i), -128), 127), "ranged")
    res = topi.cast(res, env.out_dtype)
    schedule = vta.top.schedule_group_conv2d_packed if c.depthwise else vta.top.schedule_conv2d_packed
    return schedule([res]), [data, weight, res]


TEMPLATE = "benchmarks.conv2d.vta"
autotvm.template(TEMPLATE)(_scheduled)


def task_of(layer: Convolution, env: Environment) -> Any:
    """The layer as a task of AutoTVM, inside `with` of its environment."""
    return autotvm.task.create(TEMPLATE, args=tuple(layer), target=env.target)


def tiling_of(entity: Any, layer: Convolution) -> Tiling:
    """What the knobs of a configuration mean."""
    p = layer.problem()
    whole = {"tile_h": p.rows, "tile_w": p.columns, "tile_co": p.out_blocks, "tile_ci": p.in_blocks}
    last = {n: entity[n].size[-1] if n in entity else extent for n, extent in whole.items()}
    outer = entity["outer"].val if "outer" in entity else "co"
    threads = entity["oc_nthread"].val, entity["h_nthread"].val
    return Tiling(last["tile_h"], last["tile_w"], last["tile_co"], last["tile_ci"], *threads, outer == "h")


def can_run(t: Tiling, p: Problem, config: Configuration) -> bool:
    """Whether a tiling fits, with one kind of virtual thread at most, whose number divides the tiles."""
    divides = p.out_blocks // t.out_blocks % t.out_threads == 0 and p.rows // t.rows % t.row_threads == 0
    return divides and t.threads <= 2 and t.fits(p, config)


class Program(NamedTuple):
    """A kernel, and for each of its arguments the number of the tensor that it is."""

    kernel: Kernel
    tensors: tuple[int, ...]


def program_of(s: Any, args: list[Any], env: Environment) -> Program | None:
    """A schedule as a program of the accelerator, without a host; None where it does not fit."""
    func = s.to_prim_func(args, None).with_attr({"global_symbol": "layer", "from_legacy_te_schedule": True})
    lowered = lower_for(IRModule({GlobalVar("layer"): func}), env.target)
    (kernel,) = [f for f in split(lowered)[1].functions.values() if isinstance(f, PrimFunc)]
    names = [t.op.name for t in args]
    try:
        (made,) = kernels_of([kernel], env.configuration)
    except TVMError as error:
        if "use smaller tiles" in str(error):
            return None
        raise
    return Program(made, tuple([names.index(v.name) for v in kernel.params]))


def kernel_of(task: Any, entity: Any, env: Environment) -> Kernel | None:
    """A configuration of the task as a program of the accelerator; None where it does not fit."""
    with env.target:
        s, args = task.instantiate(entity)
    made = program_of(s, args, env)
    return None if made is None else made.kernel


@lru_cache(maxsize=1)
def _simulator(config: Configuration) -> Simulator:
    return Simulator(config)


def cycles(task: Any, entity: Any, env: Environment, most: int = 1 << 62) -> int | None:
    """Cycles of a configuration of the task in the cycle-level simulator; None where it does not fit, or takes more than `most`."""
    kernel = kernel_of(task, entity, env)
    return None if kernel is None else _simulator(env.configuration).cycles(kernel, most)
