"""Modules of relay that programs import names from: lowered functions, natural numbers, YOLO's boxes, layout rules, distributions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te
from tilewright.ir import IRModule, SourceName, Span
from tilewright.relay.analysis import analyze_operations_distribution
from tilewright.relay.backend import te_compiler
from tilewright.relay.op.contrib import register_pattern_table
from tilewright.relay.testing import nat, yolo_detection
from tilewright.relay.transform.infer_layout_utils import InferCorrectLayoutOutput
from tilewright.relay.transform.suffixes import tag_suffixes
from tilewright.support.errors import TVMError

LLVM = tvm.target.Target("llvm")


def dense() -> relay.Function:
    x, w = relay.var("x", shape=(3, 4)), relay.var("w", shape=(5, 4))
    return relay.Function([x, w], relay.nn.dense(x, w))


def test_lowered_functions() -> None:
    compiler = te_compiler.get()
    first, again = compiler.lower(dense(), LLVM), compiler.lower(dense(), LLVM)
    assert first is again and first.prim_fn_var.name_hint == "fused_nn_dense"
    assert [tuple(t.shape) for t in (*first.inputs, *first.outputs)] == [(3, 4), (5, 4), (3, 5)]
    assert isinstance(first.prim_func, tvm.tir.PrimFunc) and first.prim_fn_var in first.funcs.functions
    ((key, value),) = compiler.items()
    assert key == te_compiler.CCacheKey(dense(), LLVM) and value.use_count == 2
    assert key != te_compiler.CCacheKey(dense(), "llvm -mcpu=haswell")
    x, w = np.random.randn(3, 4).astype("float32"), np.random.randn(5, 4).astype("float32")
    out = tvm.nd.empty((3, 5))
    compiler.jit(dense(), LLVM)(tvm.nd.array(x), tvm.nd.array(w), out)
    np.testing.assert_allclose(out.numpy(), x @ w.T, rtol=1e-5, atol=1e-5)
    compiler.clear()
    assert compiler.items() == []
    with pytest.raises(TVMError, match="the compiler lowers relay functions, but was given Var"):
        compiler.lower(relay.var("x", shape=(2,)), LLVM)


def test_tensors_of_a_call() -> None:
    call: Any = relay.transform.InferType()(IRModule.from_expr(dense()))["main"].body
    inputs = [te.placeholder((3, 4), name="a"), te.placeholder((5, 4), name="b")]
    lowered = te_compiler.lower_call(call, inputs, LLVM)
    assert lowered.implement.name == "nn.dense.card" and tuple(lowered.outputs[0].shape) == (3, 5)
    best, outputs = te_compiler.select_implementation(call.op, call.attrs, inputs, call.checked_type, LLVM)
    assert best.plevel == 10 and len(outputs) == 1
    shape = te_compiler.get_shape([3, relay.Any(), te.var("n"), 1 << 40])
    assert [str(d.dtype) for d in shape] == ["int32", "int32", "int32", "int64"] and shape[1].name == "any_dim"
    assert te_compiler.lower_to_primfunc(dense(), LLVM).attrs["target"] is LLVM


def test_the_best_of_the_valid_implementations() -> None:
    call: Any = relay.transform.InferType()(IRModule.from_expr(dense()))["main"].body
    inputs = [te.placeholder((3, 4), name="a"), te.placeholder((5, 4), name="b")]

    def ways(attrs: Any, given: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        strategy = relay.op.OpStrategy()
        for name, level, condition in (("slow", 5, None), ("fast", 20, None), ("odd", 30, given[0].shape[1] % 2 == 1)):
            part = relay.op.OpSpecialization(condition)
            part.implementations.append(relay.op.OpImplementation(name, lambda a, x, t: [x[0]], None, level))
            strategy.specializations.append(part)
        return strategy

    with relay.testing.TempOpAttr("nn.dense", "FTVMStrategy", ways):
        args = (call.op, call.attrs, inputs, call.checked_type, LLVM)
        assert [i.name for i in te_compiler.get_valid_implementations(*args)] == ["slow", "fast"]
        assert te_compiler.select_implementation(*args)[0].name == "fast"
    assert call.op.get_attr("FTVMStrategy") is None


def test_natural_numbers() -> None:
    mod = IRModule()
    prelude = relay.Prelude(mod)
    nat.add_nat_definitions(prelude)
    nat.add_nat_definitions(prelude)
    three = nat.make_nat_expr(prelude, 3)
    assert nat.count(prelude, three) == 3 and nat.count(prelude, nat.make_nat_value(prelude, 4)) == 4
    double = prelude.mod.get_global_var("nat_double")
    assert nat.count(prelude, relay.create_executor("debug", mod=prelude.mod).evaluate(double(three))) == 6
    with pytest.raises(ValueError, match="-1 is not a natural number"):
        nat.make_nat_expr(prelude, -1)
    with pytest.raises(TypeError, match="count takes a value of type nat"):
        nat.count(prelude, relay.const(1))


def test_boxes_of_yolo(capsys: pytest.CaptureFixture[str]) -> None:
    out = np.zeros((2, 5 + 2, 4, 4), "float32")
    out[0, :, 1, 2] = [0.5, 0.5, 0.0, 0.0, 0.9, 0.9, 0.1]
    out[1, :, 1, 2] = [0.5, 0.5, 0.0, 0.0, 0.8, 0.8, 0.1]
    layer = {"type": "Yolo", "output": out, "biases": [1, 1, 32, 16, 36, 16], "mask": [1, 2], "classes": 2}
    found = yolo_detection.get_detections((64, 64), (64, 64), 0.5, True, [layer])
    assert [tuple(d["bbox"]) for d in found] == [(0.625, 0.375, 0.5, 0.25), (0.625, 0.375, 0.5625, 0.25)]
    np.testing.assert_allclose([d["prob"][0] for d in found], [0.81, 0.64], rtol=1e-5)
    yolo_detection.do_nms_sort(found, 2, 0.45)
    assert found[1]["prob"] == [0.0, 0.0] and found[0]["prob"][0] > 0.8
    yolo_detection.show_detections(out, found, 0.5, ["cat", "dog"], 2)
    assert capsys.readouterr().out == "class:cat Percent:81% bbox: 0.625, 0.375, 0.500, 0.250\n"
    picture = yolo_detection.draw_detections(None, np.zeros((3, 64, 64), "float32"), found, 0.5, ["cat", "dog"], 2)
    drawn = np.argwhere(picture.any(0))
    assert drawn.min(0).tolist() == [16, 24] and drawn.max(0).tolist() == [32, 56] and not picture[:, 20, 40].any()
    wide = yolo_detection.get_detections((64, 64), (128, 64), 0.5, False, [layer])[0]["bbox"]
    assert tuple(wide) == (80.0, 16.0, 64.0, 32.0)
    with pytest.raises(ValueError, match='has the type "Region" or "Yolo", but this one has \'Detection\''):
        yolo_detection.get_detections((64, 64), (64, 64), 0.5, True, [{**layer, "type": "Detection"}])


def test_a_layout_rule_of_a_program() -> None:
    """`ConvertLayout` asks it where data in another layout arrive."""
    asked: list[Any] = []

    def any_layout(attrs: Any, new: list[str], old: list[str], types: Any) -> InferCorrectLayoutOutput:
        asked.append((new, old))
        return InferCorrectLayoutOutput([new[0]], [new[0]], attrs)

    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.const(np.random.randn(8, 8, 3, 3).astype("float32"))
    body = relay.cumsum(relay.nn.conv2d(x, w, padding=1), 0)
    convert = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    before = IRModule.from_expr(relay.Function([x], body))
    with relay.testing.TempOpAttr("cumsum", "FInferCorrectLayout", any_layout):
        after = convert(before)
    assert asked == [(["NCHW"], ["NCHW"]), (["NHWC"], ["NCHW"])]
    assert isinstance(after["main"].body, relay.Call) and after["main"].body.op.name == "layout_transform"
    assert after["main"].body.args[0].op.name == "cumsum"
    plain = convert(before)
    assert plain["main"].body.op.name == "cumsum"
    data = np.random.randn(1, 8, 6, 6).astype("float32")
    results = [relay.create_executor("debug", mod=m).evaluate()(data).numpy() for m in (before, after)]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def named(e: Any, name: str) -> Any:
    return e.replace(span=Span(SourceName(name), 1, 1, 1, 1))


def test_which_compiler_runs_what() -> None:
    """Names of the model's nodes tell where their operators went; composites count as one operator."""
    table = [("dist.relu_exp", relay.dataflow_pattern.is_op("exp")(relay.dataflow_pattern.is_op("nn.relu")(None)))]
    register_pattern_table("dist", lambda: table)
    x = relay.var("x", shape=(2, 2))
    body = named(relay.nn.relu(x), "activation")
    body = named(relay.tanh(named(relay.exp(body), "activation")), "last")
    mod = tag_suffixes(IRModule.from_expr(relay.Function([x], body)))
    merged = relay.transform.MergeComposite(table)(mod)
    parts = [relay.transform.AnnotateTarget("dist"), relay.transform.PartitionGraph()]
    found = analyze_operations_distribution(tvm.transform.Sequential(parts)(merged))
    assert {k: v[:2] for k, v in found.items()} == {
        "activation_PART_0": ["dist", "dist.relu_exp"],
        "activation_PART_1": ["dist", "dist.relu_exp"],
        "last_PART_0": ["generic", "tanh"],
    }
    undone = relay.transform.InlineComposites("dist")(merged)
    assert tvm.ir.structural_equal(undone, relay.transform.InferType()(mod))
    with pytest.raises(TVMError, match="the compiler 'nobody' has no pattern table"):
        relay.transform.InlineComposites("nobody")(merged)


def test_tensors_of_nested_tuples() -> None:
    a, b = (relay.TensorType((n, 2), "float32") for n in (1, 3))
    nested = relay.TupleType([relay.TupleType([a, b]), a])
    assert relay.op.memory.flatten_tuple_type(nested) == [a, b, a]
    x = relay.var("x", nested)
    parts = relay.op.memory.from_tuple_type(nested, x)
    whole = relay.Function([x], relay.op.memory.to_tuple_type(nested, parts))
    assert relay.testing.run_infer_type(whole).ret_type == nested
    assert relay.op.memory.from_tuple_type(nested, whole.body) == parts
    with pytest.raises(TVMError, match="has 3 tensors, but 2 expressions were given"):
        relay.op.memory.to_tuple_type(nested, parts[:2])
    with pytest.raises(TVMError, match="only tensors and tuples of them are flattened"):
        relay.op.memory.flatten_tuple_type(relay.RefType(a))


def test_shapes_that_the_machine_computes() -> None:
    x, y = relay.var("x", shape=(relay.Any(), 4)), relay.var("y", shape=(relay.Any(), relay.Any()))
    body = relay.op.vm.reshape_tensor(x, relay.op.vm.shape_of(y), (relay.Any(), relay.Any()))
    mod = IRModule.from_expr(relay.Function([x, y], body))
    data = np.arange(24, dtype="float32").reshape(6, 4)
    for kind in ("debug", "vm"):
        got = relay.create_executor(kind, mod).evaluate()(data, np.zeros((3, 8), "float32")).numpy()
        np.testing.assert_array_equal(got, data.reshape(3, 8))
    fixed = relay.op.vm.reshape_tensor(x, relay.op.vm.shape_of(y), (3, 8))
    assert relay.testing.run_infer_type(relay.Function([x, y], fixed)).ret_type.concrete_shape == (3, 8)


def test_graph_executor_codegen() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.const(np.arange(32, dtype="float32").reshape(4, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    generator = relay.backend.graph_executor_codegen.GraphExecutorCodegen(None, "llvm")
    for level, kernels in ((0, 2), (1, 1)):
        fused = relay.transform.FuseOps(level)(relay.transform.InferType()(mod))
        graph, lowered, params = generator.codegen(fused, fused["main"])
        ((target, made),) = lowered.items()
        assert target.kind.name == "llvm" and len(made.functions) == kernels
        assert all([isinstance(f, tvm.tir.PrimFunc) for f in made.functions.values()])
        assert [n["op"] for n in json.loads(graph)["nodes"]].count("tvm_op") == kernels
        assert [p.shape for p in params.values()] == [(4, 8)]
    # A function that nobody fused: a kernel for each operator.
    assert len(generator.codegen(mod, mod["main"])[1].popitem()[1].functions) == 2
