"""Code generators have a rule for every operation that the common tables name."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm.expressions.calls import CallEmitter
from tilewright.codegen.llvm.functions.function import FunctionEmitter
from tilewright.codegen.llvm.functions.module import ModuleEmitter
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS, THREADS, Operations
from tilewright.codegen.source.c.function import FunctionEmitter as C
from tilewright.codegen.source.device.kernel import KernelEmitter
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


def test_devices() -> None:
    for table in (EXPRESSIONS, STATEMENTS):
        assert set(table.names) == set(table.rules(KernelEmitter))
    # What belongs to functions of the host: calls of packed functions, tensors on the stack, addresses as numbers.
    host = "struct_get struct_set stack_alloca make_shape make_array call_packed call_trace call_lowered throw byte_offset copysign"
    missing = {INTRINSICS.names[name] for name in set(INTRINSICS.names) - set(INTRINSICS.rules(KernelEmitter))}
    assert missing == set(host.split())
    assert set(THREADS.names) == set(THREADS.rules(KernelEmitter))


def test_intrinsics() -> None:
    # In C copysign is a function of floats like others. Additions that threads share memory for are those of GPUs.
    assert set(INTRINSICS.names) - set(INTRINSICS.rules(C)) == {"copysign", "atomic_add"}
    assert all(f"tir.{name}" in Op._known for name in INTRINSICS.names)
