"""Regions in whole programs: control flow, closures, dynamic dimensions, tuples, functions as values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_byoc.helpers import (
    DATA,
    KINDS,
    RELU,
    assert_same,
    c_module,
    evaluate,
    external,
    interpreted,
    partitioned,
    registered,
    relu_exp,
    relu_parts,
    taking,
    unpacked,
)
from tilewright import relay
from tilewright.relay.dataflow_pattern import is_op, wildcard
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import TVMError


def loop() -> relay.IRModule:
    """Adds relu(x) to a sum until it is large; the way out is in the middle."""
    mod = relay.IRModule()
    go = relay.GlobalVar("go")
    i, x, s = relay.var("i", shape=(), dtype="int32"), relay.var("x", shape=(2, 3)), relay.var("s", shape=(2, 3))
    grown = relay.add(relay.nn.relu(x), s)
    again = relay.Call(go, [relay.add(i, relay.const(1)), relay.tanh(x), grown])
    body = relay.If(relay.less(i, relay.const(3)), again, relay.multiply(grown, relay.exp(s)))
    mod[go] = relay.Function([i, x, s], body, relay.TensorType((2, 3)))
    y = relay.var("y", shape=(2, 3))
    mod["main"] = relay.Function([y], relay.Call(go, [relay.const(0), relay.abs(y), y]))
    return mod


def test_regions_in_loops_and_branches(tmp_path: Path) -> None:
    mod = loop()
    with taking("a", ["add", "nn.relu", "abs", "multiply", "exp"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        assert {name.split("_a_")[1][:-2] for name in external(parts)} == {"go", "main"}
        assert_same(evaluate(parts, DATA), evaluate(mod, DATA))
        assert_same(evaluate(parts, DATA, kind="vm"), evaluate(mod, DATA))


def test_regions_in_closures_and_matches() -> None:
    mod = tvm.IRModule.from_expr(relay.const(0))
    prelude = relay.Prelude(mod)
    x, v, captured = relay.var("x", shape=(2, 3)), relay.var("v", shape=(2, 3)), relay.var("captured")
    _, cons, nil = mod.get_type("List")
    values = relay.Call(cons, [x, relay.Call(cons, [relay.exp(x), relay.Call(nil, [])])])
    function = relay.Function([v], relay.add(relay.nn.relu(v), captured))
    mapped = relay.Call(prelude.map, [function, values])
    p, q = relay.var("p", shape=(2, 3)), relay.var("q", shape=(2, 3))
    total = relay.Call(prelude.foldl, [relay.Function([p, q], relay.add(p, q)), x, mapped])
    mod["main"] = relay.Function([x], relay.Let(captured, relay.tanh(x), total))
    want = evaluate(mod, DATA)
    with taking("a", ["add", "nn.relu", "exp", "tanh"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        assert len(external(parts)) >= 4
        assert_same(evaluate(parts, DATA), want)
        assert_same(evaluate(parts, DATA, kind="vm"), want)


def test_sizes_known_only_at_run_time() -> None:
    n = relay.Any()
    x = relay.var("x", shape=(n, 4))
    w = relay.const(np.float32(np.random.default_rng(0).random((5, 4))))
    y = relay.nn.relu(relay.nn.dense(x, w))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(y), relay.nn.softmax(relay.tanh(y))])))
    with taking("a", ["nn.dense", "nn.relu", "nn.softmax"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"])
        vm = VirtualMachine(relay.vm.compile(parts, "llvm"), tvm.cpu())
    for size in (1, 3, 7):
        data = np.float32(np.random.default_rng(size).standard_normal((size, 4)))
        assert_same(unpacked(vm.run(data)), evaluate(mod, data))


def test_results_that_are_tuples_in_tuples() -> None:
    x = relay.var("x", shape=(2, 4))
    r = relay.nn.relu(x)
    halves = relay.split(r, 2, axis=1)
    mod = relay.IRModule.from_expr(
        relay.Function([x], relay.Tuple([relay.exp(halves[1]), r, halves[0], relay.tanh(r)]))
    )
    data = np.float32(np.arange(8).reshape(2, 4)) - 4
    with taking("a", ["nn.relu", "split"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"], non_call_ops=False)
        (function,) = external(parts).values()
        assert any([isinstance(f, relay.TupleType) for f in function.ret_type.fields])
        for kind in ("debug", *KINDS):
            assert_same(evaluate(parts, data, kind=kind), evaluate(mod, data))


def test_tuples_as_arguments() -> None:
    x = relay.var("x", shape=(2, 3))
    body = relay.concatenate([relay.exp(x), relay.tanh(x), x], axis=0)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([body, relay.nn.relu(body)])))
    with taking("a", ["concatenate", "nn.relu"]), registered(a=interpreted):
        parts = partitioned(mod, ["a"], non_call_ops=False)
        (function,) = external(parts).values()
        assert isinstance(function.params[0].checked_type, relay.TupleType)
        for kind in KINDS:
            assert_same(evaluate(parts, DATA, kind=kind), evaluate(mod, DATA))


def test_external_functions_as_values() -> None:
    """A function that a program hands on, not only calls."""
    x, f = (
        relay.var("x", shape=(2, 3)),
        relay.var("f", relay.FuncType([relay.TensorType((2, 3))], relay.TensorType((2, 3)))),
    )
    parts = relu_parts()
    gvar = parts.get_global_var("tvmgen_default_a_main_0")
    parts["main"] = relay.Function([x], relay.Let(f, gvar, relay.exp(relay.Call(f, [relay.Call(f, [x])]))))
    with registered(a=interpreted):
        assert_same(evaluate(parts, DATA, kind="vm"), [np.exp(np.maximum(DATA, 0))])


def test_composites_that_nobody_takes_are_compiled() -> None:
    table = [("a.relu_exp", is_op("exp")(is_op("nn.relu")(wildcard())))]
    mod = relay.transform.MergeComposite(table)(relu_exp())
    for kind in KINDS:
        assert_same(evaluate(mod, DATA, kind=kind), [np.exp(np.maximum(DATA, 0))])


def test_what_reads_one_result_several_times_calls_once() -> None:
    calls: list[int] = []

    def generate(func: relay.Function) -> tvm.runtime.Module:
        symbol = str(func.attrs["global_symbol"])
        inner = interpreted(func)

        def run(*tensors: Any) -> None:
            calls.append(1)
            inner[symbol](*tensors)

        return tvm.runtime.Module.from_functions({symbol: run}, "a")

    x = relay.var("x", shape=(2, 3))
    r = relay.nn.relu(x)
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(r), relay.tanh(r), r, r])))
    with taking("a", ["nn.relu"]), registered(a=generate):
        parts = partitioned(mod, ["a"])
        for kind in KINDS:
            calls.clear()
            assert_same(evaluate(parts, DATA, kind=kind), evaluate(mod, DATA))
            assert calls == [1], kind


def test_extern_functions_find_their_modules() -> None:
    marked = relay.transform.MarkCompilerFunctionsAsExtern("a")(relu_parts())
    with registered(a=c_module(RELU)):
        made = tvm.get_global_func("relay.ext.a")(relu_parts()["tvmgen_default_a_main_0"])
    complete = marked.with_attr("external_mods", [made])
    for kind in ("debug", "graph", "vm"):
        assert_same(evaluate(complete, DATA, kind=kind), [np.exp(np.maximum(DATA, 0))])
    with pytest.raises(TVMError) as caught:
        relay.build(marked, "llvm")
    assert str(caught.value) == (
        "tvmgen_default_a_main_0 is marked Extern, but none of the 0 modules in the IRModule's attribute external_mods has a"
        " function of that name"
    )
