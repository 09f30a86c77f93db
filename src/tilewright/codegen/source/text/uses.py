"""How a function's body uses data variables."""

from __future__ import annotations

from tilewright.ir import DataType
from tilewright.node import Visitor, on
from tilewright.tir import Buffer, BufferLoad, BufferStore, Call, Var
from tilewright.tir.stmt_functor import used_vars


class Uses(Visitor):
    """Collects how a statement uses data variables.

    written: those that it stores to or passes on, as a callee may write to them. passed: those that it passes on. loaded: those that it
    loads from. elements: the types of the buffers that it accesses. widest: the bytes of the widest access. sizes: variables in the shapes
    of these buffers. asynchronous: whether there are copies that must be waited for. tiled: whether copies or products take swizzled tiles
    of shared memory.
    """

    def __init__(self) -> None:
        self.written: set[Var] = set()
        self.passed: set[Var] = set()
        self.loaded: set[Var] = set()
        self.elements: dict[Var, DataType] = {}
        self.widest: dict[Var, int] = {}
        self.sizes: set[Var] = set()
        self.asynchronous = self.tiled = False

    def _access(self, buffer: Buffer, dtype: DataType) -> None:
        self.elements.setdefault(buffer.data, buffer.dtype)
        if dtype.lanes > 1:
            self.widest[buffer.data] = max(self.widest.get(buffer.data, 0), dtype.element.bytes * dtype.lanes)
        for extent in (*buffer.shape, *buffer.strides):
            self.sizes.update(used_vars(extent))

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.written.add(s.buffer.data)
        self._access(s.buffer, s.value.dtype)
        self.visit_children(s)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.loaded.add(e.buffer.data)
        self._access(e.buffer, e.dtype)
        self.visit_children(e)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = e.intrinsic
        if name == "prefetch" and isinstance(e.args[0], Call) and isinstance(e.args[0].args[0], BufferLoad):
            for index in e.args[0].args[0].indices:
                self.visit(index)
            return
        self.tiled |= name in ("ptx_tma_load", "ptx_wgmma", "ptx_wgmma_rs")
        if name in ("ptx_cp_async", "ptx_cp_async_bulk") and all([isinstance(a, Var) for a in (e.args[0], e.args[2])]):
            self._copy(e)
            return
        if name == "address_of" and isinstance(e.args[0], BufferLoad):
            self._pass(e.args[0].buffer.data)
        self.visit_children(e)

    def _copy(self, e: Call) -> None:
        """An asynchronous copy of (target, offset, source, offset, bytes, ...) with the type of the elements."""
        self.asynchronous = True
        to, source = e.args[0], e.args[2]
        assert isinstance(to, Var) and isinstance(source, Var)
        self.written.add(to)
        self.widest[to] = max(self.widest.get(to, 0), 16)
        if e.dtype.code not in ("void", "handle", ""):
            self.elements.setdefault(to, e.dtype.element)
            self.elements.setdefault(source, e.dtype.element)
        for part in (e.args[1], *e.args[3:]):
            self.visit(part)

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self._pass(v)

    def _pass(self, v: Var) -> None:
        self.passed.add(v)
        self.written.add(v)


__all__ = ["Uses"]
