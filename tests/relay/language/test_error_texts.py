"""What a wrong program is told: the rule, what was found, where, and the way out; the whole text."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fuzz.relay_damage import fate
from tilewright import relay, tir
from tilewright.ir import Op
from tilewright.ir.diagnostics import DiagnosticContext, DiagnosticLevel, override_renderer
from tilewright.support.errors import DiagnosticError, OpAttributeInvalid, TVMError

X = relay.var("x", shape=(2, 3))
Y = relay.var("y", shape=(4, 5))


def text_of(kind: type[Exception], run: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        run()
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "message", "underlined"),
    [
        ("let %y = %x %y", "`;` after a `let` is expected, but `%y` was found", "%y"),
        ("%xs", "the variable %xs is not defined here; near it: %x", "%xs"),
        ("%7", "the expression %7 is not defined here", "%7"),
        ("nn.sofmax(%x)", "the operator nn.sofmax is not defined here; near it: nn.softmax", "nn.sofmax"),
        ("nn.softmax(%x, axs=1)", "nn.softmax has no attribute axs; near it: axis", "axs"),
        ('nn.softmax(%x, axis="a")', "nn.softmax: the attribute axis is declared int, but 'a' was given", "axis"),
        ("add(%x)", "add takes the arguments (lhs, rhs), but 1 were given", "add"),
        ("reshape(%x)", "reshape needs the attribute newshape", "reshape"),
        ("(%x, %x", "`,` or `)` is expected, but `}` was found", "}"),
        ("%x $ %x", "no relay word starts with '$'", "$"),
        ('"abc', 'this string has no closing `"` on its line', '"'),
        ("%x /* why", "this comment has no closing `*/`", "/*"),
        ("1e5i8", "1e5i8 is not a number; the suffixes are f, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64", "1e5i8"),
        ("300i8", "300i8 does not fit in int8", "300i8"),
        ("if (%x) { 1 }", "`else` is expected, but `}` was found", "}"),
        ("match (%x) { Non => 1 }", "the constructor Non is not defined here; near it: None", "Non"),
        ("let %y: Tensor[(2.5,), int8] = 1; %y", "a dimension must be an integer, but is 2.5", "2.5"),
        ("let %y: Tensor[(99999999999,), int8] = 1; %y", "99999999999 does not fit in int32: the range is", "99999999999"),
        ("let %y: Tensor[(n, (n + 5i64)), int8] = 1; %y", "+: Add takes operands of one type", "+"),
        ("let %y: Lst[int8] = 1; %y", "the type Lst is not defined here", "Lst"),
        ("let %y: float23 = 1; %y", "the type float23 is not defined here; near it: float32", "float23"),
        ("ref(1, 2)", "ref takes 1 arguments, but 2 were given", "ref"),
        ("@foo(1)", "the function @foo is not defined here", "@foo"),
        ("meta[relay.Constant][3]", "the metadata section holds 0 entries of relay.Constant", "meta[relay.Constant][3]"),
        ("(1, 2).5", "element 5 is taken of a tuple of 2: (int32, int32)", "(1, 2).5"),
        ("if (1) { 1 } else { 2 }", "the condition of an if must be a bool scalar, but is int32", "if (1) { 1 } else { 2 }"),
        ("if (True) { 1 } else { 2f }", "the branches of an if must have one type, but are int32 and float32", ""),
        ("%x(1)", "Tensor[(2, 3), float32] is called, but it is not a function", "%x(1)"),
        ("@id(1, 2)", "a function of 1 arguments is called with 2", "@id(1, 2)"),
        ("match (Nil()) { Nil => 1 }", "the match has no clause for Cons(_, _). Add one, or write `match?`", ""),
        ("match (1) { Nil => 1 }", "a pattern of Nil, which makes List, is matched with int32", ""),
        ("ref_read(1)", "a reference is read or written, but this is int32", ""),
    ],
)  # fmt: skip
def test_texts(body: str, message: str, underlined: str) -> None:
    base = relay.IRModule()
    relay.Prelude(base)
    line = f"def @main(%x: Tensor[(2, 3), float32]) {{ {body} }}"
    first, shown, carets = text_of(DiagnosticError, lambda: relay.parse(line, "a.relay", base)).split("\n")[:3]
    assert first.startswith("a.relay:1:") and message in first
    assert shown == "  " + line
    if underlined:
        assert shown[carets.index("^") : carets.rindex("^") + 1] == underlined


def test_a_program_without_a_text_is_shown() -> None:
    made = relay.add(relay.tanh(X), Y)
    mod = relay.IRModule.from_expr(relay.Function([X, Y], relay.nn.relu(made)))
    assert text_of(DiagnosticError, lambda: relay.transform.InferType()(mod)) == (
        "add, argument 1 (rhs): shapes must broadcast: dimensions, counted from the last, must be equal or 1, but dimension"
        " -1 is 3 in (2, 3) and 5 in (4, 5)\n"
        "  in add(%0, %y)\n"
        "     lhs: Tensor[(2, 3), float32]\n"
        "     rhs: Tensor[(4, 5), float32]\n"
        "  def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(4, 5), float32]) {\n"
        "    %0 = tanh(%x) /* ty=Tensor[(2, 3), float32] */;\n"
        "    %1 = add(%0, %y);\n"
        "         ^^^^^^^^^^^\n"
        "    nn.relu(%1)\n"
        "    ..."
    )


def underlined(text: str) -> str:
    """What the carets of a message stand under."""
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    return lines[at - 1][lines[at].index("^") : lines[at].rindex("^") + 1]


def let_declared() -> relay.Expr:
    return relay.Let(relay.var("q", shape=(4,)), X, X)


@pytest.mark.parametrize(
    ("body", "params", "ret", "message", "carets"),
    [
        (lambda: relay.nn.relu(relay.var("z")), None, None, "the type of %z is not known", "%z"),
        (let_declared, [X], None, "%q is declared Tensor[(4,), float32], but its value is Tensor[(2, 3), float32]",
         "let %q: Tensor[(4,), float32] = %x"),
        (lambda: X, [X], relay.TensorType((1,)), "the function is declared to return Tensor[(1,), float32], but its body",
         "def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(1,), float32]"),
        (lambda: relay.const(1), [relay.var("l")], None, "List is not well-kinded: List takes 1 types, but is given 0",
         "%l: List"),
    ],
)  # fmt: skip
def test_bindings_and_heads_of_functions_are_shown(
    body: Callable[[], relay.Expr], params: Any, ret: Any, message: str, carets: str
) -> None:
    found = body()
    base = relay.IRModule()
    relay.Prelude(base)
    header = next(g for g in base.type_definitions if g.name_hint == "List")
    given = relay.analysis.free_vars(found) if params is None else params
    given = [relay.Var("l", header) if p.name_hint == "l" else p for p in given]
    base["main"] = relay.Function(given, found, ret)
    text = text_of(DiagnosticError, lambda: relay.transform.InferType()(base))
    assert message in text
    assert underlined(text) == carets


def test_what_is_never_known_is_shown_though_it_is_found_last() -> None:
    mod = relay.IRModule()
    nil = relay.Prelude(mod).get_ctor("List", "Nil")
    mod["main"] = relay.Function([], relay.Tuple([nil(), relay.const(1)]))
    text = text_of(DiagnosticError, lambda: relay.transform.InferType()(mod))
    assert "the type argument A is not known here. Annotate the variable that this is bound to" in text
    assert underlined(text).startswith("Nil()")


@pytest.mark.usefixtures("operators_go")
def test_relations_of_programs_own_operators_say_where_they_fail() -> None:
    def rule(args: Any, attrs: Any) -> Any:
        raise TVMError("both must be of one colour")

    relay.op.op.register("test.colours")
    relay.op.get("test.colours").set_num_inputs(1)
    relay.op.get("test.colours").add_type_rel("Colours", rule)
    mod = relay.IRModule.from_expr(relay.Function([X], relay.Call(relay.op.get("test.colours"), [X])))
    text = text_of(DiagnosticError, lambda: relay.transform.InferType()(mod))
    assert text.startswith("test.colours: both must be of one colour\n")
    assert underlined(text) == "test.colours(%x)"


def test_findings_go_to_the_renderer_that_is_set() -> None:
    seen: list[tuple[DiagnosticLevel, str]] = []

    def render(ctx: DiagnosticContext) -> None:
        seen.extend([(d.level, d.message) for d in ctx.diagnostics])

    override_renderer(render)
    try:
        text_of(DiagnosticError, lambda: relay.parse("def @main() { %x }"))
        text_of(DiagnosticError, lambda: relay.parse("def @main() { (1(2), 2(3)) }"))
    finally:
        override_renderer(None)
    called = "int32 is called, but it is not a function"
    assert seen == [
        (DiagnosticLevel.ERROR, "the variable %x is not defined here"),
        *[(DiagnosticLevel.ERROR, called)] * 2,
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: relay.Tuple([X, "a"]), "Tuple.fields takes a relay expression, but was given str: 'a'"),
        (lambda: relay.Call(Op.get("add"), [X, 3]), "Call.args takes a relay expression, but was given int: 3; write relay.const(...)"),
        (lambda: relay.TupleGetItem(X, "a"), "the index of a TupleGetItem must be an integer, but is 'a'"),
        (lambda: relay.Let("x", X, X), "Let.var takes a relay.Var, but was given str: 'x'"),
        (lambda: relay.Function([relay.const(1)], X), "Function.params takes a relay.Var, but was given Constant: 1"),
        (lambda: relay.Function(X, X), "Function.params takes a list of relay.Var, but was given Var"),
        (lambda: relay.var("x", shape=(2, "n")), 'a dimension of a tensor type must be an integer or a symbol, but is "n"'),
        (lambda: relay.var("x", shape=(2,), dtype="flot32"), "unknown data type 'flot32'"),
        (lambda: relay.var(3), "the name of a relay.Var must be a string, but is 3"),
        (lambda: relay.const("abc"), "relay.const takes numbers or an array of numbers, but was given str: 'abc'"),
        (lambda: relay.Match(X, [1]), "Match.clauses must be a Clause, but was given int: 1"),
        (lambda: relay.Clause(X, X), "Clause.lhs must be a Pattern, but was given Var"),
        (lambda: X + 1, "add: a Python number has no dtype; write relay.const(1, dtype) instead of 1"),
        (lambda: relay.GlobalVar(1), "the name of a GlobalVar must be a string, but is 1"),
        (lambda: relay.bind(relay.Function([X], X), {"x": np.ones((2, 5), "float32")}),
         "the parameter %x is declared Tensor[(2, 3), float32], but is bound to an array of shape (2, 5) and dtype float32"),
    ],
)  # fmt: skip
def test_wrong_parts_are_refused_where_nodes_are_built(make: Callable[[], Any], message: str) -> None:
    assert message in text_of(TypeError, make)


def test_wrong_attributes_name_the_nearest() -> None:
    found = text_of(OpAttributeInvalid, lambda: relay.nn.conv2d(X, Y, stride=(1, 1)))
    assert found.startswith("nn.conv2d has no attribute 'stride'; it has strides, padding")
    assert found.endswith("Did you mean 'strides'?")


def test_dynamic_dimensions_that_do_not_agree_at_run_time() -> None:
    mod = relay.parse("def @main(%a: Tensor[(?, 3), float32], %b: Tensor[(?, 3), float32]) { %a + %b }", "a.relay")
    run = relay.create_executor("debug", mod).evaluate()
    two, four = np.ones((2, 3), "float32"), np.ones((4, 3), "float32")
    assert text_of(TVMError, lambda: run(two, four)) == (
        "a.relay:1:71: add cannot be evaluated here: shapes must broadcast: dimensions, counted from the last, must be equal or 1,"
        " but dimension -2 is 2 in (2, 3) and 4 in (4, 3)\n"
        "  in add(%a, %b)\n     lhs: Tensor[(2, 3), float32]\n     rhs: Tensor[(4, 3), float32]"
    )
    wide = "the argument a must be Tensor[(?, 3), float32], but is (2, 5) float32"
    assert text_of(ValueError, lambda: run(np.ones((2, 5), "float32"), two)) == wide
    machine = relay.create_executor("vm", mod).evaluate()
    assert "the sizes a_0 and b_0 must be equal or 1 (add), but they are 2 and 4" in text_of(
        ValueError, lambda: machine(two, four)
    )


def test_symbols_of_narrow_integers_run_in_the_machine() -> None:
    n = tir.Var("n", "int32")
    a, b = relay.var("a", shape=(n, 4)), relay.var("b", shape=(n, 4))
    body = relay.strided_slice(a - b, begin=[0, 0], end=[1, 2])
    mod = relay.IRModule.from_expr(relay.Function([a, b], body))
    data = np.arange(8, dtype="float32").reshape(2, 4)
    got = relay.create_executor("vm", mod).evaluate()(data, data * 0)
    np.testing.assert_array_equal(got.numpy(), data[:1, :2])


LOOPS = {
    "deep": ("def @f(%n: int32) -> int32 { 1 + @f(%n) }", "the last one is of"),
    "tail": ("def @f(%n: int32) -> int32 { @f(%n) }", ""),
}


def test_recursion_without_a_base_case_is_an_error() -> None:
    mod = relay.parse(LOOPS["deep"][0] + "\ndef @main() { @f(1) }")
    for kind in ("debug", "vm"):
        with pytest.raises(
            TVMError, match=r"nest deeper than \d+; the last one is of @?f. Does its recursion have a base case"
        ):
            relay.create_executor(kind, mod).evaluate()()


def test_a_loop_without_an_end_can_be_interrupted() -> None:
    program = (
        # Jobs that a shell starts in the background ignore the signal.
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tilewright import relay\n"
        f"mod = relay.parse({LOOPS['tail'][0] + chr(10) + 'def @main() { @f(1) }'!r})\n"
        "run = relay.create_executor('vm', mod).evaluate()\n"
        "print('runs', flush=True)\n"
        "try:\n    run()\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "runs\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        try:
            assert child.communicate(timeout=60)[0] == "interrupted\n"
        finally:
            child.kill()


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_damaged_programs_are_refused_as_the_users_errors(start: int) -> None:
    for seed in range(start, start + 40):
        what, show = fate(seed)
        assert not what.startswith("BAD"), f"seed {seed}: {what}\n{show()}"


@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((1, 3, 8), {}),
        ((1, 3, 8, 8), {"groups": 0}),
        ((1, 3, 8, 8), {"kernel_size": (3, 3, 3)}),
        ((1, 3, 8, 8), {"data_layout": "NHWX"}),
    ],
)
@pytest.mark.parametrize("operator", ["conv1d", "conv2d", "conv2d_transpose", "conv3d"])
def test_weights_that_follow_from_wrong_attributes_are_asked_for(
    operator: str, shape: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    make = getattr(relay.nn, operator)
    call = make(relay.var("x", shape=shape), relay.var("w"), **{"channels": 4, "kernel_size": (3, 3), **attrs})
    with pytest.raises(DiagnosticError, match="the type of %w is not known"):
        relay.transform.InferType()(relay.IRModule.from_expr(call))


@pytest.mark.parametrize(
    "size",
    [
        lambda s: relay.cast(relay.cast(s, "float32") * relay.const(0.5), "int64"),
        lambda s: s / relay.const(np.array([0, 0], "int64")),
        lambda s: relay.floor_mod(s, relay.const(np.array([0, 1], "int64"))),
        lambda s: relay.take(s, relay.const(np.array([0, 7])), mode="fast"),
        lambda s: relay.cast(relay.const(np.array([np.inf, np.nan], "float32")), "int64") + s,
        lambda s: relay.maximum(s, relay.const(np.array([2, 3], "int64"))),
        lambda s: relay.scatter_elements(s, relay.const(np.array([0])), relay.const(np.array([5])), reduction="add"),
    ],
)
def test_shapes_that_cannot_be_evaluated_ahead_stay_dynamic(size: Any) -> None:
    x = relay.var("x", shape=(relay.Any(), 4))
    target = size(relay.shape_of(x, "int64"))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.broadcast_to(relay.const(1.0), target)))
    after = relay.transform.DynamicToStatic()(relay.transform.InferType()(mod))
    assert "broadcast_to" in " ".join(relay.analysis.list_op_freqs(after))
