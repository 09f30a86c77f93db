"""The debug executor: runs relay on NumPy by the cards' references. The oracle for passes, and FoldConstant's engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IRModule, Op, TensorType
from tilewright.node.leaves import numpy_dtype
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import flow_children
from tilewright.relay.op.card import OpCard, find_card
from tilewright.relay.transform.infer_type import infer_module, type_of
from tilewright.runtime import array
from tilewright.support.errors import TVMError

Value = Any
"""An ndarray, a tuple of values, or a Python callable."""


class Interpreter:
    """Evaluates expressions; one instance holds the variables of one scope."""

    def __init__(self, mod: IRModule | None = None, env: Mapping[Expr, Value] | None = None) -> None:
        self.mod = mod
        self.values: dict[Expr, Value] = dict(env or {})
        self.rules: dict[type, Callable[[Any], Value]] = {
            Var: self.var,
            Constant: lambda e: e.value,
            Call: self.call,
            Tuple: lambda e: tuple([self.values[f] for f in e.fields]),
            TupleGetItem: lambda e: self.values[e.tuple_value][e.index],
            Let: self.let,
            If: lambda e: self.evaluate(e.true_branch if bool(self.evaluate(e.cond)) else e.false_branch),
            Function: self.closure,
            GlobalVar: self.global_var,
        }

    def evaluate(self, root: Expr) -> Value:
        """The value of `root`. Chains of any depth."""
        values = self.values
        stack = [root]
        while stack:
            node = stack[-1]
            if node in values:
                stack.pop()
                continue
            pending = [c for c in flow_children(node) if c not in values]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            values[node] = self.rules[type(node)](node)
        return values[root]

    def var(self, v: Var) -> Value:
        raise TVMError(f"the variable %{v.name_hint} has no value here")

    def let(self, e: Let) -> Value:
        body: Expr = e
        inner = Interpreter(self.mod, self.values)
        while type(body) is Let:
            inner.values[body.var] = inner.evaluate(body.value)
            body = body.body
        return inner.evaluate(body)

    def closure(self, f: Function) -> Callable[..., Value]:
        def run(*args: Value) -> Value:
            return Interpreter(self.mod, {**self.values, **dict(zip(f.params, args, strict=True))}).evaluate(f.body)

        return run

    def global_var(self, g: GlobalVar) -> Value:
        if self.mod is None:
            raise TVMError(f"@{g.name_hint} is called, but there is no module to find it in")
        f = self.mod[g]
        return lambda *args: Interpreter(self.mod, dict(zip(f.params, args, strict=True))).evaluate(f.body)

    def call(self, e: Call) -> Value:
        args = [self.values[a] for a in e.args]
        if type(e.op) is Op:
            return run_card(e, args)
        return self.values[e.op](*args)


def run_card(e: Call, args: Sequence[Value]) -> Value:
    """The reference of the called operator on values, in the dtypes that inference found."""
    card = e.attrs if isinstance(e.attrs, OpCard) else find_card(e.op.name)()  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        result = card.ref(*args)
    if isinstance(result, (tuple, list)):
        return tuple([np.asarray(r) for r in result])
    t = type_of(e)
    dtype = numpy_dtype(t.dtype) if isinstance(t, TensorType) else None
    return np.asarray(result, dtype)


class DebugExecutor:
    """`relay.create_executor("debug", mod)`: `evaluate()` answers a function from arrays to NDArrays."""

    def __init__(self, mod: IRModule, device: Any = None, target: Any = None) -> None:
        self.mod = infer_module(mod)

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """A callable for a function (default: main), the value for any other expression."""
        if expr is None:
            expr = self.mod["main"]
        if not isinstance(expr, Function):
            bound = {v: _array(value) for v, value in (binds or {}).items()}
            infer_module(IRModule.from_expr(Function(tuple(bound), expr)))
            return _ndarray(Interpreter(self.mod, bound).evaluate(expr))
        func: Function = expr

        def run(*args: Any, **kwargs: Any) -> Any:
            values = [*args]
            for p in func.params[len(values) :]:
                if p.name_hint not in kwargs:
                    raise TypeError(f"the argument {p.name_hint} was not given")
                values.append(kwargs[p.name_hint])
            return _ndarray(run_function(func, values, self.mod))

        return run


def _ndarray(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_ndarray(v) for v in value]
    return array(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _array(value: Any) -> Value:
    if isinstance(value, (tuple, list)) and value and not np.isscalar(value[0]):
        return tuple([_array(v) for v in value])
    return value.numpy() if not isinstance(value, np.ndarray) and hasattr(value, "numpy") else np.asarray(value)


def run_function(func: Function, args: Sequence[Any], mod: IRModule | None = None) -> Value:
    """The value of a function on arrays."""
    if mod is None:
        mod = infer_module(IRModule.from_expr(func))
        func = mod["main"]
    return Interpreter(mod, dict(zip(func.params, map(_array, args), strict=True))).evaluate(func.body)
