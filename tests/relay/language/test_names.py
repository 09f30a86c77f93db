"""Names of the language that the documentation of TVM v0.18 gives, where programs look for them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay

NAMES = {
    "relay": "Span SequentialSpan SourceName Type TupleType TensorType TypeKind TypeVar ShapeVar TypeConstraint FuncType TypeRelation"
    " IncompleteType scalar_type RefType GlobalTypeVar TypeCall Any Pattern PatternWildcard PatternVar PatternConstructor PatternTuple"
    " Constructor TypeData Clause Match Expr Constant Tuple Var GlobalVar Function Call Let If TupleGetItem RefCreate RefRead RefWrite"
    " ExprFunctor ExprVisitor ExprMutator TypeFunctor TypeVisitor TypeMutator Prelude ScopeBuilder var const bind save_param_dict"
    " load_param_dict setrecursionlimit pretty_print astext parse parse_expr fromtext SpanCheck build create_executor optimize transform"
    " analysis nn image annotation vision dyn random frontend backend qnn base ty expr function type_functor expr_functor adt prelude"
    " loops scope_builder op dataflow_pattern build_module vm param_dict debug testing quantize Executor Runtime",
    "relay.expr": "RelayExpr Expr ExprWithOp TempExpr GlobalVar Constant Tuple Var Call Let If TupleGetItem RefCreate RefRead RefWrite"
    " TupleWrapper Function var const bind",
    "relay.function": "Function",
    "relay.base": "astext pretty_print Span SourceName SequentialSpan Node",
    "relay.ty": "Any Type TupleType TensorType TypeKind TypeVar TypeConstraint FuncType TypeRelation IncompleteType RefType"
    " RelayRefType GlobalTypeVar TypeCall ShapeVar is_dynamic scalar_type type_has_any",
    "relay.adt": "Pattern PatternWildcard PatternVar PatternConstructor PatternTuple Constructor TypeData Clause Match",
    "relay.expr_functor": "ExprFunctor ExprVisitor ExprMutator MixedModeVisitor MixedModeMutator",
    "relay.type_functor": "TypeFunctor TypeVisitor TypeMutator",
    "relay.loops": "while_loop",
    "relay.prelude": "Prelude TensorArrayOps StaticTensorArrayOps get_tensor_array_shape",
    "relay.analysis": "post_order_visit well_formed check_constant free_vars bound_vars all_vars free_type_vars bound_type_vars"
    " all_type_vars all_dtypes unmatched_cases detect_feature list_op_freqs Feature alpha_equal",
    "relay.dataflow_pattern": "CallPattern VarPattern ConstantPattern ExprPattern FunctionPattern IfPattern LetPattern TuplePattern"
    " TupleGetItemPattern AltPattern AttrPattern TypePattern DataTypePattern ShapePattern DominatorPattern WildcardPattern DFPattern"
    " DFPatternCallback dominates has_attr has_dtype has_shape has_type is_constant is_expr is_if is_let is_op is_tuple"
    " is_tuple_get_item is_var wildcard match rewrite partition",
    "relay.op.op": "register register_stateful register_pattern register_compute register_gradient register_strategy register_schedule"
    " register_shape_func register_alter_op_layout register_legalize register_convert_op_layout register_external_compiler OpPattern"
    " OpStrategy OpImplementation OpSpecialization get register_injective_schedule register_broadcast_schedule"
    " register_reduce_schedule register_infer_correct_layout register_fake_quantization_to_integer"
    " register_optional_fake_quantization_to_integer",
    "relay.debug": "_debugger_init",
    "relay.testing.py_converter": "to_python run_as_python",
    "relay.transform.transform": "InferType FuseOps FoldConstant function_pass build_config",
    "relay.transform.fake_quantization_to_integer": "FakeQuantizationToInteger register_fake_quantization_to_integer"
    " register_optional_fake_quantization_to_integer",
    "relay.qnn.transform": "CanonicalizeOps Legalize",
    "relay.qnn.op": "requantize quantize dequantize simulated_quantize simulated_dequantize conv2d conv2d_transpose dense add subtract mul"
    " batch_matmul concatenate softmax sigmoid tanh leaky_relu avg_pool2d abs exp sqrt rsqrt erf hardswish log register_qnn_legalize",
    "ir": "Array Attrs BaseExpr BaseFunc CallingConv Constructor DictAttrs EnvFunc FuncType GlobalTypeVar GlobalVar GlobalVarSupply"
    " IRModule IncompleteType IntImm FloatImm Map NameSupply Node Op PointerType PrimExpr PrimType Range RelayExpr RelayRefType"
    " SequentialSpan SourceName Span TensorAffineType TensorType TupleAffineType TupleType Type TypeCall TypeConstraint TypeData"
    " TypeKind TypeRelation TypeVar assert_structural_equal load_json register_intrin_lowering register_op_attr save_json"
    " structural_equal structural_hash get_first_structural_mismatch",
    "ir.adt": "Constructor TypeData",
    "ir.type": "Type TypeKind PrimType PointerType TypeVar GlobalTypeVar TupleType TypeConstraint FuncType IncompleteType RelayRefType",
    "ir.tensor_type": "TensorType",
    "ir.type_relation": "TypeCall TypeRelation",
    "ir.base": "EnvFunc Node SourceName Span SequentialSpan assert_structural_equal load_json save_json structural_equal"
    " structural_hash get_first_structural_mismatch",
    "ir.function": "BaseFunc CallingConv",
    "ir.diagnostics": "DiagnosticLevel Diagnostic DiagnosticRenderer DiagnosticContext override_renderer get_renderer",
    "ir.supply": "NameSupply GlobalVarSupply",
    "relay.parser": "parse parse_expr fromtext SpanCheck",
}  # fmt: skip


@pytest.mark.parametrize("path", NAMES)
def test_names_are_there(path: str) -> None:
    module = importlib.import_module(f"tilewright.{path}")
    missing = [name for name in NAMES[path].split() if not hasattr(module, name)]
    assert missing == []


def test_faces_are_modules() -> None:
    assert tvm.parser is relay.parser
    assert (
        tvm.ir.type.TensorType
        if hasattr(tvm.ir.type, "TensorType")
        else tvm.ir.tensor_type.TensorType is relay.TensorType
    )
    assert tvm.ir.adt.TypeData is relay.TypeData and relay.function.Function is relay.Function
    with pytest.raises(AttributeError, match=r"module 'tilewright.ir.adt' has no attribute 'Nothing'"):
        tvm.ir.adt.Nothing  # noqa: B018


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (relay.var, "name_hint type_annotation=None shape=None dtype='float32' span=None"),
        (relay.const, "value dtype=None span=None"),
        (relay.bind, "expr binds"),
        (relay.Let, "var value body span=None"),
        (relay.If, "cond true_branch false_branch span=None"),
        (relay.Match, "data clauses complete=True span=None"),
        (relay.TupleGetItem, "tuple_value index span=None"),
        (relay.Function, "params body ret_type=None type_params=None attrs=None span=None"),
        (relay.TypeVar, "name_hint kind=0"),
        (relay.GlobalTypeVar, "name_hint kind=5"),
        (relay.FuncType, "arg_types ret_type type_params=() type_constraints=()"),
        (relay.TypeRelation, "func args num_inputs attrs=None"),
        (relay.parse, "source source_name='from_string' init_module=None init_meta_table=None"),
        (relay.dataflow_pattern.rewrite, "callbacks expr mod=None"),
        (tvm.IRModule.from_expr, "expr functions=None type_defs=None"),
        (tvm.IRModule.astext, "self show_meta_data=True annotate=None"),
    ],
)
def test_signatures(function: Any, arguments: str) -> None:
    found = []
    for p in inspect.signature(function).parameters.values():
        found.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    assert " ".join(found) == arguments


def test_a_visitor_decides_what_is_visited_and_when() -> None:
    x = relay.var("x", shape=(2,))
    seen: list[str] = []

    class Outermost(relay.ExprVisitor):
        def visit_call(self, call: relay.Call) -> None:
            seen.append("in " + call.op.name)
            if call.op.name != "tanh":
                super().visit_call(call)
            seen.append("out " + call.op.name)

    Outermost().visit(relay.exp(relay.tanh(relay.sin(x))))
    assert seen == ["in exp", "in tanh", "out tanh", "out exp"]

    class CountLets(relay.ExprVisitor):
        count = 0

        def visit_let(self, let: relay.Let) -> None:
            self.count += 1
            super().visit_let(let)

    counter = CountLets()
    counter.visit(relay.Let(relay.var("a"), x, relay.Let(relay.var("b"), x, x)))
    assert counter.count == 2


def test_functors() -> None:
    x = relay.var("x", shape=(2,))

    class Size(relay.ExprFunctor):
        def visit_var(self, var: relay.Var) -> int:
            return 1

        def visit_op(self, op: Any) -> int:
            return 0

        def visit_call(self, call: relay.Call) -> int:
            return 1 + sum([self.visit(a) for a in call.args])

    assert Size().visit(relay.add(relay.tanh(x), x)) == 4
    with pytest.raises(tvm.TVMError, match="Size meets a Tuple, but defines no visit_tuple"):
        Size().visit(relay.Tuple([x]))

    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, tt: relay.TensorType) -> relay.TensorType:
            return relay.TensorType(tt.shape, "float64")

    a = relay.TypeVar("a")
    t = relay.FuncType([relay.TupleType([relay.TensorType((2,)), a])], relay.RefType(relay.scalar_type("int8")), [a])
    assert repr(Wider().visit(t)) == "fn [a] ((Tensor[(2,), float64], a)) -> ref(float64)"
    assert relay.TypeMutator().visit(t) is t
    assert relay.ty.is_dynamic(relay.TupleType([relay.TensorType((relay.Any(), 2))])) and not relay.ty.is_dynamic(t)


def test_while_loop() -> None:
    i = relay.var("i", "int32")
    loop = relay.loops.while_loop(
        lambda i, s: i < relay.const(5),
        [i, relay.const(np.zeros(2, "float32"))],
        lambda i, s: (i + relay.const(1), s + s + relay.const(1.0)),
    )
    total = relay.TupleGetItem(loop(relay.const(0), relay.const(np.zeros(2, "float32"))), 1)
    np.testing.assert_array_equal(relay.create_executor("vm").evaluate(total).numpy(), [31, 31])


def test_text_with_remarks() -> None:
    x = relay.var("x", shape=(2,))
    f = relay.Function([x], relay.tanh(relay.exp(x)))
    assert f.astext(annotate=lambda e: f"a {e.op.name}").split("\n")[2:4] == [
        "  %0 = exp(%x) /* a exp */;",
        "  tanh(%0) /* a tanh */",
    ]
    assert relay.pretty_print(f) == str(f)


def test_modules() -> None:
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    assert [v.name_hint for v in mod.get_global_type_vars()] == ["List", "Option", "Tree"]
    header, cons, nil = mod.get_type("List")
    assert header(relay.scalar_type("int8")) == relay.TypeCall(header, [relay.scalar_type("int8")])
    with pytest.raises(ValueError, match="exactly one constructor must have the tag 0, but the module has none"):
        mod.get_constructor(0)
    constructors = [c for data in mod.type_definitions.values() for c in data.constructors]
    assert [mod.get_constructor(c.tag) for c in constructors] == constructors
    assert nil.tag == cons.tag + 1 and cons.tag & 0xFFFFFF == 0
    new = mod.replace_global_vars({"hd": "first"})
    assert "first" in new and "hd" not in new and "@first(" in new.astext()
    del mod["hd"]
    assert "hd" not in mod


def test_supplies() -> None:
    names = tvm.ir.NameSupply("p")
    assert [names.fresh_name("x"), names.fresh_name("x"), names.fresh_name("x", add_prefix=False)] == [
        "p_x",
        "p_x_1",
        "x",
    ]
    assert names.contains_name("x") and not names.contains_name("y")
    x = relay.var("x", shape=(2,))
    supply = tvm.ir.GlobalVarSupply(tvm.IRModule.from_expr(relay.Function([x], x)))
    assert supply.fresh_global("main").name_hint == "main_1"
    assert supply.unique_global_for("f") is supply.unique_global_for("f")
    with pytest.raises(ValueError, match="the name 'f' is taken by another GlobalVar"):
        supply.reserve_global(relay.GlobalVar("f"))


def test_expressions_of_a_rewriting() -> None:
    class Doubled(relay.expr.TempExpr):
        value: relay.RelayExpr

        def realize(self) -> relay.Expr:
            return relay.add(self.value, self.value)

    x = relay.var("x", shape=(2,))
    assert relay.alpha_equal(Doubled(x).realize(), relay.add(x, x))

    class Nothing(relay.expr.TempExpr):
        pass

    with pytest.raises(tvm.TVMError, match="Nothing is a TempExpr, and must define realize"):
        Nothing().realize()


def test_the_debugger_is_called_in_the_interpreter() -> None:
    assert callable(relay.debug._debugger_init)
    seen: list[Any] = []
    before = tvm.get_global_func("relay.debug")
    tvm.register_func("relay.debug", lambda value: seen.append(value.numpy()), override=True)
    try:
        x = relay.var("x", shape=(2,))
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(relay.op.debug(relay.exp(x)))))
        relay.create_executor("debug", mod).evaluate()(np.zeros(2, "float32"))
        np.testing.assert_array_equal(seen, [[1, 1]])
        # Constants are not looked at while a program is compiled, and kernels go on.
        fixed = tvm.IRModule.from_expr(relay.op.debug(relay.const(np.ones(2, "float32"))))
        got = relay.create_executor("graph", relay.transform.FoldConstant()(fixed)).evaluate()()
        np.testing.assert_array_equal(got.numpy(), [1, 1])
        assert len(seen) == 1
    finally:
        tvm.register_func("relay.debug", before, override=True)
