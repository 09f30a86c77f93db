"""Relay as Python statements: they compute what the program does."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.testing.py_converter import run_as_python, to_python
from tilewright.support.errors import TVMError

MODULE = """
type List[A] { Cons(A, List[A]), Nil }
def @sum(%l: List[int32]) -> int32 {
  match (%l) { Cons(%h, Cons(%g, %t)) => { %h + %g + @sum(%t) }, Cons(%last, Nil) => { %last }, Nil => { 0 } }
}
def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Cons(%h, %t) => { Cons(%f(%h), @map(%f, %t)) }, Nil => { Nil() } }
}
def @count(%n: int32) -> int32 {
  let %r = ref(0);
  let %loop = fn (%k: int32) -> int32 {
    if (%k == 0) { ref_read(%r) } else { ref_write(%r, ref_read(%r) + %k); %loop(%k - 1) }
  };
  %loop(%n)
}
def @only(%l: List[int32]) -> int32 { match? (%l) { Cons(%h, Nil) => { %h } } }
"""
MOD: Any = relay.fromtext(MODULE)


def python(text: str) -> Any:
    return run_as_python(relay.parse_expr(text, init_module=MOD), MOD)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + 2 * 3", 7),
        ("@count(4)", 10),
        ("@sum(Cons(1, Cons(2, Cons(3, Nil()))))", 6),
        ("let %k = 5; @sum(@map(fn (%x) { %x * %k }, Cons(1, Cons(2, Nil()))))", 15),
        ("let %class = 4; let %_result = %class + 1; %_result", 5),
        ("(1, (2, 3)).1.0", 2),
        ("if (1 < 2) { let %y = 10; %y } else { 20 }", 10),
        ("match ((1, 2)) { (%a, %b) => { %a - %b } }", -1),
    ],
)
def test_values(text: str, want: int) -> None:
    assert int(python(text).numpy()) == want


def test_functions_take_and_give_tensors() -> None:
    f = python(
        "fn (%x: Tensor[(2, 3), float32]) { %0 = split(%x, indices_or_sections=3, axis=1); (%0.0 + %0.2, tanh(%x)) }"
    )
    x = np.arange(6, dtype="float32").reshape(2, 3)
    added, curved = f(tvm.nd.array(x))
    np.testing.assert_allclose(added.numpy(), x[:, :1] + x[:, 2:])
    np.testing.assert_allclose(curved.numpy(), np.tanh(x), rtol=1e-5)


def test_branches_are_not_taken_ahead() -> None:
    x, flag = relay.var("x", "int32"), relay.var("flag", "bool")
    shared = relay.Call(MOD.get_global_var("only"), [MOD.get_type("List")[2]()])
    e = relay.Function([x, flag], relay.If(flag, shared + x, x))
    assert int(run_as_python(e, MOD)(tvm.nd.array(np.int32(3)), tvm.nd.array(np.bool_(False))).numpy()) == 3
    with pytest.raises(TVMError, match="no clause of the match fits the value Nil"):
        run_as_python(e, MOD)(tvm.nd.array(np.int32(3)), tvm.nd.array(np.bool_(True)))


def test_the_tree_is_python() -> None:
    text = ast.unparse(to_python(relay.parse_expr("@count(4)", init_module=MOD), MOD))
    assert "def loop_(k_)" in text and ".value = " in text


def test_data_and_free_variables() -> None:
    made = python("Cons(1, Nil())")
    assert made.constructor.name_hint == "Cons" and made.fields[1].fields == ()
    with pytest.raises(TVMError, match="to_python: the variable %loose is free; bind it first"):
        to_python(relay.var("loose", "int32"))


def test_long_programs() -> None:
    e: relay.Expr = relay.const(0)
    for _ in range(2000):
        e = e + relay.const(1)
    assert int(run_as_python(e).numpy()) == 2000
