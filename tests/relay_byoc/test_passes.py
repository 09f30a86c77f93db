"""Finding, marking and taking out what other compilers get: the form of the result after each pass, and what it computes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import Generator
from tests.relay_byoc.helpers import (
    OPERATORS,
    assert_same,
    evaluate,
    external,
    partitioned,
    registered,
    taking,
)
from tilewright import relay
from tilewright.relay.dataflow_pattern import is_constant, is_op, is_tuple_get_item, wildcard
from tilewright.relay.op.contrib import get_pattern_table, register_pattern_table
from tilewright.support.errors import TVMError

CONV_RELU = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), is_constant()))
MUL_ADD = is_op("add")(is_op("multiply")(wildcard(), wildcard()), wildcard())


def begin(e: Any, compiler: str = "a") -> relay.Expr:
    return relay.annotation.compiler_begin(e, compiler)


def end(e: Any, compiler: str = "a") -> relay.Expr:
    return relay.annotation.compiler_end(e, compiler)


def module(params: list[relay.Var], body: Any) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function(params, body))


def variable(name: str = "x", shape: tuple[int, ...] = (2, 3)) -> relay.Var:
    return relay.var(name, shape=shape)


def without_types(text: str) -> str:
    return re.sub(r" /\* ty=.*? \*/", "", re.sub(r": Tensor\[[^]]*\]|: float32|: \(.*?\)(?=[,)])", "", text)).strip()


def same(a: relay.IRModule, b: relay.IRModule) -> None:
    tvm.ir.assert_structural_equal(relay.transform.InferType()(a), relay.transform.InferType()(b))


# ---- MergeComposite


def conv_graph() -> relay.IRModule:
    x = variable("x", (1, 3, 6, 6))
    w = relay.const(np.ones((4, 3, 3, 3), "float32"))
    return module([x], relay.exp(relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))))


def test_composites_carry_names_and_constants() -> None:
    mod = relay.transform.MergeComposite([("a.conv_relu", CONV_RELU)])(conv_graph())
    call = mod["main"].body.args[0]
    assert dict(call.op.attrs) == {"Composite": "a.conv_relu", "PartitionedFromPattern": "nn.conv2d_nn.relu_"}
    assert len(call.args) == 1 and call.args[0] is mod["main"].params[0]
    data = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype("float32")
    assert_same(evaluate(mod, data), evaluate(conv_graph(), data))


def test_patterns_are_tried_in_order_and_not_inside_of_matches() -> None:
    relu = ("a.relu", is_op("nn.relu")(wildcard()))
    names = lambda mod: re.findall(r'Composite="([\w.]+)"', str(mod))  # noqa: E731
    assert names(relay.transform.MergeComposite([("a.conv_relu", CONV_RELU), relu])(conv_graph())) == ["a.conv_relu"]
    assert names(relay.transform.MergeComposite([relu, ("a.conv_relu", CONV_RELU)])(conv_graph())) == ["a.relu"]
    once = relay.transform.MergeComposite([relu])(conv_graph())
    same(relay.transform.MergeComposite([relu])(once), once)


def test_checks_see_typed_expressions() -> None:
    seen: list[Any] = []

    def check(e: relay.Expr) -> bool:
        seen.append((e.op.name, e.checked_type.concrete_shape, e.args[0].args[0].checked_type.dtype))  # type: ignore[attr-defined]
        return False

    mod = relay.transform.MergeComposite([("a.conv_relu", CONV_RELU, check)])(conv_graph())
    assert seen == [("nn.relu", (1, 4, 6, 6), "float32")]
    same(mod, conv_graph())


def test_composites_of_tuple_elements() -> None:
    x, c = variable("x", (1, 4, 3, 3)), relay.const(np.ones(4, "float32"))
    norm = relay.nn.batch_norm(x, c, c, c, c)
    pattern = is_op("nn.relu")(is_tuple_get_item(is_op("nn.batch_norm")(*[wildcard() for _ in range(5)]), 0))
    mod = relay.transform.MergeComposite([("a.norm_relu", pattern)])(module([x], relay.nn.relu(norm[0])))
    assert mod["main"].body.op.attrs["Composite"] == "a.norm_relu" and len(mod["main"].body.args) == 2


def test_pattern_tables_are_kept() -> None:
    @register_pattern_table("table_test")
    def table() -> list[Any]:
        return [("table_test.conv_relu", CONV_RELU), ("table_test.mul_add", MUL_ADD, lambda e: True)]

    assert [entry[0] for entry in get_pattern_table("table_test") or ()] == [
        "table_test.conv_relu",
        "table_test.mul_add",
    ]
    assert get_pattern_table("nobody") is None
    from tilewright.relay.op.contrib.register import get_pattern_table as same_function

    assert same_function is get_pattern_table is relay.op.contrib.get_pattern_table


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (CONV_RELU, "MergeComposite takes a list of (name, pattern) or (name, pattern, check), but was given CallPattern"),
        ([("a.x",)], "entry 0 of the pattern table must be (name, pattern) or (name, pattern, check), but is a tuple of 1"),
        ([("a.y", CONV_RELU), "a.x"], "entry 1 of the pattern table must be (name, pattern) or (name, pattern, check), but is a str"),
        ([(CONV_RELU, "a.x")], "entry 0 of the pattern table must begin with a name such as \"dnnl.conv2d_relu\", but begins with"),
        ([("a.x", lambda: CONV_RELU)], "the pattern table, a.x, must hold a dataflow pattern, but holds function; call the function"),
        ([("a.x", CONV_RELU, True)], "entry 0 of the pattern table, a.x, must have a function as its check, but has bool: True"),
    ],
)  # fmt: skip
def test_bad_tables(table: Any, text: str) -> None:
    with pytest.raises(TVMError) as caught:
        relay.transform.MergeComposite(table)
    assert text in str(caught.value)
    with pytest.raises(TVMError) as caught:
        register_pattern_table("bad", lambda: table)
    assert text.replace("MergeComposite", 'register_pattern_table("bad")') in str(caught.value)
    assert get_pattern_table("bad") is None


# ---- AnnotateTarget


def test_every_call_gets_borders_for_each_use() -> None:
    x = variable()
    r = relay.nn.relu(x)
    with taking("a", ["nn.relu", "abs", "add"]):
        mod = relay.transform.AnnotateTarget("a")(module([x], relay.add(relay.abs(r), relay.abs(r))))
    r = relay.nn.relu(begin(x))
    left, right = (relay.abs(begin(end(r))) for _ in range(2))
    want = end(relay.add(begin(end(left)), begin(end(right))))
    same(mod, module([x], want))


def test_what_nobody_takes_belongs_to_default() -> None:
    x = variable()
    with taking("a", ["nn.relu"]):
        mod = relay.transform.AnnotateTarget(["a"])(module([x], relay.exp(relay.nn.relu(x))))
    assert without_types(str(mod)) == without_types(
        """def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  %0 = annotation.compiler_begin(%x, compiler="a");
  %1 = nn.relu(%0);
  %2 = annotation.compiler_end(%1, compiler="a");
  %3 = annotation.compiler_begin(%2, compiler="default");
  %4 = exp(%3);
  annotation.compiler_end(%4, compiler="default")
}"""
    )


@pytest.mark.parametrize("non_call_ops", [True, False])
def test_tuples_join_the_region_of_their_parts(non_call_ops: bool) -> None:
    x = variable()
    body = relay.concatenate([relay.nn.relu(x), relay.abs(x)], axis=1)
    with taking("a", ["nn.relu", "abs", "concatenate"]):
        mod = relay.transform.AnnotateTarget("a", non_call_ops)(module([x], body))
    parts = [end(relay.nn.relu(begin(x))), end(relay.abs(begin(x)))]
    whole: Any = end(relay.Tuple([begin(p) for p in parts])) if non_call_ops else relay.Tuple(parts)
    same(mod, module([x], end(relay.concatenate(begin(whole), axis=1))))


def test_the_first_compiler_that_takes_a_call_gets_it() -> None:
    x = variable()
    body = relay.nn.relu(relay.abs(x))
    with taking("a", ["nn.relu"], lambda call: False), taking("b", ["nn.relu", "abs"]), taking("c", ["abs"]):
        both = relay.transform.AnnotateTarget(["a", "c", "b"])(module([x], body))
        again = relay.transform.AnnotateTarget(["b"])(relay.transform.AnnotateTarget(["c"])(module([x], body)))
    want = end(relay.nn.relu(begin(end(relay.abs(begin(x, "c")), "c"), "b")), "b")
    same(both, module([x], want))
    same(again, module([x], want))


def test_attributes_decide() -> None:
    x = variable("x", (1, 3, 6, 6))
    w = [relay.const(np.ones((3, 3, k, k), "float32")) for k in (1, 3)]
    body = relay.nn.conv2d(relay.nn.conv2d(x, w[0]), w[1])
    with taking("a", ["nn.conv2d"], lambda call: call.args[1].checked_type.concrete_shape[2] == 3):
        mod = partitioned(module([x], body), ["a"])
    (function,) = external(mod).values()
    assert list(relay.analysis.list_op_freqs(relay.IRModule.from_expr(function.replace(attrs={})))) == ["nn.conv2d"]
    assert function.body.args[1].data.shape == (3, 3, 3, 3)


def test_targets_that_are_none() -> None:
    with pytest.raises(
        TVMError, match=r'takes the name of a compiler, or a list of names, such as "dnnl"; it was given 3'
    ):
        relay.transform.AnnotateTarget([3])  # type: ignore[list-item]
    x = variable()
    with taking("a", ["abs"], "yes"), pytest.raises(TVMError) as caught:  # type: ignore[arg-type]
        relay.transform.AnnotateTarget("a")(module([x], relay.abs(x)))
    assert str(caught.value) == (
        "AnnotateTarget: the attribute target.a of abs must be a function from a call to a bool, but is str"
    )


# ---- MergeCompilerRegions


def compilers(mod: relay.IRModule) -> list[str]:
    """What the functions of other compilers hold, each a text of operators."""
    return sorted([" ".join(map(str, relay.analysis.list_op_freqs(module_of(f)))) for f in external(mod).values()])


def module_of(f: relay.Function) -> relay.IRModule:
    return relay.IRModule.from_expr(f.replace(attrs={}))


def test_a_diamond_of_one_compiler_is_one_region() -> None:
    x = variable()
    r = relay.nn.relu(x)
    with taking("a", ["nn.relu", "abs", "exp", "add"]):
        mod = partitioned(module([x], relay.add(relay.abs(r), relay.exp(r))), ["a"])
    assert compilers(mod) == ["nn.relu abs exp add"]


def test_what_goes_through_another_compiler_stays_apart() -> None:
    x = variable()
    r = relay.nn.relu(x)
    body = relay.add(relay.abs(r), relay.exp(r))
    with taking("a", ["nn.relu", "abs", "add"]):
        mod = partitioned(module([x], body), ["a"])
    # relu -> exp -> add: with abs and add in one region, that would wait for exp, and exp for it.
    assert compilers(mod) in (["add", "nn.relu abs"], ["abs add", "nn.relu"])
    data = np.float32([[-1, 0, 1], [2, 3, -4]])
    assert_same(evaluate(mod, data), [np.maximum(data, 0) + np.exp(np.maximum(data, 0))])


def test_merging_two_regions_orders_what_others_wait_for() -> None:
    """A chain through a region that became larger is seen: {p, r} after a merge makes q wait for y as well."""
    x, y = variable("x"), variable("y")
    p = relay.nn.relu(x)
    q = relay.exp(p)  # outside
    s = relay.sigmoid(y)  # of b
    r = relay.add(p, s)  # of a, joins p: now q waits for s
    z = relay.multiply(s, q)  # of b: must not join s
    with taking("a", ["nn.relu", "add"]), taking("b", ["sigmoid", "multiply"]):
        mod = partitioned(module([x, y], relay.Tuple([r, z])), ["a", "b"])
    assert compilers(mod) == ["multiply", "nn.relu add", "sigmoid"]
    data = [np.float32(np.arange(6).reshape(2, 3)) - 3, np.ones((2, 3), "float32")]
    got = evaluate(mod, *data)
    assert_same(got, evaluate(module([x, y], relay.Tuple([r, z])), *data))


def test_branches_and_bindings_are_regions_of_their_own() -> None:
    x, c = variable(), relay.var("c", shape=(), dtype="bool")
    v = relay.var("v")
    shared = relay.nn.relu(x)
    body = relay.If(c, relay.abs(shared), relay.Let(v, relay.exp(shared), relay.add(relay.exp(v), v)))
    mod = module([c, x], body)
    with taking("a", ["nn.relu", "abs", "exp", "add"]):
        parts = partitioned(mod, ["a"])
    assert compilers(parts) == ["abs", "exp", "exp add", "nn.relu"]
    data = np.float32(np.arange(6).reshape(2, 3)) - 3
    for flag in (True, False):
        assert_same(evaluate(parts, np.array(flag), data), evaluate(mod, np.array(flag), data))


def test_long_chains() -> None:
    x = variable()
    e: relay.Expr = x
    for i in range(1500):
        e = relay.nn.relu(e) if i % 50 else relay.exp(e)
    with taking("a", ["nn.relu"]):
        mod = partitioned(module([x], e), ["a"])
    assert len(external(mod)) == 30


def random_dag(seed: int) -> relay.IRModule:
    """Unary and binary operators over two inputs, each over any that came before."""
    rng = np.random.default_rng(seed)
    params = [variable("x"), variable("y")]
    values: list[relay.Expr] = [*params]
    for _ in range(int(rng.integers(8, 30))):
        left, right = (values[int(rng.integers(max(0, len(values) - 8), len(values)))] for _ in range(2))
        kind = rng.choice(["nn.relu", "tanh", "abs", "sigmoid", "add", "subtract", "maximum"])
        values.append(
            relay.op.lookup(kind)(*([left] if kind in ("nn.relu", "tanh", "abs", "sigmoid") else [left, right]))
        )
    return module(params, relay.Tuple(values[-3:]))


@pytest.mark.parametrize("seed", range(30))
def test_regions_are_as_large_as_they_may_be(seed: int) -> None:
    """No two regions of one compiler that hand a value to each other are left, unless a way leads through a third."""
    mod = random_dag(seed)
    with taking("a", ["nn.relu", "add", "maximum"]), taking("b", ["tanh", "subtract"]):
        marked = relay.transform.AnnotateTarget(["a", "b"])(mod)
        merged = relay.transform.MergeCompilerRegions()(marked)
    regions = relay.analysis.AnnotatedRegionSet(merged["main"])

    def owner(e: relay.Expr) -> Any:
        return regions.get_region(e) or e

    sources: dict[Any, set[Any]] = {}
    for e in relay.analysis.post_order(merged["main"].body):
        for operand in getattr(e, "args", getattr(e, "fields", ())):
            if owner(operand) is not owner(e):
                sources.setdefault(owner(e), set()).add(owner(operand))

    def reaches(start: Any, goal: Any, skip_first: Any) -> bool:
        pending, seen = [s for s in sources.get(start, ()) if s is not skip_first], set()
        while pending:
            node = pending.pop()
            if node is goal:
                return True
            if node not in seen:
                seen.add(node)
                pending += sources.get(node, ())
        return False

    for region in regions:
        assert not reaches(region, region, None), "a region waits for itself"
        for other in sources.get(region, ()):
            if getattr(other, "target", "") == region.target != "default":
                assert reaches(region, other, other), "these two might be one"
    parts = relay.transform.PartitionGraph()(merged)
    data = [np.float32(np.random.default_rng(i).standard_normal((2, 3))) for i in range(2)]
    assert_same(evaluate(parts, *data), evaluate(mod, *data))


def test_the_regions_of_a_program() -> None:
    x = variable()
    enter = begin(x)
    first = relay.abs(enter)
    ends = [end(first), end(first)]
    through = [begin(ends[1], "default")]
    through += [relay.tanh(through[0])]
    through += [end(through[1], "default")]
    joins = [begin(ends[0]), begin(through[2])]
    last = relay.add(*joins)
    body = end(last)
    get = relay.op.get
    regions = relay.analysis.AnnotatedRegionSet(
        relay.Function([x], body), get("annotation.compiler_begin"), get("annotation.compiler_end")
    )
    assert len(regions) == 3 and regions.get_region(x) is None

    def check(target: str, args: list[Any], nodes: list[Any], rets: list[Any]) -> None:
        region = regions.get_region(args[0])
        assert region is not None and region.target == target and region is regions.get_region(nodes[0])
        assert (set(region.args), set(region.nodes), set(region.rets)) == (set(args), {*args, *nodes, *rets}, set(rets))

    check("a", [enter], [first], ends)
    check("default", through[:1], through[1:2], through[2:])
    check("a", joins, [last], [body])
    with pytest.raises(
        TVMError, match="regions are bounded by annotation.compiler_begin and annotation.compiler_end, not by abs"
    ):
        relay.analysis.AnnotatedRegionSet(body, get("abs"))


# ---- PartitionGraph


def test_names_attributes_and_parameters() -> None:
    x = variable()
    with taking("my-npu", ["nn.relu", "add"]):
        marked = relay.transform.AnnotateTarget("my-npu")(module([x], relay.add(relay.nn.relu(x), x)))
        mod = relay.transform.PartitionGraph("net 1")(relay.transform.MergeCompilerRegions()(marked))
    symbol = "tvmgen_net_1_my_npu_main_0"
    function = mod[symbol]
    assert dict(function.attrs) == {"Primitive": 1, "Compiler": "my-npu", "Inline": 1, "global_symbol": symbol}
    assert [p.name_hint for p in function.params] == ["my_npu_0_i0"], "one value enters once"
    assert function.ret_type == function.body.checked_type
    assert mod["main"].body.op.name_hint == symbol
    again = relay.transform.PartitionGraph("")(relay.transform.MergeCompilerRegions()(marked))
    assert list(external(again)) == ["tvmgen_my_npu_main_0"]


def test_constants_stand_inside_or_are_arguments() -> None:
    mod = conv_graph()
    with taking("a", ["nn.conv2d", "nn.relu"]):
        (inside,) = external(partitioned(mod, ["a"])).values()
        parts = partitioned(mod, ["a"], bind_constants=False)
    (outside,) = external(parts).values()
    assert len(inside.params) == 1 and len(outside.params) == 2
    assert isinstance(parts["main"].body.args[0].args[1], relay.Constant)


def test_several_results() -> None:
    x = variable("x", (2, 4))
    first, second = relay.split(relay.nn.relu(x), 2, axis=1)
    body = relay.Tuple([relay.exp(first), second, relay.tanh(relay.abs(second)), relay.abs(second)])
    mod = module([x], body)
    with taking("a", ["nn.relu", "split", "abs"]):
        parts = partitioned(mod, ["a"])
    (function,) = external(parts).values()
    assert isinstance(function.body, relay.Tuple) and len(function.body.fields) == 4
    data = np.float32(np.arange(8).reshape(2, 4)) - 4
    assert_same(evaluate(parts, data), evaluate(mod, data))


def test_a_tuple_that_leaves_is_taken_apart() -> None:
    x = variable()
    inner = relay.Tuple([begin(relay.nn.relu(begin(x))), relay.Tuple([relay.exp(begin(x)), begin(x)])])
    body = relay.add(relay.TupleGetItem(end(inner), 0), relay.TupleGetItem(relay.TupleGetItem(end(inner), 1), 1))
    marked = module([x], body)
    parts = relay.transform.PartitionGraph()(marked)
    assert len(external(parts)) >= 1
    for f in external(parts).values():
        fields = f.body.fields if isinstance(f.body, relay.Tuple) else [f.body]
        assert all([isinstance(e.checked_type, relay.TensorType) for e in fields])
    data = np.float32(np.arange(6).reshape(2, 3)) - 3
    assert_same(evaluate(parts, data), [np.maximum(data, 0) + data])


def test_operators_of_no_operands() -> None:
    x = variable()
    with taking("a", ["zeros", "add"]):
        parts = partitioned(module([x], relay.exp(relay.add(x, relay.zeros((2, 3), "float32")))), ["a"])
    assert compilers(parts) == ["zeros add"]
    with taking("a", ["zeros"]):
        parts = partitioned(module([x], relay.exp(relay.add(x, relay.zeros((2, 3), "float32")))), ["a"])
    assert compilers(parts) == ["zeros"] and not next(iter(external(parts).values())).params


def test_the_hook_that_optimises_a_function() -> None:
    seen: list[str] = []

    def optimize(mod: relay.IRModule) -> relay.IRModule:
        seen.append(str(mod["main"].body.checked_type))
        return relay.transform.FoldConstant()(mod)

    x = variable("x", (2,))
    two = relay.add(relay.const(np.ones(2, "float32")), relay.const(np.ones(2, "float32")))
    with taking("a", ["add"]), registered(a__optimize=optimize):
        (function,) = external(partitioned(module([x], relay.add(x, two)), ["a"])).values()
    assert len(seen) == 1 and function.attrs["Compiler"] == "a"
    assert isinstance(function.body.args[1], relay.Constant)
    wrong = "relay.ext.a.optimize must return an IRModule with a main, but returned int"
    with taking("a", ["add"]), registered(a__optimize=lambda mod: 3), pytest.raises(TVMError, match=wrong):
        partitioned(module([x], relay.add(x, two)), ["a"])


def test_a_region_that_waits_for_itself_is_refused() -> None:
    x = variable()
    r = relay.nn.relu(begin(x))
    through = begin(relay.exp(end(r)))
    body = end(relay.add(r, through))
    with pytest.raises(TVMError) as caught:
        relay.transform.PartitionGraph()(module([x], body))
    assert str(caught.value) == (
        "the region of a that holds nn.relu, add depends on itself: one of its results is used outside of the region to"
        " compute an input of it. End the region before; MergeCompilerRegions makes no such regions"
    )


def test_borders_that_contradict_each_other() -> None:
    x = variable()
    joined = end(relay.add(begin(x, "a"), begin(x, "b")))
    with pytest.raises(
        TVMError, match="joins regions of different compilers, a and b: every way from one to the other must"
    ):
        relay.transform.PartitionGraph()(module([x], joined))
    with pytest.raises(
        TVMError, match="the region of abs begins with the compiler a, but ends with b; both borders must name"
    ):
        relay.transform.PartitionGraph()(module([x], end(relay.abs(begin(x, "a")), "b")))


def test_borders_without_a_partner_mean_nothing() -> None:
    x = variable()
    mod = module([x], relay.abs(begin(x)))
    same(relay.transform.PartitionGraph()(mod), module([x], relay.abs(x)))
    data = np.float32([[-1, 2, -3], [4, -5, 6]])
    for kind in ("graph", "vm"):
        assert_same(evaluate(mod, data, kind=kind), [np.abs(data)])


# ---- functions of other compilers


def two_functions() -> relay.IRModule:
    x = variable()
    table = [("a.relu_abs", is_op("abs")(is_op("nn.relu")(wildcard())))]
    with taking("b", ["sigmoid"]):
        return partitioned(module([x], relay.sigmoid(relay.abs(relay.nn.relu(x)))), ["a", "b"], table)


def test_inline_undoes() -> None:
    mod, x = two_functions(), variable()
    undone = relay.transform.InlineCompilerFunctionsBoundTo([mod.get_global_var("tvmgen_default_a_main_0")])(mod)
    assert list(external(undone)) == ["tvmgen_default_b_main_1"]
    both = relay.transform.InlineCompilerFunctionsBoundTo(mod.get_global_vars()[1:])(mod)
    same(both, module([x], relay.sigmoid(relay.abs(relay.nn.relu(x)))))
    with pytest.raises(TVMError, match="InlineCompilerFunctionsBoundTo: the module has no relay function @nobody"):
        relay.transform.InlineCompilerFunctionsBoundTo(["nobody"])(mod)


def test_inline_puts_them_where_they_are_called_and_outline_takes_them_out() -> None:
    mod = two_functions()
    inlined = relay.transform.Inline()(mod)
    assert [g.name_hint for g in inlined.get_global_vars()] == ["main"]
    assert inlined["main"].body.op.attrs["global_symbol"] == "tvmgen_default_b_main_1"
    outline = relay.transform.OutlineCompilerFunctionsWithExistingGlobalSymbols
    same(outline()(inlined), mod)
    assert list(external(outline("a")(inlined))) == ["tvmgen_default_a_main_0"]
    nameless = module([variable()], relay.const(1.0))
    x = variable()
    literal = relay.Function([variable("y")], relay.const(1.0), None, None, {"Compiler": "a"})
    nameless = module([x], relay.Call(literal, [x]))
    with pytest.raises(
        TVMError, match="a function of the compiler a has no attribute global_symbol, which would be its name"
    ):
        outline()(nameless)


def test_extern_functions_are_called_lowered() -> None:
    mod = relay.transform.MarkCompilerFunctionsAsExtern("a")(two_functions())
    assert dict(mod["tvmgen_default_a_main_0"].attrs) == {"Extern": 1}
    assert mod["tvmgen_default_b_main_1"].attrs["Compiler"] == "b"
    call = mod["main"].body.args[0]
    assert call.op.name == "call_lowered" and call.args[0].name_hint == "tvmgen_default_a_main_0"
    assert isinstance(call.args[1], relay.Tuple)
    assert mod["main"].ret_type == two_functions()["main"].ret_type


# ---- random graphs


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_mean_the_same(seed: int) -> None:
    generator, rng = Generator(seed, 16), np.random.default_rng(seed)
    mod, inputs = generator.module(), generator.inputs()
    want = evaluate(mod, *inputs)
    operators = [o for o in OPERATORS if o != "zeros"]
    table = [("a.conv_relu", CONV_RELU), ("b.mul_add", MUL_ADD)]
    chosen = [list(rng.choice(operators, 10, replace=False)) for _ in "ab"]
    with taking("a", chosen[0]), taking("b", chosen[1]):
        counts = []
        for merge in (True, False):
            parts = partitioned(mod, ["a", "b"], table if seed % 2 else (), merge, bool(seed % 3), bool(seed % 5))
            assert not re.search("annotation", str(parts))
            assert_same(evaluate(parts, *inputs), want)
            counts.append(len(external(parts)))
        assert counts[0] <= counts[1]
    for f in external(parts).values():
        assert not relay.analysis.free_vars(f)


PASSES = {
    "ToMixedPrecision": (), "ConvertLayout": ({"nn.conv2d": ["NHWC", "default"]},), "ToANormalForm": (), "ToBasicBlockNormalForm": (),
    "DeadCodeElimination": (), "FoldConstant": (), "SimplifyExpr": (), "EliminateCommonSubexpr": (), "FastMath": (), "PartialEvaluate": (),
    "RemoveUnusedFunctions": (), "EtaExpand": (), "DefuseOps": (), "LambdaLift": (), "CombineParallelConv2D": (), "CanonicalizeCast": (),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_passes_leave_the_functions_of_other_compilers_alone(name: str) -> None:
    rng = np.random.default_rng(0)
    x = variable("x", (1, 4, 6, 6))
    weights = [relay.const(rng.random(s, "float32") / 9) for s in ((8, 4, 3, 3), (4, 8, 3, 3))]
    body = relay.nn.conv2d(relay.tanh(relay.nn.conv2d(x, weights[0], padding=(1, 1))), weights[1])
    mod = module([x], relay.nn.relu(body))
    with taking("a", ["tanh"]):
        parts = partitioned(mod, ["a"])
    changed = getattr(relay.transform, name)(*PASSES[name])(parts)
    same(relay.IRModule({g: f for g, f in changed.functions.items() if g.name_hint != "main"}),
         relay.IRModule({g: f for g, f in parts.functions.items() if g.name_hint != "main"}))  # fmt: skip
    data = rng.random((1, 4, 6, 6), "float32")
    assert_same([v.astype("float32") for v in evaluate(changed, data)], evaluate(mod, data), 3e-2)
