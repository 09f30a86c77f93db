"""CollagePartition chooses between code generators by cost: known best answers under made-up costs, and programs that run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_byoc.helpers import assert_same, evaluate, external, interpreted, registered
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.collage import CostEstimator, CustomCostEstimator, DataflowGraph, MockCostEstimator, collage
from tilewright.relay.collage.partition import CandidatePartition, candidates
from tilewright.relay.collage.partition_spec import gather_partition_specs
from tilewright.relay.collage.sub_graph import bits
from tilewright.relay.dataflow_pattern import is_constant, is_op, is_tuple, is_tuple_get_item, wildcard
from tilewright.relay.op.contrib import register_pattern_table

UNARY = ("nn.relu", "abs", "tanh", "exp")


def entry(compiler: str, name: str, *args: Any) -> tuple[Any, ...]:
    return (f"{compiler}.{name.replace('nn.', '')}", is_op(name)(*(args or (wildcard(),))))


@pytest.fixture(autouse=True, scope="module")
def compilers() -> Iterator[None]:
    """Two code generators: colla takes single operators, collb also what a convolution or a product begins, and a tuple's user."""
    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    register_pattern_table(
        "colla", lambda: [*[entry("colla", n) for n in UNARY], entry("colla", "add", wildcard(), wildcard())]
    )
    register_pattern_table(
        "collb",
        lambda: [
            ("collb.conv_relu", is_op("nn.relu")(conv)),
            ("collb.conv", conv),
            ("collb.norm", is_tuple_get_item(is_op("nn.batch_norm")(*[wildcard() for _ in range(5)]), 0)),
            ("collb.concat", is_op("concatenate")(is_tuple(None))),
            entry("collb", "abs"),
            ("collb.relu", is_op("nn.relu")(wildcard()), lambda e: e.checked_type.concrete_shape[0] != 7),
        ],
    )
    with registered(colla=interpreted, collb=interpreted):
        yield


def collaged(mod: Any, estimator: Any, targets: Any = ("colla", "collb"), **options: Any) -> Any:
    with tvm.transform.PassContext(config={f"relay.collage.{k}": v for k, v in options.items()}) as ctxt:
        given = [tvm.target.Target("llvm"), *[tvm.target.Target(t, host="llvm") for t in targets]]
        config = tvm.target.make_compilation_config(ctxt, given)
        mod = relay.transform.CapturePostDfsIndexInSpans()(relay.transform.InferType()(mod))
        return relay.transform.CollagePartition(config, estimator)(mod)


def chain(*names: str, shape: tuple[int, ...] = (2, 3)) -> Any:
    x = relay.var("x", shape=shape)
    body: Any = x
    for name in names:
        body = relay.op.lookup(name)(body)
    return relay.IRModule.from_expr(relay.Function([x], body))


def operators(f: Any) -> list[str]:
    """The operators in a function, in alphabetic order."""
    found: list[str] = []
    relay.analysis.post_order_visit(
        f, lambda e: found.append(e.op.name) if isinstance(e, relay.Call) and isinstance(e.op, tvm.ir.Op) else None
    )
    return sorted(found)


def taken(mod: Any) -> list[list[str]]:
    """The operators of each function that another compiler has."""
    return sorted(map(operators, external(mod).values()))


def test_one_operator_goes_where_it_costs_least() -> None:
    for costs, name in (((1, 2, 3), None), ((2, 1, 3), "colla"), ((3, 2, 1), "collb")):
        mod = collaged(chain("nn.relu"), MockCostEstimator(dict(zip(("llvm", "colla", "collb"), costs, strict=True))))
        assert list(external(mod)) == ([f"collage_{name}_relu"] if name else [])


def test_the_program_that_comes_out() -> None:
    mod = collaged(chain("nn.relu", "abs"), MockCostEstimator({"llvm": 3, "colla": 1}), ["colla"])
    expected = relay.fromtext("""#[version = "0.0.5"]
def @collage_colla_relu_abs(%FunctionVar_0: Tensor[(2, 3), float32], Primitive=1, Compiler="colla",
        global_symbol="collage_colla_relu_abs") -> Tensor[(2, 3), float32] {
  %0 = fn (%FunctionVar_01: Tensor[(2, 3), float32], Composite="colla.relu") -> Tensor[(2, 3), float32] {
    nn.relu(%FunctionVar_01)
  };
  %1 = %0(%FunctionVar_0);
  %2 = fn (%FunctionVar_02: Tensor[(2, 3), float32], Composite="colla.abs") -> Tensor[(2, 3), float32] {
    abs(%FunctionVar_02)
  };
  %2(%1)
}

def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  @collage_colla_relu_abs(%x)
}
""")
    tvm.ir.assert_structural_equal(mod, expected)


def test_fusion_is_worth_what_the_estimator_says() -> None:
    # Five calls of colla in one function cost 1 + .9 + .81 + ..., of llvm with depth 1 one each.
    names = ("nn.relu", "abs", "tanh", "exp", "abs")
    costs = {"llvm": 0.95, "colla": 1.0}
    mod = collaged(chain(*names), MockCostEstimator(costs), ["colla"], tvm_max_depth=1)
    assert taken(mod) == [sorted(names)]
    assert not external(collaged(chain(*names), MockCostEstimator(costs), ["colla"], tvm_max_depth=1, byoc_max_depth=1))
    alone = {"byoc_fusion_style": ["colla.NoFusion"]}
    assert not external(collaged(chain(*names), MockCostEstimator(costs), ["colla"], tvm_max_depth=1, **alone))


def test_equal_functions_are_one() -> None:
    x = relay.var("x", shape=(2, 3))
    y = relay.sort(relay.nn.relu(relay.sort(relay.nn.relu(x))))
    estimator = MockCostEstimator({"llvm": 2, "colla": 1}, max_estimates=9)
    mod = collaged(relay.IRModule.from_expr(relay.Function([x], y)), estimator, ["colla"])
    assert list(external(mod)) == ["collage_colla_relu"]
    assert estimator.num_estimates == 3  # llvm: relu, sort; colla: relu


class Table(CostEstimator):
    """Costs by target and operators."""

    def __init__(self, table: dict[tuple[str, ...], float], other: float = 100.0) -> None:
        self.table, self.other = table, other

    def estimate(self, mod: Any, target: Any) -> float:
        names = sorted([n for f in mod.functions.values() for n in operators(f)])
        return self.table.get((target.kind.name, *names), self.other)


def test_the_shortest_path_crosses_from_one_to_the_other() -> None:
    # Greedy would take collb's conv_relu (4), or colla's relu (1) after its conv (3.5); with the add, llvm's three are best.
    data, weight = relay.var("x", shape=(1, 2, 5, 5)), relay.const(np.ones((2, 2, 1, 1), "float32"))
    conv = relay.nn.conv2d(data, weight)
    f = relay.Function([data], relay.tanh(relay.add(relay.nn.relu(conv), relay.const(1.0))))
    mod = relay.IRModule.from_expr(f)
    costs = {
        ("llvm", "nn.conv2d"): 5.0,
        ("llvm", "nn.conv2d", "nn.relu"): 5.5,
        ("llvm", "add", "nn.conv2d", "nn.relu"): 5.6,
        ("llvm", "tanh"): 3.0,
        ("collb", "nn.conv2d", "nn.relu"): 4.0,
        ("collb", "nn.conv2d"): 3.5,
        ("colla", "nn.relu"): 1.0,
        ("colla", "add"): 1.0,
        ("colla", "tanh"): 0.5,
    }
    made = collaged(mod, Table(costs))
    assert taken(made) == [["add"], ["nn.conv2d", "nn.relu"], ["tanh"]]
    cheaper = collaged(mod, Table({**costs, ("llvm", "add", "nn.conv2d", "nn.relu"): 4.9}))
    assert taken(cheaper) == [["tanh"]]
    image = np.random.default_rng(0).standard_normal((1, 2, 5, 5), dtype=np.float32)
    for parts in (made, cheaper):
        for kind in ("graph", "vm"):
            assert_same(evaluate(parts, image, kind=kind), evaluate(mod, image))


def test_tuples_projections_and_predicates() -> None:
    x = relay.var("x", shape=(2, 4, 3, 3))
    parameters = [relay.const(np.float32([1, 2, 3, 4])) for _ in range(4)]
    norm = relay.nn.batch_norm(x, *parameters)[0]
    joined = relay.concatenate([relay.abs(norm), relay.nn.relu(norm)], axis=0)
    mod = relay.IRModule.from_expr(relay.Function([x], joined))
    made = collaged(
        mod, MockCostEstimator({"llvm": 5, "collb": 1}), ["collb"], byoc_fusion_style=["collb.MaxDepthFusion"]
    )
    assert taken(made) == [["abs", "concatenate", "nn.batch_norm", "nn.relu"]]
    data = np.random.default_rng(0).standard_normal((2, 4, 3, 3), dtype=np.float32)
    assert_same(evaluate(made, data, kind="graph"), evaluate(mod, data))
    single = collaged(mod, MockCostEstimator({"llvm": 5, "collb": 1}), ["collb"], byoc_fusion_style=["collb.NoFusion"])
    assert taken(single) == [["abs"], ["concatenate"], ["nn.batch_norm"], ["nn.relu"]]
    refused = collaged(chain("nn.relu", shape=(7,)), MockCostEstimator({"llvm": 5, "collb": 1}), ["collb"])
    assert not external(refused)


def cost_of_all(graph: DataflowGraph, found: list[CandidatePartition], cost: Any) -> float:
    """The least cost of an exact cover, by trying all."""
    calls = list(bits(graph.calls))

    def best(held: int) -> float:
        rest = [i for i in calls if not held >> i & 1]
        if not rest:
            return 0.0
        return min(
            [
                cost(c) + best(held | c.sub_graph.calls)
                for c in found
                if c.sub_graph.calls >> rest[0] & 1 and not c.sub_graph.calls & held
            ],
            default=math.inf,
        )

    return best(0)


@pytest.mark.parametrize("seed", range(6))
def test_no_cover_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = relay.var("x", shape=(2, 3))
    values: list[Any] = [x]
    for _ in range(7):
        name = str(rng.choice([*UNARY, "add"]))
        args = [
            values[int(rng.integers(max(0, len(values) - 3), len(values)))] for _ in range(2 if name == "add" else 1)
        ]
        values.append(relay.op.lookup(name)(*args))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.Tuple(values[-2:]))))
    ctxt = tvm.transform.PassContext()
    config = tvm.target.make_compilation_config(ctxt, ["llvm", "colla", "collb"])
    graph = DataflowGraph(mod["main"])
    found = candidates(graph, gather_partition_specs(config))
    numbers = itertools.count()
    prices = {id(c): float(rng.integers(1, 40)) for c in found if next(numbers) >= 0}
    chosen = relay.collage.best_partition(graph, found, lambda c: prices[id(c)])
    assert sum([prices[id(c)] for c in chosen]) == cost_of_all(graph, found, lambda c: prices[id(c)])
    assert sorted([i for c in chosen for i in bits(c.sub_graph.calls)]) == list(bits(graph.calls))
    data = np.float32(rng.standard_normal((2, 3)))
    by_name = {c: prices[id(c)] for c in found}
    table = {(c.spec.target.kind.name, c.sub_graph.label): p for c, p in by_name.items()}

    class ByLabel(CostEstimator):
        def estimate(self, m: Any, target: Any) -> float:
            return table.get((target.kind.name, "_".join(operators(m["main"]))), float(len(m.functions)))

    assert_same(evaluate(collaged(mod, ByLabel()), data, kind="graph"), evaluate(mod, data))


def test_measured_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow code generator gets nothing, one that cannot compile neither."""
    monkeypatch.setattr(collage, "WARMUP_MIN_REPEAT_MS", 1)
    monkeypatch.setattr(collage, "MEASURE_NUMBER", 2)
    monkeypatch.setattr(collage, "MEASURE_REPEAT", 2)

    def refuses(func: Any) -> Any:
        raise tvm.TVMError("not this one")

    with registered(collb=refuses):
        mod = collaged(chain("nn.relu", "abs"), CostEstimator())
        assert not external(mod)

    def broken(func: Any) -> Any:
        raise KeyError("a slip of the generator's own")

    # What is no refusal must not look like one.
    with registered(collb=broken), pytest.raises(KeyError, match="a slip"):
        collaged(chain("nn.relu", "abs"), CostEstimator())
    with pytest.raises(tvm.TVMError, match="no code generator is registered for it"):
        collaged(chain("nn.relu", "abs"), CostEstimator())
    tvm.register_func("relay.ext.collb", interpreted, override=True)


def test_custom_costs_and_errors() -> None:
    name = "tests.collage.seconds"
    with pytest.raises(
        tvm.TVMError, match=f"there is no global function {name}; register a function of a module and a target"
    ):
        collaged(chain("abs"), CustomCostEstimator(name))
    tvm.register_func(name, lambda mod, target: {"llvm": 3.0, "colla": 2.0, "collb": 1.0}[target.kind.name])
    try:
        assert list(external(collaged(chain("abs"), CustomCostEstimator(name)))) == ["collage_collb_abs"]
    finally:
        tvm.runtime.remove_global_func(name)
    with pytest.raises(tvm.TVMError, match="MockCostEstimator: more than 2 estimates were asked for"):
        collaged(chain("abs", "exp"), MockCostEstimator({"llvm": 1, "colla": 1, "collb": 1}, 2))
    with pytest.raises(tvm.TVMError, match=r'holds \'colla.Fast\', but its entries are "<compiler>.<style>"'):
        collaged(chain("abs"), MockCostEstimator({"llvm": 1}), byoc_fusion_style=["colla.Fast"])
    with pytest.raises(tvm.TVMError, match="the compiler ccompiler has no pattern table"):
        collaged(chain("abs"), MockCostEstimator({"llvm": 1}), ["ccompiler"])
    open_shape = relay.IRModule.from_expr(relay.Function([v := relay.var("v", shape=(relay.Any(), 2))], relay.abs(v)))
    with pytest.raises(tvm.TVMError, match=r"an argument is of type Tensor\[\(\?, 2\), float32\]"):
        collaged(open_shape, CostEstimator())


def test_branches_and_other_functions() -> None:
    text = """#[version = "0.0.5"]
def @other(%y: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { abs(nn.relu(%y)) }
def @main(%x: Tensor[(2, 3), float32], %c: bool) -> Tensor[(2, 3), float32] {
  %0 = abs(%x);
  if (%c) { let %z = exp(%0); nn.relu(%z) } else { @other(%0) }
}
"""
    mod = relay.fromtext(text)
    made = collaged(mod, MockCostEstimator({"llvm": 5, "colla": 1}), ["colla"])
    assert taken(made) == [["abs"], ["abs", "nn.relu"], ["exp"], ["nn.relu"]]
    data = np.float32([[1, -2, 3], [-4, 5, -6]])
    for c in (True, False):
        assert_same(evaluate(made, data, c, kind="vm"), evaluate(mod, data, c))


def test_targets_of_external_code_generators() -> None:
    target = tvm.target.Target("colla -speed=3 -mode=fast", host="llvm")
    assert target.kind.is_external_codegen and dict(target.attrs) == {"speed": 3, "mode": "fast"}
    assert tvm.target.Target(str(target)) == tvm.target.Target("colla -speed=3 -mode=fast")
    config = tvm.target.make_compilation_config(None, ["llvm", target])
    assert [t.kind.name for t in config.primitive_targets] == ["llvm", "colla"] and len(config.devices) == 1
    alone = tvm.target.make_compilation_config(None, target)
    assert [t.kind.name for t in alone.primitive_targets] == ["llvm", "colla"]
    with pytest.raises(tvm.TVMError, match="there is no target kind 'collz'"):
        tvm.target.Target("collz")
    made = collaged(chain("nn.relu"), MockCostEstimator({"llvm": 5, "colla": 1}), ["colla"])
    lib = relay.build(made, [tvm.target.Target("llvm"), target])
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.run(x=np.float32([[1, -2, 3]] * 2))
    assert_same([executor.get_output(0).numpy()], [np.float32([[1, 0, 3]] * 2)])
