"""The rules of well-formed functions, and the message of each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tir_transform.thread.test_threads import module
from tilewright import tir
from tilewright.ir import IRModule
from tilewright.script import from_source
from tilewright.script import tir as T
from tilewright.tir.analysis import verify_well_formed

A = tir.decl_buffer((64,), "int32", "A")
I = tir.Var("i", "int32")


def store(index: Any, value: Any = 1) -> Any:
    return tir.BufferStore(A, value, [index])


def axis(tag: str, name: str) -> tir.IterVar:
    return tir.IterVar((0, 8), tir.Var(name, "int32"), tir.IterVar.ThreadIndex, tag)


def block(value: Any, body: Any) -> Any:
    v = tir.IterVar((0, 8), tir.Var("v", "int32"), tir.IterVar.DataPar)
    return tir.BlockRealize([value], tir.const(True, "bool"), tir.Block([v], [], [], "b", body(v.var)))


def twice() -> Any:
    one, two = axis("threadIdx.x", "tx"), axis("threadIdx.x", "ty")
    return tir.AttrStmt(one, "thread_extent", 8, tir.AttrStmt(two, "thread_extent", 8, store(two.var)))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            lambda: store(I),
            "main is not well-formed: i is used where it is not defined; define it around all of its uses",
        ),
        (
            lambda: tir.stmt_seq(tir.For(I, 0, 8, 0, store(I)), store(I)),
            "i is used where it is not defined",
        ),
        (
            lambda: tir.For(I, 0, 8, 0, tir.For(I, 0, 8, 0, store(I))),
            "i is defined inside of its own scope; give the inner one a variable of its own",
        ),
        (
            lambda: tir.For(I, 0, 8, 0, tir.LetStmt(I, tir.const(1, "int32"), store(I))),
            "i is defined inside of its own scope",
        ),
        (
            lambda: tir.For(I, 0, 8, 0, block(I, lambda v: store(v + I))),
            "block b uses the loop variable i, which is defined outside of it; a block uses its own axes only",
        ),
        (twice, "threadIdx.x is bound to ty where it is bound to tx already; use one variable"),
    ],
)
def test_rules(body: Any, text: str) -> None:
    mod = module(body(), A)
    with pytest.raises(ValueError) as error:
        verify_well_formed(mod)
    assert text in str(error.value)
    assert verify_well_formed(mod, assert_mode=False) is False
    assert verify_well_formed(mod["main"], assert_mode=False) is False


def test_what_is_allowed() -> None:
    loops = tir.stmt_seq(*[tir.For(I, 0, 8, 0, store(I)) for _ in range(2)])
    assert verify_well_formed(module(loops, A)), "one variable for two loops, one after another"
    assert verify_well_formed(module(tir.For(I, 0, 8, 0, block(I, store)), A))
    opaque = tir.BlockRealize([], tir.const(True, "bool"), tir.Block([], [], [], "o", store(I)))
    assert verify_well_formed(module(tir.For(I, 0, 8, 0, opaque), A)), "a block without axes is transparent"


def test_all_that_is_wrong_is_told_with_its_lines() -> None:
    text = """\
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            A[v + i] = 1
"""
    func = from_source(text, extra_vars={"T": T}, check_well_formed=False)
    with pytest.raises(ValueError) as error:
        verify_well_formed(IRModule({"f": func}))
    assert "f is not well-formed: block b uses the loop variable i" in str(error.value)
    assert 'with T.block("b"):' in str(error.value) and "for i in range(8):" in str(error.value)
