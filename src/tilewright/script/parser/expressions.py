"""Evaluation of Python expressions over names of a program and captured values, with located errors."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tilewright.script.parser.source import Source
from tilewright.support.errors import DiagnosticError, TVMError

_MISSING = object()
_BUILTINS = vars(builtins)

PYTHON_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


class Expressions:
    """Names and their scopes, and the value of an expression. A dialect overrides operators and connectives."""

    operators: ClassVar[dict[type, Callable[..., Any]]] = PYTHON_OPERATORS

    def __init__(self, source: Source, names: dict[str, Any]) -> None:
        self.source = source
        self.names = names
        # One dictionary of visible names; what a scope hides is put back when it ends.
        self._hidden: list[dict[str, Any]] = []
        # Names of scopes that have ended, for errors about their use after it.
        self._ended: set[str] = set()

    # --- names

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names defined inside end with it."""
        hidden: dict[str, Any] = {}
        self._hidden.append(hidden)
        try:
            yield
        finally:
            self._hidden.pop()
            for name, old in hidden.items():
                if old is _MISSING:
                    self.names.pop(name, None)
                    self._ended.add(name)
                else:
                    self.names[name] = old

    @property
    def depth(self) -> int:
        return len(self._hidden)

    def define(self, name: str, value: Any) -> None:
        if self._hidden and name not in self._hidden[-1]:
            self._hidden[-1][name] = self.names.get(name, _MISSING)
        self.names[name] = value

    def own_names(self) -> list[str]:
        """The names that the innermost scope has defined."""
        return list(self._hidden[-1]) if self._hidden else []

    # --- errors

    def error(self, node: Any, message: str, remedy: str = "") -> DiagnosticError:
        return self.source.error(node, message, remedy)

    def located(self, node: Any, error: Exception) -> DiagnosticError:
        """An exception of evaluation as an error at `node`."""
        text = str(error) or "it failed without a message"
        known = isinstance(error, (TypeError, ValueError, ArithmeticError, TVMError))
        return self.error(node, text if known else f"{type(error).__name__}: {text}", self.remedy(error))

    def remedy(self, error: Exception) -> str:
        """A dialect's explanation of an error of evaluation."""
        return ""

    def misused(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> DiagnosticError | None:
        """The error of a call whose arguments are not those of the function; None when they are."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return None
        own = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "span"]
        signature = signature.replace(parameters=own, return_annotation=signature.empty)
        name = ast.unparse(node.func)
        for key in kwargs:
            if key not in signature.parameters and not any([p.kind is p.VAR_KEYWORD for p in own]):
                what = f"{name} takes no argument {key}"
                remedy = self.near(key, signature.parameters) or f"it is called as {name}{signature}"
                return self.error(next(k for k in node.keywords if k.arg in (key, None)), what, remedy)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return self.error(node, f"{name}: {error}", f"it is called as {name}{signature}")
        return None

    # --- evaluation

    def eval(self, node: Any) -> Any:
        """The value of an expression."""
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return self._by_python(node)
        try:
            return handler(self, node)
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.located(node, error) from error

    def made(self, node: ast.expr, value: Any) -> Any:
        """The value that an operator or a call gave, which a dialect may mark with its place."""
        return value

    def _by_python(self, node: ast.expr) -> Any:
        """Comprehensions, f-strings and the like, which only make sense for Python's own values."""
        try:
            code = compile(ast.Expression(node), self.source.filename, "eval")
            return eval(code, {"__builtins__": builtins, **self.names})
        except DiagnosticError:
            raise
        except TypeError as error:
            if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                raise self.located(node, error) from error
            what = f"a comprehension runs while the program is read, and this one failed: {error}"
            raise self.error(node, what, "over a value of the program write a for loop") from error
        except Exception as error:
            raise self.located(node, error) from error

    def _unknown(self, node: ast.expr) -> Any:
        kind = {ast.NamedExpr: ":=", ast.YieldFrom: "yield from"}.get(type(node), type(node).__name__.lower())
        raise self.error(node, f"a program has no expression with {kind}")

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        value = self.names.get(node.id, _MISSING)
        if value is _MISSING:
            value = _BUILTINS.get(node.id, _MISSING)
            if value is _MISSING:
                own = list(dict.fromkeys([n for hidden in self._hidden for n in hidden if n in self.names]))
                if node.id in self._ended:
                    what = f"the name {node.id} is not defined here, only in a suite that has ended"
                    raise self.error(node, what, "keep a value that is used later in a buffer")
                remedy = self.near(node.id, self.names) or (f"the program has {', '.join(own[:12])}" if own else "")
                raise self.error(node, f"the name {node.id} is not defined", remedy)
        return value

    @staticmethod
    def near(name: str, names: Any) -> str:
        """ "did you mean ...?", or nothing when no name is near."""
        close = difflib.get_close_matches(name, [n for n in names if not n.startswith("__")], 3, 0.6)
        return f"did you mean {' or '.join(close)}?" if close else ""

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.eval(node.value)
        try:
            return getattr(value, node.attr)
        except AttributeError as error:
            name = ast.unparse(node.value)
            what = name if hasattr(value, "__spec__") else f"{name} ({type(value).__name__})"
            message = f"{what} has no attribute {node.attr}"
            raise self.error(node, message, self.near(node.attr, dir(value))) from error

    def _call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args, kwargs = self.arguments(node)
        try:
            return self.made(node, self.call(node, function, args, kwargs))
        except TypeError as error:
            misused = self.misused(node, function, args, kwargs)
            if misused is None:
                raise
            raise misused from error

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments."""
        args: list[Any] = []
        for a in node.args:
            if type(a) is ast.Starred:
                args += self.eval(a.value)
            else:
                args.append(self.eval(a))
        kwargs: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                kwargs.update(self.eval(k.value))
            else:
                kwargs[k.arg] = self.eval(k.value)
        return args, kwargs

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)

    def _binary(self, node: ast.BinOp) -> Any:
        return self.made(node, self.operators[type(node.op)](self.eval(node.left), self.eval(node.right)))

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        return self.made(
            node, self.negation(value) if type(node.op) is ast.Not else self.operators[type(node.op)](value)
        )

    def _compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = _MISSING
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            one = self.operators[type(op)](left, right)
            result = one if result is _MISSING else self.conjunction(result, one)
            left = right
        return self.made(node, result)

    def _connective(self, node: ast.BoolOp) -> Any:
        join = self.conjunction if type(node.op) is ast.And else self.disjunction
        value = self.eval(node.values[0])
        for item in node.values[1:]:
            if self.decided(node.op, value):
                return value
            value = join(value, self.eval(item))
        return self.made(node, value)

    def decided(self, op: ast.boolop, value: Any) -> bool:
        """Whether the rest of a connective is not even evaluated."""
        return not value if type(op) is ast.And else bool(value)

    def conjunction(self, a: Any, b: Any) -> Any:
        return a and b

    def disjunction(self, a: Any, b: Any) -> Any:
        return a or b

    def negation(self, a: Any) -> Any:
        return not a

    def _choice(self, node: ast.IfExp) -> Any:
        return self.made(node, self.choice(node, self.eval(node.test)))

    def choice(self, node: ast.IfExp, test: Any) -> Any:
        return self.eval(node.body if test else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        return self.made(node, self.index(self.eval(node.value), self.eval(node.slice)))

    def index(self, value: Any, index: Any) -> Any:
        return value[index]

    def _slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if p is None else self.eval(p) for p in parts])

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for n in nodes:
            if type(n) is ast.Starred:
                out += self.eval(n.value)
            else:
                out.append(self.eval(n))
        return out

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _list(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out.update(self.eval(value))
            else:
                out[self.eval(key)] = self.eval(value)
        return out

    def _lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        signature = self.signature(node.args)

        def function(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            with self.scope():
                for name, value in bound.arguments.items():
                    self.define(name, value)
                return self.eval(node.body)

        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    def signature(self, args: ast.arguments) -> inspect.Signature:
        """The parameters of a lambda or a function that a program defines."""
        kinds = inspect.Parameter
        out = []
        plain = [*args.posonlyargs, *args.args]
        defaults = [kinds.empty] * (len(plain) - len(args.defaults)) + [self.eval(d) for d in args.defaults]
        for a, default in zip(plain, defaults, strict=True):
            kind = kinds.POSITIONAL_ONLY if a in args.posonlyargs else kinds.POSITIONAL_OR_KEYWORD
            out.append(kinds(a.arg, kind, default=default))
        if args.vararg is not None:
            out.append(kinds(args.vararg.arg, kinds.VAR_POSITIONAL))
        for a, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            out.append(kinds(a.arg, kinds.KEYWORD_ONLY, default=kinds.empty if value is None else self.eval(value)))
        if args.kwarg is not None:
            out.append(kinds(args.kwarg.arg, kinds.VAR_KEYWORD))
        return inspect.Signature(out)


_HANDLERS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Call: Expressions._call,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._connective,
    ast.IfExp: Expressions._choice,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._list,
    ast.Dict: Expressions._dict,
    ast.Lambda: Expressions._lambda,
    **dict.fromkeys((ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await), Expressions._unknown),
}
