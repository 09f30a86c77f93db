"""Using and writing passes: one by one, in sequences, with instruments; walks over relay programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay


def example() -> relay.Function:
    """A convolution whose sum with folded constants is computed twice."""
    c = relay.const(np.ones((1, 4, 6, 6), "float32"))
    weight = relay.var("weight", shape=(4, 4, 3, 3))
    x = relay.var("x", relay.TensorType((1, 4, 8, 8), "float32"))
    conv = relay.nn.conv2d(x, weight)
    y = relay.multiply(relay.add(c, c), relay.const(2, "float32"))
    y = relay.add(conv, y)
    return relay.Function([x, weight], relay.add(relay.add(y, c), relay.add(y, c)))


def calls(mod: tvm.IRModule) -> dict[str, int]:
    return relay.analysis.list_op_freqs(mod)


def run(mod: tvm.IRModule) -> np.ndarray:
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 4, 8, 8), np.float32), rng.random((4, 4, 3, 3), np.float32)
    return relay.create_executor("debug", mod).evaluate()(x, w).numpy()


def test_passes_one_after_another() -> None:
    mod = tvm.IRModule.from_expr(example())
    want = run(mod)
    assert calls(mod) == {"nn.conv2d": 1, "add": 5, "multiply": 1}
    mod = relay.transform.FoldConstant()(mod)
    assert calls(mod) == {"nn.conv2d": 1, "add": 4}
    mod = relay.transform.EliminateCommonSubexpr()(mod)
    assert calls(mod) == {"nn.conv2d": 1, "add": 3}
    unfused = relay.transform.FuseOps(fuse_opt_level=0)(mod)
    fused = relay.transform.FuseOps(fuse_opt_level=2)(mod)
    assert str(unfused).count("Primitive=1") == 4
    assert str(fused).count("Primitive=1") == 1
    for m in (mod, unfused, fused):
        np.testing.assert_allclose(run(m), want, rtol=1e-5)


def test_a_sequence_by_level() -> None:
    seq = tvm.transform.Sequential(
        [
            relay.transform.FoldConstant(),
            relay.transform.EliminateCommonSubexpr(),
            relay.transform.FuseOps(fuse_opt_level=2),
        ]
    )
    mod = tvm.IRModule.from_expr(example())
    with tvm.transform.PassContext(opt_level=1):
        assert calls(seq(mod))["add"] == 5
        assert "Primitive=1" in str(seq(mod))
    with tvm.transform.PassContext(opt_level=3):
        assert calls(seq(mod))["add"] == 3
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["EliminateCommonSubexpr"]):
        assert calls(seq(mod))["add"] == 4


@pytest.mark.parametrize(
    "name",
    [
        "InferType", "SimplifyInference", "FoldConstant", "FoldScaleAxis", "ForwardFoldScaleAxis", "BackwardFoldScaleAxis",
        "CanonicalizeOps", "EliminateCommonSubexpr", "DeadCodeElimination", "SimplifyExpr", "FuseOps",
        "RemoveUnusedFunctions",
    ],
)  # fmt: skip
def test_each_pass_by_itself(name: str) -> None:
    made = getattr(relay.transform, name)()
    mod = tvm.IRModule.from_expr(example())
    new = made(mod)
    assert isinstance(made.info.opt_level, int)
    np.testing.assert_allclose(run(new), run(mod), rtol=1e-5)
    again = tvm.ir.load_json(tvm.ir.save_json(new))
    tvm.ir.assert_structural_equal(again, new)


def test_a_pass_of_ones_own() -> None:
    @relay.transform.function_pass(opt_level=1)
    class ScaleConstants:
        """Multiplies constants."""

        def __init__(self, multiplier: relay.Expr) -> None:
            self.multiplier = multiplier

        def transform_function(self, func: relay.Function, mod: tvm.IRModule, ctx: Any) -> relay.Function:
            owner = self

            class ReplaceConstant(relay.ExprMutator):
                def visit_constant(self, c: relay.Constant) -> relay.Expr:
                    return relay.multiply(owner.multiplier, c)

            return ReplaceConstant().visit(func)

    custom = ScaleConstants(multiplier=relay.const(3, "float32"))
    assert custom.info.name == "ScaleConstants"
    mod = tvm.IRModule.from_expr(example())
    assert calls(custom(mod))["multiply"] > calls(mod)["multiply"]


def test_printing_between_passes(capsys: pytest.CaptureFixture[str]) -> None:
    seq = tvm.transform.Sequential(
        [relay.transform.FoldConstant(), tvm.transform.PrintIR(), relay.transform.EliminateCommonSubexpr()]
    )

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            print(f"Running pass: {info.name}")

    with tvm.transform.PassContext(opt_level=3, instruments=[Names()]):
        seq(tvm.IRModule.from_expr(example()))
    out = capsys.readouterr().out
    order = [
        out.index(f"Running pass: {n}") for n in ("sequential", "FoldConstant", "PrintIR", "EliminateCommonSubexpr")
    ]
    assert order == sorted(order)
    assert "def @main" in out


def test_times_of_a_build() -> None:
    timing = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        relay.build(tvm.IRModule.from_expr(example()), "llvm")
        report = timing.render()
    for name in ("FuseOps", "InferType"):
        assert name in report


def test_counting_visitor() -> None:
    class Counter(relay.ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.names: set[str] = set()
            self.count = 0

        def visit_call(self, call: relay.Call) -> None:
            super().visit_call(call)
            self.count += 1
            if isinstance(call.op, tvm.ir.Op):
                self.names.add(call.op.name)

    counter = Counter()
    counter.visit(example())
    assert (counter.count, counter.names) == (7, {"nn.conv2d", "add", "multiply"})


def test_questions_about_programs() -> None:
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(example()))
    main = mod["main"]
    assert main.body.checked_type == relay.TensorType((1, 4, 6, 6))
    assert main.ret_type == main.body.checked_type
    assert [v.name_hint for v in relay.analysis.free_vars(main.body)] == ["x", "weight"]
    assert relay.analysis.free_vars(main) == []
    assert {v.name_hint for v in relay.analysis.all_vars(main)} == {"x", "weight"}
    seen: list[Any] = []
    relay.analysis.post_order_visit(main, seen.append)
    assert seen[-1] is main
