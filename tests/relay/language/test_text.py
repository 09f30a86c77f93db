"""Relay's text format: what is printed parses to the same program, and what does not parse says where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.relay.random_graphs import Generator
from tests.relay_op.test_cards import make_input, samples
from tilewright import relay, tir
from tilewright.node import assert_structural_equal
from tilewright.relay.frontend.onnx import from_onnx
from tilewright.relay.parser.lexer import Source
from tilewright.relay.parser.parser import parse_module_text
from tilewright.relay.printer import text_and_metadata
from tilewright.support.errors import DiagnosticError

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import models  # type: ignore[import-not-found]


def check(mod: relay.IRModule) -> relay.IRModule:
    """Print, parse, compare; the parsed module prints the same text."""
    text = mod.astext()
    back = relay.parse(text)
    assert_structural_equal(mod, back)
    assert relay.analysis.alpha_equal(mod, back)
    assert relay.parse(back.astext()).astext() == back.astext()
    return back


@pytest.mark.parametrize("card, inputs, attrs", list(samples()))
def test_cards(card: Any, inputs: Any, attrs: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [make_input(s, rng) for s in inputs]
    params: list[relay.Var] = []

    def leaf(a: np.ndarray) -> relay.Expr:
        # Where a value decides the shape, it must be a constant.
        if a.dtype.kind in "iu" or a.ndim == 0:
            return relay.const(a)
        params.append(relay.var("p", shape=a.shape, dtype=a.dtype.name))
        return params[-1]

    call = card.call([[leaf(a) for a in x] if isinstance(x, tuple) else leaf(x) for x in arrays], attrs)
    call = call if isinstance(call, relay.Expr) else call.tuple_value
    check(relay.IRModule.from_expr(relay.Function(params, call)))


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int) -> None:
    mod = Generator(seed, 20).module()
    check(mod)
    check(relay.transform.InferType()(mod))


@pytest.mark.parametrize("name", [n for n in models.ALL if n not in models.FULL])
def test_imported_models(name: str) -> None:
    mod, _ = from_onnx(models.make(name), shape=models.shapes(name))
    text, meta = text_and_metadata(mod)
    assert_structural_equal(mod, relay.parse(text, init_meta_table=meta))
    if name in ("bert_small", "resnet_small"):
        check(mod)


def test_prelude() -> None:
    mod = relay.IRModule()
    relay.Prelude(mod)
    check(mod)


def test_fused_programs() -> None:
    mod = relay.transform.FuseOps()(relay.transform.SimplifyExpr()(Generator(3, 20).module()))
    check(mod)


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.1),
        np.float32(-1e-30),
        np.float32(-0.0),
        np.float32(np.nan),
        np.float32(np.inf),
        np.float64(1 / 3),
        np.float16(2.5),
        np.int32(-7),
        np.int64(-(2**62)),
        np.int8(-128),
        np.uint8(255),
        np.uint64(2**64 - 1),
        np.bool_(True),
        ml_dtypes.bfloat16(1.5),
        np.arange(6).reshape(2, 3),
        np.zeros((0, 3), "float16"),
    ],
)
def test_constants(value: Any) -> None:
    f = relay.Function([], relay.const(np.asarray(value)))
    check(relay.IRModule.from_expr(f))
    assert_structural_equal(relay.parse_expr(f.astext()), f)


def test_names_that_are_no_identifiers() -> None:
    a, b, c = relay.var("input:0", shape=(2,)), relay.var("1", shape=(2,)), relay.var("x.1", shape=(2,))
    f = relay.Function([a, b, c], relay.Tuple([a, b, c]))
    back = check(relay.IRModule({"torch::main": f}))
    assert [p.name_hint for p in back["torch::main"].params] == ["input:0", "1", "x.1"]


def test_symbolic_dimensions() -> None:
    n, m, k = tir.Var("n", "int32"), tir.SizeVar("batch size", "int32"), tir.Var("n", "int64")
    x = relay.var("x", shape=(n, m, 3, tir.Any()))
    y = relay.var("y", shape=(k, n * 2 + 1, tir.Min(m, n), tir.FloorDiv(n, tir.IntImm("int32", 2))))
    mod = relay.IRModule.from_expr(relay.Function([x, y], relay.Tuple([x, y])))
    assert (
        "(%x: Tensor[(n, batch_size: size, 3, ?), float32], %y: Tensor[(n1: int64, ((n * 2) + 1),"
        " min(batch_size, n), floordiv(n, 2)), float32])" in mod.astext()
    )
    check(mod)
    check(relay.transform.InferType()(mod))


def test_one_unknown_type_in_several_places_has_a_number() -> None:
    hole = relay.IncompleteType()
    x, y = relay.Var("x", hole), relay.Var("y", relay.TupleType([hole, relay.IncompleteType()]))
    mod = relay.IRModule({relay.GlobalVar("main"): relay.Function([x, y], relay.Tuple([x, y]))})
    assert "def @main(%x: ?0, %y: (?0, ?))" in mod.astext()
    back: Any = parse_module_text(Source("text", mod.astext()), None, None)["main"]
    assert back.params[0].type_annotation is back.params[1].type_annotation.fields[0]
    assert back.params[0].type_annotation is not back.params[1].type_annotation.fields[1]


def test_type_variables_belong_to_the_function_that_binds_them() -> None:
    a = relay.TypeVar("A")
    f, g = (relay.Function([x := relay.Var("x", a)], x, a, [a]) for _ in range(2))
    mod = check(relay.IRModule({relay.GlobalVar("f"): f, relay.GlobalVar("g"): g}))
    assert mod["f"].type_params[0] is not mod["g"].type_params[0]
    check(relay.fromtext("def @id[A](%x: A) -> A { %x } def @main() { @id }"))


def test_sharing_survives() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", "bool")
    e, t = relay.exp(x), relay.var("t")
    p = relay.var("p", shape=(2,))
    f = relay.Function([p], relay.exp(p))
    body = relay.Tuple([relay.If(c, e + e, relay.tanh(e)), relay.Let(t, e, t * t), f, f(e), relay.exp(x)])
    check(relay.IRModule.from_expr(relay.Function([x, c], body)))


def test_attributes_of_functions_and_modules() -> None:
    x = relay.var("x", shape=(2,))
    inner = relay.Function([x], relay.exp(x), attrs={"Primitive": 1, "Composite": 'a "b"', "sizes": (1, 2.5, True)})
    y = relay.var("y", shape=(2,))
    mod = relay.IRModule.from_expr(relay.Function([y], inner(y))).with_attr("entry", {"main": (1, 2)})
    check(mod)


def test_operators_are_written_as_in_python() -> None:
    got = relay.parse_expr("free_var %a: int32; free_var %b: int32; -%a + %b * 2 - (%a - %b) < %a / 3")
    want = relay.parse_expr(
        "free_var %a: int32; free_var %b: int32;"
        " less(subtract(add(negative(%a), multiply(%b, 2)), subtract(%a, %b)), divide(%a, 3))"
    )
    assert relay.astext(got) == relay.astext(want)


def test_text_of_the_whole_language() -> None:
    text = """#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @main[A](%f: fn (A) -> A, %l: List[A], %r: ref(int32)) -> List[A] {
  let %n = ref_read(%r);
  let %w = ref_write(%r, 3);
  match? (%l) {
    Cons(%x, Cons(_, %t)) => {
      %0 = %f(%x);
      Cons(%0, %t)
    },
    %other => {
      %other
    },
  }
}"""
    mod = relay.parse(text)
    assert relay.astext(mod, show_meta_data=False, types=False) == text
    check(mod)


def test_a_long_chain_of_lets_and_calls() -> None:
    lines = [f"  let %v{i + 1} = tanh(%v{i});" for i in range(3000)]
    text = "\n".join(["def @main(%v0: Tensor[(2), float32]) {", *lines, "  %v3000", "}"])
    assert relay.astext(relay.parse(text)).count("tanh") == 3000


def error(text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        relay.parse(text, "a.relay")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def @main(%x: int32) {\n  add(%x, %y)\n}",
            "a.relay:2:11: the variable %y is not defined here\n    add(%x, %y)\n            ^^",
        ),
        (
            "def @main(%x: int32) {\n  let %y = );\n}",
            "a.relay:2:12: an expression is expected, but `)` was found\n    let %y = );\n             ^",
        ),
        (
            "def @main(%x: int32) {\n  ad(%x)\n}",
            "a.relay:2:3: the operator ad is not defined here; near it: add\n    ad(%x)\n    ^^",
        ),
        (
            "def @main(%x: int32) {\n  nn.softmax(%x, axes=1)\n}",
            "a.relay:2:18: nn.softmax has no attribute axes; near it: axis\n"
            "    nn.softmax(%x, axes=1)\n                   ^^^^",
        ),
        (
            'def @main(%x: int32) {\n  nn.softmax(%x, axis="a")\n}',
            "a.relay:2:18: nn.softmax: the attribute axis is declared int, but 'a' was given\n"
            '    nn.softmax(%x, axis="a")\n                   ^^^^',
        ),
        (
            "def @main(%x: int32) {\n  add(%x)\n}",
            "a.relay:2:3: add takes the arguments (lhs, rhs), but 1 were given\n    add(%x)\n    ^^^",
        ),
        (
            "def @main(%x: Tensr[(2), float32]) {\n  %x\n}",
            "a.relay:1:15: the type Tensr is not defined here; near it: Tensor\n"
            "  def @main(%x: Tensr[(2), float32]) {\n                ^^^^^",
        ),
        (
            "def @main() {\n  @f()\n}",
            "a.relay:2:3: the function @f is not defined here\n    @f()\n    ^^",
        ),
        (
            "def @main() {\n  meta[relay.Constant][0]\n}",
            "a.relay:2:3: the metadata section holds 0 entries of relay.Constant, but number 0 is used."
            " Print the program with show_meta_data=True\n    meta[relay.Constant][0]\n    ^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "def @main() {\n  1 ~ 2\n}",
            "a.relay:2:5: no relay word starts with '~'\n    1 ~ 2\n      ^",
        ),
        (
            '#[version = "1.0"]\ndef @main() { 1 }',
            'a.relay:1:13: this text has version "1.0", but version "0.0.5" is read\n'
            '  #[version = "1.0"]\n              ^^^^^',
        ),
        (
            "def @main() { 1 }\ndef @main() { 2 }",
            "a.relay:2:5: the function @main is defined twice\n  def @main() { 2 }\n      ^^^^^",
        ),
        (
            "def @main(%x: int32) {\n  if (%x == 1) { 1 }\n}",
            "a.relay:3:1: `else` is expected, but `}` was found\n  }\n  ^",
        ),
        (
            "def @main() {",
            "a.relay:1:14: an expression is expected, but the end of the text was found\n  def @main() {\n",
        ),
    ],
)
def test_errors_of_the_text(text: str, message: str) -> None:
    found = error(text)
    assert found == message or found == message + " " * 15 + "^"


def test_errors_of_types_show_the_line() -> None:
    text = "def @main(%a: Tensor[(2), float32], %b: Tensor[(3), float32]) {\n  tanh(%a + %b)\n}"
    assert error(text) == (
        "a.relay:2:8: add, argument 1 (rhs): shapes must broadcast: dimensions, counted from the last, must be equal"
        " or 1, but dimension -1 is 2 in (2,) and 3 in (3,)\n"
        "  in add(%a, %b)\n"
        "     lhs: Tensor[(2,), float32]\n"
        "     rhs: Tensor[(3,), float32]\n"
        "    tanh(%a + %b)\n"
        "         ^^^^^^^"
    )


def test_nesting_has_a_limit() -> None:
    deep = "(" * 16_000 + "1" + ")" * 16_000
    assert "expressions are nested deeper than 15000. Name inner ones by `let`" in error(f"def @main() {{ {deep} }}")


@pytest.mark.parametrize("seed", range(30))
def test_damaged_text_is_an_error_with_a_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = relay.astext(Generator(seed, 6).module(), show_meta_data=False)
    at = int(rng.integers(20, len(text)))
    damaged = text[:at] + str(rng.choice(list("()[]{},;%@.=-x9\"'"))) + text[at + int(rng.integers(0, 3)) :]
    try:
        relay.parse(damaged, "a.relay", init_meta_table={"relay.Constant": [relay.const(1.0)] * 99})
    except DiagnosticError as caught:
        assert str(caught)


def test_sizes_that_are_expressions() -> None:
    n, m = tir.SizeVar("n", "int64"), tir.Var("m", "int32")
    wide = tir.Cast("int64", m)
    sizes = [
        tir.Select(tir.EQ(n, tir.IntImm("int64", 1)), n + 3, n),
        tir.Select(tir.And(tir.LT(n, wide), tir.Not(tir.GE(n, wide))), tir.Div(n, wide), tir.Mod(n, wide)),
        tir.Select(tir.Or(tir.NE(n, wide), tir.LE(n, wide)), n, tir.Select(tir.GT(n, wide), n, wide)),
    ]
    x = relay.var("x", shape=(n, m))
    f = relay.Function([x, *[relay.var(f"y{i}", shape=(s,)) for i, s in enumerate(sizes)]], relay.zeros((n, 2), "int8"))
    assert "select(eq(n, 1i64), (n + 3i64), n)" in f.astext() and "shape=[dim(n), 2]" in f.astext()
    assert_structural_equal(relay.parse_expr(f.astext()), f)
    bad = "def @main(%x: Tensor[(select(n, 1), 2), float32]) { %x }"
    assert error(bad).startswith("a.relay:1:23: select takes 3 dimensions, but 2 were given")


def test_a_constructor_of_nothing_is_its_value() -> None:
    """Classic text writes `Nil` for `Nil()`; both are the same call."""
    text = """#[version = "0.0.5"]
type list { nil, cons(int32, list) }
def @main() -> list { cons(1, nil) }
"""
    mod = relay.fromtext(text)
    assert_structural_equal(mod, relay.fromtext(text.replace("(1, nil)", "(1, nil())")))
    assert_structural_equal(mod, relay.fromtext(mod.astext()))
    result = relay.create_executor("debug", mod).evaluate()()
    assert result.constructor.name_hint == "cons" and result.fields[1].constructor.name_hint == "nil"


def test_extern_types_have_no_constructors() -> None:
    mod = relay.fromtext('#[version = "0.0.5"]\nextern type T[A]\ndef @main(%x: T[int32]) -> T[int32] { %x }')
    (data,) = mod.type_definitions.values()
    assert data.header.name_hint == "T" and len(data.type_vars) == 1 and data.constructors == ()
    assert_structural_equal(relay.fromtext(mod.astext()), mod)


def test_remarks_may_look_like_comments() -> None:
    f = relay.Function([X := relay.var("x", shape=(2,))], relay.nn.relu(X))
    text = relay.astext(f, annotate=lambda e: "/* a */ b /*")
    assert "/* / * a * / b / * */" in text
    assert_structural_equal(relay.fromtext(text), f)


def test_names_that_are_numbers() -> None:
    one = relay.var("1", shape=(2,))
    assert "free_var %v1" in one.astext()
    free = relay.nn.relu(one)
    assert_structural_equal(relay.fromtext(free.astext()), free, map_free_vars=True)
    # What is given by name keeps it.
    mod = relay.IRModule.from_expr(relay.Function([one], relay.nn.relu(one)))
    assert relay.fromtext(mod.astext())["main"].params[0].name_hint == "1"


def test_parameters_of_every_function_keep_their_names() -> None:
    text = "def @f(%x: float32) {\n  %x\n}\n\ndef @main(%x: float32) {\n  @f(%x)\n}"
    mod = relay.fromtext(text)
    assert [f.params[0].name_hint for f in check(mod).functions.values()] == ["x", "x"]
    spanned = relay.transform.AnnotateSpans()(mod)
    assert spanned["main"].params[0].name_hint == "x"
    # One variable in two functions, beside another of its name.
    x, other = relay.var("x", shape=()), relay.var("x", shape=())
    functions = {"f": relay.Function([x], x), "g": relay.Function([other, x], x)}
    shared = relay.IRModule({relay.GlobalVar(name): f for name, f in functions.items()})
    assert "def @g(%x: float32, %x1: float32) {\n  %x1\n}" in shared.astext()
