"""Functions for the pattern tables of known compilers: dtypes, shapes, patterns of an operator and its epilogue, and partitioning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tilewright.ir import IRModule, Op, TensorType
from tilewright.ir.transform import Pass, PassContext, Sequential
from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.op.contrib.register import Table, get_pattern_table
from tilewright.relay.parameters import Params, bind

Check = Callable[[Call], bool]


def tensors(e: Expr) -> list[TensorType]:
    """The tensor types among a call's operands and result."""
    exprs = (*e.args, e) if isinstance(e, Call) else (e,)
    return [t for x in exprs if isinstance(t := x.checked_type, TensorType)]


def of_dtypes(*names: str) -> Check:
    """A check that accepts calls whose tensors all have one of these dtypes and a known rank."""
    return lambda call: all([str(t.dtype) in names for t in tensors(call)])


def anchor(e: Expr, *names: str) -> Call:
    """The call of one of these operators in a matched pattern, searched from its last call."""
    assert isinstance(e, Call)
    while type(e.op) is not Op or e.op.name not in names:
        e = next(a for a in e.args if isinstance(a, Call))
    return e


def rank(e: Expr) -> int:
    """The number of dimensions of a tensor; -1 for other types."""
    t = e.checked_type
    return len(t.shape) if isinstance(t, TensorType) else -1


def biased(e: DFPattern, ops: Sequence[str] = ("nn.bias_add",), constant: bool = True) -> DFPattern:
    """A pattern: an expression plus a bias, added by any of the operators."""
    bias = is_constant() if constant else wildcard()
    found: DFPattern = is_op(ops[0])(e, bias)
    for op in ops[1:]:
        found = found | is_op(op)(e, bias)
    return found


def followed(e: DFPattern, op: str) -> DFPattern:
    """A pattern: an expression followed by an operator of one operand. "gelu", "swish" and "mish" stand for the operators that they
    are composed of."""
    if op == "swish":
        return is_op("multiply")(e, is_op("sigmoid")(e))
    if op == "mish":
        return is_op("multiply")(e, is_op("tanh")(is_op("log")(is_op("add")(is_op("exp")(e), is_constant()))))
    if op == "gelu":
        half = is_op("multiply")(is_op("erf")(is_op("multiply")(e, is_constant())), is_constant())
        return is_op("multiply")(is_op("add")(half, is_constant()), e)
    return is_op(op)(e)


def take(compiler: str, table: Mapping[str, Check] | Iterable[str], default: Check = lambda call: True) -> None:
    """Lets a compiler take calls of single operators that pass a check. An operator that a program registered itself is not
    changed."""
    checks = table if isinstance(table, Mapping) else dict.fromkeys(table, default)
    for name, check in checks.items():
        if not Op.get(name).has_attr(f"target.{compiler}"):
            Op.get(name).set_attr(f"target.{compiler}", check)


def partition(
    mod: IRModule,
    compiler: str,
    params: Params | None = None,
    before: Sequence[Pass] = (),
    patterns: Table | None = None,
) -> IRModule:
    """Moves the operators that a compiler supports into functions, after binding `params` and running the passes `before`.
    patterns: used instead of the compiler's table."""
    from tilewright.relay import transform

    if params:
        main = mod["main"]
        mod = mod.with_functions({**mod.functions, mod.get_global_var("main"): bind(main, params)})
    passes = [
        transform.InferType(),
        *before,
        transform.MergeComposite(patterns if patterns is not None else get_pattern_table(compiler) or ()),
        transform.AnnotateTarget([compiler]),
        transform.MergeCompilerRegions(),
        transform.PartitionGraph(),
        transform.InferType(),
    ]
    with PassContext(opt_level=3):
        made: IRModule = Sequential(passes)(mod)
    return made


def pruned(mod: IRModule, compiler: str, keep: Callable[[Function], bool]) -> IRModule:
    """The module with some of a compiler's functions inlined again: those that are not worth a call."""
    from tilewright.relay import transform
    from tilewright.relay.typing.infer_type import infer_module

    dropped = [
        g
        for g, f in mod.functions.items()
        if isinstance(f, Function) and f.attrs.get("Compiler") == compiler and not keep(f)
    ]
    return infer_module(transform.InlineCompilerFunctionsBoundTo(dropped)(mod)) if dropped else mod
