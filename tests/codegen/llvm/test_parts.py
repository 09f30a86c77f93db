"""The parts of LLVM's emitter, each by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.module import ModuleEmitter
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.memory.addresses import Addresses
from tilewright.codegen.llvm.memory.affine import AffineForms
from tilewright.ir import DataType, IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Ramp, Var, decl_buffer


@pytest.fixture
def frame() -> Frame:
    return Frame(ModuleEmitter(IRModule({}), Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64")), "f")


def lines(frame: Frame) -> list[str]:
    return [line.strip() for line in frame.b.text()[1:]]


def test_operands(frame: Frame) -> None:
    operands = Operands(frame)
    int8, int32, float32 = DataType("int8"), DataType("int32"), DataType("float32")
    assert operands.convert("300", int32, int8) == "44"
    assert operands.convert("%a", int8, int32) == operands.convert("%a", int8, int32) == "%v1"
    assert operands.convert("%x", float32, int8) == "%v2"
    assert lines(frame) == ["%v1 = sext i8 %a to i32", "%v2 = call i8 @llvm.fptosi.sat.i8.f32(float %x)"]


def test_variables_of_a_part(frame: Frame) -> None:
    x, n, data, unknown = Var("x", "float32"), Var("n"), Var("data", "handle"), Var("u")
    around = Variables(frame, Facts(), None)
    around.values[x], around.pointers[data] = "%p0", ("%p1", 64)
    around.fix(n, -3)
    part = Variables(Frame(frame.module, "part"), around.facts, around)
    assert part.on_var(x) == part.on_var(x) == "%c0" and part.on_var(n) == "-3"
    assert part.pointer(data) == ("%c1", 64)
    assert part.params == ["float %c0", "ptr noalias align 64 %c1"]
    assert [outer for _, outer, _ in part.captures] == ["%p0", "%p1"]
    with pytest.raises(TVMError, match="variable u is used but never defined"):
        part.on_var(unknown)


def test_addresses(frame: Frame) -> None:
    facts = Facts()
    variables = Variables(frame, facts, None)
    expressions = ExprEmitter(frame, variables, Operands(frame))
    addresses = Addresses(frame, variables, expressions.expr)
    a = decl_buffer((8, 16), "float32", "a")
    i, j = Var("i"), Var("j")
    variables.pointers[a.data] = ("%p0", 64)
    variables.count(i, "%i")
    variables.fix(j, 3)
    form: Any = facts.affine.offset(a, (i, j * 2 + 1))
    assert addresses.address(a.data, form, 4) == ("%v2", 28, 4)
    assert lines(frame) == ["%v1 = mul i64 %i, 64", "%v2 = getelementptr i8, ptr %p0, i64 %v1"]


def test_offsets_with_symbolic_strides() -> None:
    n, i = Var("n"), Var("i")
    a = decl_buffer((8, n), "float32", "a", strides=[n, 1])
    found = AffineForms().offset(a, (i, Ramp(i, 2, 4)))
    assert found is not None and (found.const, found.stride, found.lanes) == (0, 2, 4)
    assert len(found.terms) == 2
