"""Kernels that call the classic driver: copies, micro-ops and loops of instructions, as the passes of `vta.transform` write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.support.errors import TVMError
from tilewright.tir import Call, IntImm, StringImm, Var
from tilewright.vta.compiler.arithmetic import Alu
from tilewright.vta.compiler.commands import Commands
from tilewright.vta.compiler.grids import Array, Values, evaluate, spread
from tilewright.vta.compiler.places import Places
from tilewright.vta.configuration import MEMORIES
from tilewright.vta.isa.tables import ALU_OPS
from tilewright.vta.names import LOAD, LOOP_BEGIN, LOOP_END, PUSH, STORE, TOKENS, WAIT

ElementsOf = Callable[[PrimExpr, str, Values, int], Array]
"""(address, memory, values, points): the elements that an address points to."""


def name_of(call: Any) -> str:
    """The external function that is called; the intrinsic where it is none."""
    if not isinstance(call, Call):
        return ""
    if call.intrinsic != "call_extern":
        return call.intrinsic
    return call.args[0].value if isinstance(call.args[0], StringImm) else ""


def is_driver_call(name: str) -> bool:
    """Whether a name is of the driver, or of a token between units."""
    return name in (LOAD, STORE, PUSH, LOOP_BEGIN, LOOP_END, WAIT, *TOKENS) or name.startswith("vta.coproc_")


def unit_of(call: Any) -> str:
    """The unit of a call."""
    name = name_of(call)
    if name == LOAD:
        number = call.args[-1]
        return "load" if isinstance(number, IntImm) and MEMORIES[number.value] in ("inp", "wgt") else "compute"
    return "store" if name == STORE else "compute"


class DriverCalls:
    """Emits what calls say. Tokens and waits are left out: they follow from what instructions access (`commands`)."""

    def __init__(self, commands: Commands, places: Places, alu: Alu, elements: ElementsOf) -> None:
        self.commands, self.places, self.alu, self.elements = commands, places, alu, elements
        self.config = commands.config
        self._loops: list[tuple[int, Array]] = []
        """Loops of the instruction that is being written: trips, and what each adds to dst, src and wgt."""
        self._rows: list[Array] = []
        self._kind: tuple[str, tuple[tuple[str, Any], ...]] | None = None

    def run(self, name: str, call: Call, values: Values, count: int) -> None:
        args = call.args[1:]
        if name == LOAD:
            self._copies(args[1:11], args[11], MEMORIES[self._number(args[12], values)], values, count)
        elif name == STORE:
            self._copies(args[3:8], args[1], MEMORIES[self._number(args[2], values)], values, count)
        elif name == PUSH:
            self._push(args, values, count)
        elif name == LOOP_BEGIN:
            trips, *factors = (self._number(a, values) for a in args)
            self._loops.append((trips, np.array(factors)))
        elif name == LOOP_END:
            if not self._loops:
                raise TVMError(f"the loop of an instruction ends, but none has begun: {call}")
            self._end()

    def finish(self) -> None:
        """Raises TVMError where the loop of an instruction has no end: its micro-ops would be of no instruction."""
        if self._loops:
            raise TVMError(f"a loop of an instruction, {LOOP_BEGIN} of {self._loops[-1][0]} trips, has no {LOOP_END}")

    def _number(self, e: PrimExpr, values: Values) -> int:
        return int(np.asarray(evaluate(e, values)).reshape(-1)[0])

    def _copies(self, args: Sequence[PrimExpr], chip: PrimExpr, memory: str, values: Values, count: int) -> None:
        """A copy for each point of a nest: array, offset, columns, rows, stride, and for loads padding (left, top, right, bottom), whether
        it is the smallest number."""
        data = args[0]
        if not isinstance(data, Var):
            raise TVMError(f"a copy of the driver takes an argument of the kernel, not {data}")
        place = self.places.of_data(data)
        if place.memory is not None:
            raise TVMError(f"a copy of the driver is from or to DRAM, but `{data.name}` is in {place.memory}")
        size, is_load = self.config.element_bytes(memory), len(args) > 5
        on_chip = "acc" if memory == "out" else memory
        first = self.elements(chip, on_chip, values, count)
        numbers = np.stack([spread(evaluate(a, values), count) for a in args[1:]], axis=1).tolist()
        for at, (offset, columns, rows, stride, *rest) in zip(first.tolist(), numbers, strict=True):
            fields = {"y_size": rows, "x_size": columns, "x_stride": stride}
            if not is_load:
                self.alu.make_current(np.arange(at, at + rows * columns))
                self.commands.store(place.first, offset * size, fields, at, rows * columns)
                continue
            left, top, right, bottom, smallest = rest
            pads = {"y_pad_top": top, "y_pad_bottom": bottom, "x_pad_left": left, "x_pad_right": right}
            padded = {k: v for k, v in {**pads, "pad_min": int(smallest and any(pads.values()))}.items() if v}
            elements = (top + rows + bottom) * (left + columns + right)
            self.commands.load(memory, place.first, offset * size, {**fields, **padded}, at, elements)
            if memory == "acc":
                self.alu.output_is_current[at : at + elements] = False

    def _push(self, args: Sequence[PrimExpr], values: Values, count: int) -> None:
        mode, reset = (self._number(a, values) for a in args[:2])
        memories = ("acc",) if reset else ("acc", "acc") if mode else ("acc", "inp", "wgt")
        code, use_imm, imm = (self._number(a, values) for a in args[5:8])
        found = [self.elements(p, m, values, count) for p, m in zip(args[2:5], memories, strict=False)]
        fields: dict[str, Any] = {"reset": 1} if reset else {}
        if mode:
            fields = {"op": ALU_OPS[code], **({"use_imm": 1, "imm": imm} if use_imm else {})}
            found = found[:1] if use_imm else found
        found += [np.zeros(count, np.int64)] * (3 - len(found))
        kind = ("alu" if mode else "gemm", tuple(fields.items()))
        if self._rows and kind != self._kind:
            raise TVMError(
                "the micro-ops of an instruction are of one operation, but here are two of them between the ends of its loops"
            )
        self._kind = kind
        self._rows.append(np.stack(found, axis=1))
        if not self._loops:
            self._emit(np.concatenate(self._rows))

    def _end(self) -> None:
        trips, factors = self._loops.pop()
        rows = np.concatenate([np.zeros((0, 3), np.int64), *self._rows])
        repeated = (np.arange(trips)[:, None, None] * factors + rows).reshape(-1, 3)
        self._rows = [repeated]
        if not self._loops:
            self._emit(repeated)

    def _emit(self, rows: Array) -> None:
        self._rows = []
        if self._kind is not None and len(rows):
            self.alu.emit(self._kind[0], rows, dict(self._kind[1]))


__all__ = ["DriverCalls", "is_driver_call", "name_of", "unit_of"]
