"""Schedules of TensorIR programs: handles, primitives that keep the results of a program, and traces that can be
replayed.
"""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.tir.schedule.block_scope import BlockDependenceInfo as BlockDependenceInfo
from tilewright.tir.schedule.block_scope import BlockScope as BlockScope
from tilewright.tir.schedule.block_scope import Dependency as Dependency
from tilewright.tir.schedule.block_scope import DepKind as DepKind
from tilewright.tir.schedule.errors import ScheduleError as ScheduleError
from tilewright.tir.schedule.index_map import IndexMap as IndexMap
from tilewright.tir.schedule.schedule import Schedule as Schedule
from tilewright.tir.schedule.state import ScheduleDebugMask as ScheduleDebugMask
from tilewright.tir.schedule.state import ScheduleState as ScheduleState
from tilewright.tir.schedule.state import StmtSRef as StmtSRef
from tilewright.tir.schedule.tensor_intrin import TensorIntrin as TensorIntrin
from tilewright.tir.schedule.trace import BlockRV as BlockRV
from tilewright.tir.schedule.trace import ExprRV as ExprRV
from tilewright.tir.schedule.trace import Instruction as Instruction
from tilewright.tir.schedule.trace import InstructionKind as InstructionKind
from tilewright.tir.schedule.trace import LoopRV as LoopRV
from tilewright.tir.schedule.trace import Trace as Trace
from tilewright.tir.schedule.tries import Fallback as Fallback

lazy.faces(
    __name__,
    {
        "instruction": ("Instruction", "InstructionKind"),
        "transform": (f"{__name__}.intrinsic_tiles:tile_with_tensor_intrin",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
