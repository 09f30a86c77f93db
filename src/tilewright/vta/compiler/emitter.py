"""The walk over a kernel: outer loops run, and each nest of loops around one store or one call becomes instructions.

What a nest does follows from where its buffers are: a copy to the chip is a load, one to DRAM a store, arithmetic between accumulators is
the ALU's, and calls of `VTAGemm` and `VTAReset` (vta.intrin) are products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
)
from tilewright.vta.compiler.arithmetic import Alu
from tilewright.vta.compiler.commands import Commands
from tilewright.vta.compiler.copies import Copies
from tilewright.vta.compiler.driver_calls import DriverCalls, is_driver_call, name_of, unit_of
from tilewright.vta.compiler.elements import inner_loops, pointed
from tilewright.vta.compiler.grids import Array, Values, evaluate, grid, spread
from tilewright.vta.compiler.nests import Nest, nest_of
from tilewright.vta.compiler.places import Places
from tilewright.vta.compiler.widening import widened
from tilewright.vta.configuration import Configuration
from tilewright.vta.image import Kernel
from tilewright.vta.names import GEMM, RESET


class Emitter(Visitor):
    """The commands of one kernel."""

    def __init__(self, func: PrimFunc, config: Configuration) -> None:
        self.config = config
        self.commands = Commands(config)
        self.places = Places(func, config)
        self.values: dict[Var, Any] = {}
        self.threads: list[tuple[Var, int]] = []
        """Virtual threads around: what is for one unit runs for one after the other, so that the loads of one are beside the products of
        another."""
        self._left_out: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        """By store, and first values and extents of the loops around it, how many of these are over the numbers of an element."""
        self.alu = Alu(self.commands, self.places)
        self.copies = Copies(self.commands, self.places, self.alu)
        self.driver = DriverCalls(self.commands, self.places, self.alu, self._elements)
        self.arguments = len(func.params)
        self.visit(func.body)
        self.driver.finish()

    def kernel(self, name: str) -> Kernel:
        return self.commands.kernel(name, self.arguments)

    # ---- statements

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> None:
        group: list[Nest] = []
        for part in s.seq:
            nest = self._nest(part)
            if group and (nest is None or self._unit(nest) != self._unit(group[0])):
                self._run(group)
                group = []
            if nest is None:
                self.visit(part)
            else:
                group.append(nest)
        self._run(group)

    def _unit(self, nest: Nest) -> str:
        """The unit that a nest is for; copies to accumulators are the compute unit's."""
        if isinstance(nest.inside, Evaluate):
            return unit_of(nest.inside.value)
        assert isinstance(nest.inside, BufferStore)
        memory = self.places.of(nest.inside.buffer).memory
        return "store" if memory is None else "load" if memory in ("inp", "wgt") else "compute"

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key == "virtual_thread":
            extent = int(evaluate(s.value, self.values))
            self.threads.append((s.node.var, extent))
            with self.places.threads(extent):
                self.visit(s.body)
            self.threads.pop()
            return
        if s.attr_key == "thread_extent":
            self.values[s.node.var] = 0
        self.visit(s.body)

    @on(DeclBuffer)
    def _declared(self, s: DeclBuffer) -> None:
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        with self.places.allocated(s, int(np.prod([int(evaluate(e, self.values)) for e in s.extents]))):
            self.visit(s.body)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.values[s.var] = evaluate(s.value, self.values)
        self.visit(s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        if evaluate(s.condition, self.values):
            self.visit(s.then_case)
        elif s.else_case is not None:
            self.visit(s.else_case)

    @on(For)
    def _for(self, s: For) -> None:
        nest = self._nest(s)
        if nest is not None:
            self._run([nest])
            return
        first, extent = (int(evaluate(e, self.values)) for e in (s.min, s.extent))
        for value in range(first, first + extent):
            self.values[s.loop_var] = value
            self.visit(s.body)
        self.values.pop(s.loop_var, None)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._run([Nest((), (), s)])

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if not isinstance(s.value, IntImm):
            self._run([Nest((), (), s)])

    # ---- nests

    def _nest(self, s: Stmt) -> Nest | None:
        return nest_of(s, self.values)

    def _run(self, nests: Sequence[Nest]) -> None:
        """Runs nests of one unit, all of one virtual thread before those of the next."""
        for numbers in product(*[range(extent) for _, extent in self.threads]):
            for level, number in enumerate(numbers):
                self.places.run_thread(level, number)
                self.values[self.threads[level][0]] = number
            for nest in nests:
                self._run_one(nest)
        for var, _ in self.threads:
            del self.values[var]

    def _run_one(self, nest: Nest) -> None:
        dropped = self._numbers(nest)
        self.alu.whole = dropped > 0
        kept = len(nest.loops) - dropped
        points, count = grid(nest.loops[:kept])
        if count == 0:
            return
        values = {**self.values, **points, **{var: 0 for var, *_ in nest.loops[kept:]}}
        for condition in nest.conditions:
            holds = spread(evaluate(condition, values), count).astype(bool)
            values = {
                v: a[holds] if isinstance(a, np.ndarray) and a.shape == (count,) else a for v, a in values.items()
            }
            count = int(holds.sum())
            if count == 0:
                return
        if isinstance(nest.inside, Evaluate):
            self._steps(nest.inside.value, values, count)
        elif isinstance(nest.inside, BufferStore):
            self._stored(nest.inside, values, count)

    def _numbers(self, nest: Nest) -> int:
        """How many of the innermost loops of a nest are over the numbers of an element, and can be left out."""
        s = nest.inside
        if not isinstance(s, BufferStore):
            return 0
        key = id(s), tuple([(first, extent) for _, first, extent in nest.loops])
        if key not in self._left_out:
            memory = self.places.of(s.buffer).memory
            place = "out" if memory is None else memory
            lanes = self.config.element_bits(place) // self.config.width(place)
            self._left_out[key] = inner_loops(nest.loops, nest.conditions, s, lanes)
        return self._left_out[key]

    def _stored(self, s: BufferStore, values: dict[Var, Any], count: int) -> None:
        to = self.places.of(s.buffer)
        at = spread(evaluate(s.indices[0], values), count)
        if to.memory is None:
            self.copies.store(s, at, values, count)
        elif self.copies.is_load(s):
            self.copies.load(s, at, values, count)
        elif to.memory == "acc" and (load := widened(s.value)) is not None:
            self.alu.widen(s, load, at, values, count)
        elif to.memory == "acc":
            self.alu.run(s, at, values, count)
        else:
            raise TVMError(
                f"the accelerator only copies to {s.buffer.name}, which is in its memory {to.memory}, but the program computes\n{s}"
            )

    def _steps(self, call: Any, values: dict[Var, Any], count: int) -> None:
        name = name_of(call)
        if is_driver_call(name):
            self.driver.run(name, call, values, count)
            return
        if name not in (GEMM, RESET):
            raise TVMError(f"the accelerator cannot run {call}; it runs {GEMM} and {RESET}, which vta.intrin makes")
        wanted = ("acc", "inp", "wgt") if name == GEMM else ("acc",)
        found = [
            self._elements(pointer, memory, values, count)
            for pointer, memory in zip(call.args[1:], wanted, strict=True)
        ]
        found += [np.zeros(count, np.int64)] * (3 - len(found))
        self.alu.products(np.stack(found, axis=1), reset=name == RESET)

    def _elements(self, pointer: PrimExpr, memory: str, values: Values, count: int) -> Array:
        """The elements that addresses point to."""
        data, offset = pointed(pointer)
        place = self.places.of_data(data)
        lanes = self.config.element_bits(memory) // self.config.width(memory)
        if place.memory != memory:
            raise TVMError(f"a product takes {memory} here, but `{data.name}` is in {place.memory or 'DRAM'}")
        at = spread(evaluate(offset, values), count)
        if (at % lanes).any():
            raise TVMError(
                f"a product begins within an element of `{data.name}`: elements of {memory} have {lanes} numbers"
            )
        return np.asarray(place.first + at // lanes)


def kernels_of(functions: Sequence[PrimFunc], config: Configuration) -> list[Kernel]:
    """The programs of kernels. TVMError where one cannot be a program of the accelerator."""
    return [Emitter(f, config).kernel(str(f.attrs["global_symbol"])) for f in functions]


__all__ = ["Emitter", "kernels_of"]
