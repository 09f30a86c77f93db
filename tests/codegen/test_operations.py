"""Code generators have a rule for every operation that the common tables name."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm.expressions.calls import CallEmitter
from tilewright.codegen.llvm.functions.function import FunctionEmitter
from tilewright.codegen.llvm.functions.module import ModuleEmitter
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS, Operations
from tilewright.codegen.source.c.function import FunctionEmitter as C
from tilewright.ir import IRModule, Op
from tilewright.target import Target


@pytest.mark.parametrize("table", [EXPRESSIONS, STATEMENTS])
def test_c(table: Operations[type]) -> None:
    assert set(table.names) == set(table.rules(C))


def test_llvm() -> None:
    emitter = FunctionEmitter(ModuleEmitter(IRModule({}), Target("llvm")), "f")
    calls = next(part for part in emitter.expressions.parts if isinstance(part, CallEmitter))
    for table, parts in (
        (EXPRESSIONS, emitter.expressions.parts),
        (STATEMENTS, [emitter.statements, emitter.memory]),
        (INTRINSICS, calls.parts),
    ):
        assert not [name for key, name in table.names.items() if table.rule(key, parts) is None]


def test_intrinsics() -> None:
    # In C copysign is a function of floats like others.
    assert set(INTRINSICS.names) - set(INTRINSICS.rules(C)) == {"copysign"}
    assert all(f"tir.{name}" in Op._known for name in INTRINSICS.names)
