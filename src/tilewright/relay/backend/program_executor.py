"""Base of the executors of `relay.create_executor`. `evaluate` returns a callable for a function, and a value for other
expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import runtime
from tilewright.ir import GlobalVar, IRModule, TensorType, TupleType, Type
from tilewright.relay.expr import Expr, Function, Var
from tilewright.relay.functor import free_vars
from tilewright.relay.parameters import bind
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import Targets

Call = Callable[[Sequence[Any]], Any]
"""A function of all arguments, in order, that returns the result."""


class ProgramExecutor(ABC):
    """Evaluates functions and expressions of a module on a device. target: for executors that compile."""

    def __init__(self, mod: IRModule | None = None, device: Any = None, target: Targets = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.device = device if device is not None else runtime.cpu(0)
        self.target = target

    @abstractmethod
    def make(self, gvar: GlobalVar | None, func: Function) -> Call:
        """A callable that runs a function of the module (with its `gvar`), or one outside the module (with None)."""

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """A callable for a function (a Function, a GlobalVar or a name; default: main), which takes arguments by position and by name;
        or the value of another expression. binds: values of its free variables."""
        gvar: GlobalVar | None = None
        if expr is None:
            if "main" not in [g.name_hint for g in self.mod.functions]:
                raise TVMError(
                    "there is nothing to evaluate: the executor has no module with a main; give one, or an expression"
                )
            expr = "main"
        if isinstance(expr, str):
            expr = next((g for g in self.mod.functions if g.name_hint == expr), GlobalVar(expr))
        if isinstance(expr, GlobalVar):
            gvar, expr = expr, self.mod[expr.name_hint]
        elif binds:
            expr = bind(expr, {v: _constant(value) for v, value in binds.items()})
        if not isinstance(expr, Expr):
            raise TypeError(f"evaluate takes a relay expression, a GlobalVar or a name, not a {type(expr).__name__}")
        loose = [] if gvar is not None else free_vars(expr)
        if loose:
            raise TVMError(f"the variable %{loose[0].name_hint} is free in the expression; give its value in `binds`")
        if isinstance(expr, Function):
            return self._callable(gvar, expr)
        return self.make(None, Function((), expr))(())

    def _callable(self, gvar: GlobalVar | None, func: Function) -> Callable[..., Any]:
        call = self.make(gvar, func)

        def run(*args: Any, **kwargs: Any) -> Any:
            return call(arguments(func.params, args, kwargs))

        return run


Executor = ProgramExecutor
"""The classic name, in `relay.backend.interpreter`."""


def _constant(value: Any) -> Any:
    return value if isinstance(value, Expr) or hasattr(value, "numpy") else runtime.array(value)


def arguments(params: Sequence[Var], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All arguments of a call in order. Raises TypeError if one is missing, given twice or unknown."""
    names = [p.name_hint for p in params]
    if len(args) > len(names):
        raise TypeError(
            f"the function takes {len(names)} arguments ({', '.join(names) or 'none'}), but {len(args)} were given"
        )
    twice = [n for n in names[: len(args)] if n in kwargs]
    if twice:
        raise TypeError(f"the argument {twice[0]} was given twice, by position and by name")
    unknown = [n for n in kwargs if n not in names]
    if unknown:
        raise TypeError(f"the function has no parameter {unknown[0]}; its parameters are: {', '.join(names) or 'none'}")
    missing = [n for n in names[len(args) :] if n not in kwargs]
    if missing:
        raise TypeError(f"the argument {missing[0]} was not given")
    return [*args, *[kwargs[n] for n in names[len(args) :]]]


def nested(values: Sequence[Any], t: Type) -> Any:
    """Flat results as lists, nested like a type."""
    rest = iter(values)

    def build(t: Type) -> Any:
        if isinstance(t, TupleType):
            return [build(f) for f in t.fields]
        assert isinstance(t, TensorType)
        return next(rest)

    return build(t)


def flat(value: Any, t: Type | None) -> list[Any]:
    """The tensors of an argument that is nested like its type."""
    if isinstance(t, TupleType):
        return [x for v, f in zip(value, t.fields, strict=True) for x in flat(v, f)]
    return [value]
