"""The language beyond dataflow: data types, matches, closures, recursion, references; typed and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import run_both
from tilewright import relay
from tilewright.node import load_json, save_json, structural_equal
from tilewright.relay.evaluation.interpreter import ConstructorValue, Interpreter, RefValue
from tilewright.relay.transform import infer_types
from tilewright.support.errors import DiagnosticError, TVMError

RNG = np.random.default_rng(0)


def prelude(text: str) -> relay.IRModule:
    """A program that may use the prelude."""
    base = relay.IRModule()
    relay.Prelude(base)
    return relay.parse(text, "a.relay", init_module=base)


def run(mod: relay.IRModule, *args: Any) -> Any:
    """The result of main in every executor, tensors as arrays, lists as Python lists."""
    return plain(run_both(mod, *args))


def plain(value: Any) -> Any:
    if isinstance(value, ConstructorValue):
        if value.constructor.name_hint in ("Cons", "Nil"):
            out = []
            while value.fields:
                out.append(plain(value.fields[0]))
                value = value.fields[1]
            return out
        return (value.constructor.name_hint, *[plain(f) for f in value.fields])
    if isinstance(value, list):
        return tuple([plain(v) for v in value])
    return value.numpy() if hasattr(value, "numpy") else value


def rows(mod: relay.IRModule, arrays: list[Any]) -> ConstructorValue:
    """A relay list of arrays."""
    p = relay.Prelude(mod)
    cons, nil = p.get_ctor("List", "Cons"), p.get_ctor("List", "Nil")
    value = ConstructorValue(nil.tag, [], nil)
    for a in reversed(arrays):
        value = ConstructorValue(cons.tag, [np.asarray(a), value], cons)
    return value


def test_map_and_folds_over_tensors() -> None:
    mod = prelude("""
    def @main(%l: List[Tensor[(3), float32]]) {
      let %m = @map(fn (%x) { tanh(%x) }, %l);
      let %add = fn (%a, %b) { %a + %b };
      (%m, @foldl(%add, zeros(shape=[3]), %m), @foldr(fn (%x, %s) { %x - %s }, zeros(shape=[3]), %l))
    }""")
    data = [RNG.standard_normal(3).astype("float32") for _ in range(5)]
    mapped, left, right = run(mod, rows(mod, data))
    np.testing.assert_allclose(mapped, np.tanh(data), rtol=1e-6)
    np.testing.assert_allclose(left, np.tanh(data).sum(0), rtol=1e-5)
    want = np.zeros(3, "float32")
    for x in reversed(data):
        want = x - want
    np.testing.assert_allclose(right, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("@length(%l)", 4),
        ("@rev(%l)", [4, 3, 2, 1]),
        ("@sum(%l)", 10),
        ("@hd(@tl(%l))", 2),
        ("@nth(%l, 2)", 3),
        ("@update(%l, 1, 9)", [1, 9, 3, 4]),
        ("@filter(fn (%x) { %x > 2 }, %l)", [3, 4]),
        ("@concat(%l, @rev(%l))", [1, 2, 3, 4, 4, 3, 2, 1]),
        ("@zip(%l, @tl(%l))", [(1, 2), (2, 3), (3, 4)]),
        ("@foldr1(fn (%a, %b) { %a - %b }, %l)", -2),
        ("@map_accuml(fn (%s, %x) { (%s + %x, %s * %x) }, 0, %l)", (10, [0, 2, 9, 24])),
        ("@map_accumr(fn (%s, %x) { (%s + %x, %s * %x) }, 0, %l)", (10, [9, 14, 12, 0])),
        ("@unfoldr(fn (%n) { if (%n > 3) { None() } else { Some((%n + 1, %n * %n)) } }, 0)", [0, 1, 4, 9]),
        ("@unfoldl(fn (%n) { if (%n > 3) { None() } else { Some((%n + 1, %n * %n)) } }, 0)", [9, 4, 1, 0]),
        ("@iterate(fn (%x) { %x * 3 }, 4)(@hd(%l))", 81),
        ("@compose(fn (%x) { %x + 1 }, fn (%x) { %x * 2 })(5)", 11),
        ("@map(@id, %l)", [1, 2, 3, 4]),
    ],
)
def test_prelude_functions(call: str, want: Any) -> None:
    mod = prelude(f"def @main(%l: List[int32]) {{ {call} }}")
    got = run(mod, rows(mod, [np.int32(i) for i in (1, 2, 3, 4)]))
    assert as_ints(got) == want


def as_ints(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([as_ints(v) for v in value])
    return int(value)


def test_trees() -> None:
    mod = prelude("""
    def @sum_tree(%t: Tree[int32]) -> int32 {
      match (%t) { Rose(%x, %c) => %x + @sum(@map(@sum_tree, %c)) }
    }
    def @main() {
      let %leaf = fn (%x: int32) { Rose(%x, Nil()) };
      let %t = Rose(1, Cons(%leaf(2), Cons(Rose(3, Cons(%leaf(4), Nil())), Nil())));
      (@sum_tree(%t), @size(%t), @sum_tree(@tmap(fn (%x) { %x * %x }, %t)))
    }""")
    assert as_ints(run(mod)) == (10, 4, 30)


def test_binary_tree_of_tensors() -> None:
    mod = relay.parse("""
    type Bin[A] { Leaf(A), Node(Bin[A], Bin[A]), }
    def @fold(%t: Bin[Tensor[(2, 2), float32]]) -> Tensor[(2, 2), float32] {
      match (%t) { Leaf(%x) => %x, Node(%l, %r) => nn.matmul(@fold(%l), @fold(%r)) }
    }
    def @main(%a: Tensor[(2, 2), float32], %b: Tensor[(2, 2), float32]) {
      @fold(Node(Node(Leaf(%a), Leaf(%b)), Leaf(%a)))
    }""")
    a, b = (RNG.standard_normal((2, 2)).astype("float32") for _ in range(2))
    np.testing.assert_allclose(run(mod, a, b), a @ b @ a, rtol=1e-4)


def test_recursion_through_a_global_and_a_let() -> None:
    mod = relay.parse("""
    def @fact(%n: int64) -> int64 { if (%n == 0i64) { 1i64 } else { %n * @fact(%n - 1i64) } }
    def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
    def @main(%n: int64) {
      let %fib = fn (%k: int32) { if (%k < 2) { %k } else { %fib(%k - 1) + %fib(%k - 2) } };
      (@fact(%n), %fib(12), @even(10), @odd(10))
    }""")
    assert as_ints(run(mod, np.int64(20))) == (2432902008176640000, 144, 1, 0)
    assert repr(mod["main"].checked_type) == "fn (int64) -> (int64, int32, bool, bool)"


def test_recursion_without_declared_result_is_inferred() -> None:
    mod = relay.parse("def @f(%n: int32) { if (%n == 0) { 1f } else { 2f * @f(%n - 1) } }\ndef @main() { @f(5) }")
    assert float(run(mod)) == 32.0
    assert repr(mod["f"].checked_type) == "fn (int32) -> float32"


def test_closures_capture() -> None:
    mod = relay.parse("""
    def @adder(%a: Tensor[(2), float32]) -> fn (Tensor[(2), float32]) -> Tensor[(2), float32] {
      fn (%x: Tensor[(2), float32]) { %x + %a }
    }
    def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) {
      let %f = @adder(%x);
      let %g = @adder(%y);
      let %x1 = %f(%f(%y));
      (%x1, %g(%x1), %f(%g(%x)))
    }""")
    x, y = np.array([1, 2], "float32"), np.array([10, 20], "float32")
    for got, want in zip(run(mod, x, y), (2 * x + y, 2 * x + 2 * y, 2 * x + y), strict=True):
        np.testing.assert_array_equal(got, want)


def test_references() -> None:
    mod = relay.parse("""
    def @main(%x: Tensor[(2), float32]) {
      let %r = ref(%x);
      let %count = ref(0);
      let %step = fn (%k: int32) -> () {
        if (%k == 0) { () } else {
          let %v = ref_read(%r);
          ref_write(%r, %v * %x);
          ref_write(%count, ref_read(%count) + 1);
          %step(%k - 1)
        }
      };
      %step(3);
      (ref_read(%r), ref_read(%count))
    }""")
    value, count = run(mod, np.array([2, 3], "float32"))
    np.testing.assert_array_equal(value, [16, 81])
    assert int(count) == 3


def test_polymorphic_functions_keep_their_parameters() -> None:
    mod = prelude("""
    def @pair[A, B](%a: A, %b: B) -> (A, B) { (%a, %b) }
    def @main(%x: float32) { (@pair(%x, 1), @pair(True, @pair(%x, 2i64)), @pair[int32, bool](1, False)) }""")
    assert repr(mod["main"].checked_type.ret_type) == "((float32, int32), (bool, (float32, int64)), (int32, bool))"


def test_annotations_may_be_left_open() -> None:
    f = relay.parse_expr("fn (%f: fn (float32) -> ?, %x) -> float32 { %f(%x) }")
    assert repr(infer_types(f)) == "fn (fn (float32) -> float32, float32) -> float32"


def test_inference_waits_for_what_later_uses_say() -> None:
    f = relay.parse_expr(
        "fn (%x: Tensor[(2, 3), float32]) { let %g = fn (%a, %p) { (%p.1 * %a, %p.0) }; %g(%x, (1, %x)).0 }"
    )
    assert repr(infer_types(f)) == "fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]"


def test_a_branch_may_be_of_unknown_size() -> None:
    text = "fn (%c: bool, %x: Tensor[(?, 2), float32], %y: Tensor[(3, 2), float32]) { if (%c) { %x } else { %y } }"
    assert repr(infer_types(relay.parse_expr(text))).endswith("-> Tensor[(?, 2), float32]")


def test_inference_is_linear_with_lets_and_closures() -> None:
    lines = [f"let %f{i + 1} = fn (%x{i}) {{ tanh(%f{i}(%x{i})) }};" for i in range(400)]
    text = "fn (%f0: fn (float32) -> float32) { " + " ".join(lines) + " %f400(1f) }"
    assert repr(infer_types(relay.parse_expr(text))) == "fn (fn (float32) -> float32) -> float32"


def test_changed_lets_are_inferred_anew() -> None:
    x, t = relay.var("x", shape=(2,)), relay.var("t")
    body = relay.tanh(t)
    infer_types(relay.Let(t, x, body))
    y = relay.var("y", shape=(5,))
    assert repr(infer_types(relay.Let(t, y, body))) == "Tensor[(5,), float32]"


def error(text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        prelude(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "Cons(1, 2)",
            "argument 1 of the constructor Cons must be List[int32], but is int32\n    Cons(1, 2)\n    ^^^^^^^^^^",
        ),
        ("Cons(1)", "the constructor Cons of 2 arguments is called with 1\n    Cons(1)\n    ^^^^^^^"),
        (
            "match (%x) { Nil => 1 }",
            "a pattern of Nil, which makes List, is matched with int32\n"
            "    match (%x) { Nil => 1 }\n    ^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "match (Some(%x)) { Some(%a, %b) => 1 }",
            "Some has 1 fields, but its pattern has 2\n"
            "    match (Some(%x)) { Some(%a, %b) => 1 }\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "match (Some(%x)) { Some(%a) => 1, None => 1f }",
            "the clauses of a match must have one type, but are int32 and float32\n"
            "    match (Some(%x)) { Some(%a) => 1, None => 1f }\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "match (%x) { (%a, %b) => %a }",
            "a tuple pattern of 2 elements is matched with int32\n"
            "    match (%x) { (%a, %b) => %a }\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        ("ref_read(%x)", "a reference is read or written, but this is int32\n    ref_read(%x)\n    ^^^^^^^^^^^^"),
        (
            "ref_write(ref(%x), 1f)",
            "float32 is written to a reference of type ref(int32)\n    ref_write(ref(%x), 1f)\n    ^^^^^^^^^^^^^^^^^^^^^^",
        ),
        ("%x(1)", "int32 is called, but it is not a function\n    %x(1)\n    ^^^^^"),
        (
            "@map(%x, Nil())",
            "argument 0 of the called function must be fn (?) -> ?, but is int32\n"
            "    @map(%x, Nil())\n    ^^^^^^^^^^^^^^^",
        ),
        (
            "let %n = Nil(); 1",
            "the type argument A is not known here. Annotate the variable that this is bound to\n"
            "    let %n = Nil(); 1\n             ^^^^^",
        ),
        (
            "let %f = fn (%y) { %y }; 1",
            "the type of %y is not known. Give relay.var a shape and dtype, or a type annotation\n"
            "    let %f = fn (%y) { %y }; 1\n                 ^^",
        ),
        (
            "let %f = fn (%y) { %y(%y) }; %f(1)",
            None,
        ),
        (
            "let %y: float32 = %x; %y",
            "%y is declared float32, but its value is int32\n    let %y: float32 = %x; %y\n    ^^^^^^^^^^^^^^^^^^^^",
        ),
    ],
)
def test_type_errors(body: str, message: str | None) -> None:
    text = error(f"def @main(%x: int32) {{\n  {body}\n}}")
    if message is None:
        assert text.startswith("a.relay:2:")
    else:
        place = text.partition(": ")[0]
        assert place.startswith("a.relay:2:") and text == f"{place}: {message}"


def test_unmatched_value() -> None:
    mod = prelude("def @main(%l: List[int32]) { match? (%l) { Cons(%x, Cons(_, _)) => %x } }")
    assert int(run(mod, rows(mod, [np.int32(5), np.int32(6)]))) == 5
    with pytest.raises(TVMError) as caught:
        run(mod, rows(mod, [np.int32(5)]))
    assert str(caught.value) == (
        "a.relay:1:30: no clause of the match fits the value Cons(array(5, dtype=int32), Nil); its clauses are"
        " Cons(%x, Cons(_, _)). Add a clause `_ => ...` for the rest"
    )


def test_recursion_without_base_case() -> None:
    mod = relay.parse("def @main(%n: int32) -> int32 { @main(%n + 1) }")
    with pytest.raises(TVMError) as caught:
        run(mod, np.int32(0))
    assert str(caught.value) == (
        "calls of relay functions nest deeper than 10000; the last one is of @main. Does its recursion have a base case?"
    )
    function: Any = mod["main"]
    shallow = Interpreter(mod, {function.params[0]: np.int32(0)}, depth_limit=10)
    with pytest.raises(TVMError, match="nest deeper than 10;"):
        shallow.evaluate(function.body)


def test_long_lists() -> None:
    mod = prelude(
        "def @main(%n: int32) { @length(@unfoldr(fn (%k) { if (%k > 3000) { None() } else { Some((%k + 1, %k)) } }, %n)) }"
    )
    assert int(run(mod, np.int32(1))) == 3000


def test_expressions_without_a_function() -> None:
    x = relay.var("x", shape=(2,))
    run_expr = relay.create_executor("debug").evaluate
    value = run_expr(relay.RefCreate(x + x), {x: np.ones(2, "float32")})
    assert isinstance(value, RefValue)
    np.testing.assert_array_equal(value.value, [2, 2])


def test_json_of_the_whole_language() -> None:
    mod = prelude("def @main(%r: ref(int32)) { ref_write(%r, 1 + ref_read(%r)); @hd(Cons(1, Nil())) }")
    back = load_json(save_json(mod))
    assert structural_equal(back, mod)
    assert int(run(back, RefValue(np.int32(1)))) == 1
    assert mod.astext() == back.astext()


def test_visitors_and_mutators_see_every_node() -> None:
    mod = prelude("""def @main(%l: List[int32]) {
      let %r = ref(0);
      ref_write(%r, 2);
      match (%l) { Cons(%x, _) => %x + ref_read(%r), Nil => 0 }
    }""")
    f = mod["main"]
    assert relay.ExprMutator().visit(f) is f
    seen: list[str] = []

    class Names(relay.ExprVisitor):
        def visit_match(self, m: relay.Match) -> None:
            seen.append("match")
            super().visit_match(m)

        def visit_var(self, var: relay.Var) -> None:
            seen.append(var.name_hint)

        def visit_ref_write(self, r: relay.RefWrite) -> None:
            seen.append("write")
            super().visit_ref_write(r)

    Names().visit(f)
    assert seen == ["l", "r", "_", "write", "match", "x"]

    class Rename(relay.ExprMutator):
        def visit_var(self, var: relay.Var) -> relay.Expr:
            return relay.Var(var.name_hint + "_new", var.type_annotation)

    renamed = Rename().visit(f)
    assert structural_equal(renamed, f)
    assert {v.name_hint for v in relay.analysis.all_vars(renamed)} == {"l_new", "r_new", "__new", "x_new"}


def test_scope_builder() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", "bool")
    sb = relay.ScopeBuilder()
    y = sb.let("y", relay.exp(x))
    with sb.if_scope(c):
        z = sb.let(("z", relay.TensorType((2,))), y + y)
        sb.ret(z)
    with sb.else_scope():
        sb.ret(y)
    want = relay.parse_expr(
        "free_var %c: bool; free_var %x: Tensor[(2), float32];"
        "let %y = exp(%x); if (%c) { let %z: Tensor[(2), float32] = %y + %y; %z } else { %y }"
    )
    assert structural_equal(relay.Function([x, c], sb.get()), relay.Function(relay.analysis.free_vars(want), want))


def test_scope_builder_refuses_what_makes_no_expression() -> None:
    with pytest.raises(ValueError, match=r"a scope must end with ret\(expression\)"):
        relay.ScopeBuilder().get()
    sb = relay.ScopeBuilder()
    sb.ret(relay.const(1))
    with pytest.raises(ValueError, match="this scope has its result already"):
        sb.let("y", relay.const(2))
    with pytest.raises(ValueError, match="else_scope must come right after an if_scope"), sb.else_scope():
        pass


def test_prelude_names() -> None:
    p = relay.Prelude()
    assert p.map == relay.GlobalVar("map")
    assert [c.name_hint for c in p.get_type("List")[1:]] == ["Cons", "Nil"]
    with pytest.raises(ValueError, match="List has no constructor 'Con'; it has Cons, Nil"):
        p.get_ctor("List", "Con")
    with pytest.raises(AttributeError, match="the prelude has no function 'mapp'"):
        p.mapp  # noqa: B018


def test_values_of_data_types_are_made_of_tag_fields_and_constructor() -> None:
    p = relay.Prelude(relay.IRModule())
    cons, nil = p.get_ctor("List", "Cons"), p.get_ctor("List", "Nil")
    value = ConstructorValue(cons.tag, [np.float32(1), ConstructorValue(nil.tag, [], nil)], cons)
    assert value.tag == cons.tag and value.constructor is cons and len(value.fields) == 2
    with pytest.raises(ValueError, match=f"the tag of Nil is {nil.tag}, but {cons.tag} was given"):
        ConstructorValue(cons.tag, [], nil)
