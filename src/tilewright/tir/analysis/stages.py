"""What may stand in a program at each stage of lowering; run after every pass in tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.ir import IRModule
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir.expr import BufferLoad, ProducerLoad, Reduce
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    ProducerRealize,
    ProducerStore,
)


class _Stage(Visitor):
    def __init__(self, have: set[str], where: str) -> None:
        self.have, self.where = have, where

    def refuse(self, rule: str, node: Any) -> None:
        raise TVMError(
            f"{self.where}: after the passes so far ({rule}) there must be no {type(node).__name__}, but there is {node}"
        )

    @on(ProducerLoad, ProducerStore, ProducerRealize, BufferRealize, Reduce)
    def _tensors(self, node: Any) -> None:
        self.refuse("TensorIR", node)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        if "no_blocks" in self.have:
            self.refuse("no_blocks", s)
        self.visit_children(s)

    @on(Block)
    def _block(self, b: Block) -> None:
        if "no_blocks" in self.have:
            self.refuse("no_blocks", b)
        if "no_init" in self.have and b.init is not None:
            self.refuse("no_init", b.init)
        if "opaque_blocks" in self.have and b.iter_vars:
            self.refuse("opaque_blocks", b)
        if "no_match_buffers" in self.have and b.match_buffers:
            self.refuse("no_match_buffers", b.match_buffers[0])
        self.visit_children(b)

    @on(BufferLoad, BufferStore)
    def _access(self, a: Any) -> None:
        if "flat_buffers" in self.have and len(a.indices) != 1:
            self.refuse("flat_buffers: one index", a)
        self.visit_children(a)

    @on(For)
    def _for(self, s: For) -> None:
        if "vectors_lowered" in self.have and s.kind == ForKind.VECTORIZED:
            self.refuse("vectors_lowered", s)
        self.visit_children(s)


def verify_stage(obj: PrimFunc | IRModule, have: Iterable[str]) -> bool:
    """Whether a program has the form that passes giving `have` promise. Raises TVMError naming the first culprit.

    have: any of no_init, opaque_blocks, no_match_buffers, no_blocks, flat_buffers, vectors_lowered.
    """
    funcs = {"main": obj} if isinstance(obj, PrimFunc) else {g.name_hint: f for g, f in obj.functions.items()}
    for name, func in funcs.items():
        if isinstance(func, PrimFunc):
            _Stage(set(have), name).visit(func.body)
    return True
