"""Relay as Python: `to_python` makes a syntax tree that computes what an expression does, `run_as_python` runs it.

Functions become Python functions, lets assignments, matches and ifs statements; data of prelude types are ConstructorValues, references
RefValues, tuples tuples, tensors NDArrays. Operators run by the kernels of the target, compiled when they are first called.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.node import deep_recursion, structural_hash
from tilewright.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.backend import create_executor
from tilewright.relay.evaluation.interpreter import ConstructorValue, RefValue
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.functor import flow_children
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import array
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import Targets

__all__ = ["run_as_python", "to_python"]

RESULT = "_result"
"""The variable that the value of the expression is assigned to."""


class PythonConverter:
    """Makes the tree, and `namespace`, what its names stand for: constants, operators, constructors."""

    def __init__(self, mod: IRModule, target: Targets) -> None:
        self.mod, self.target = mod, target
        self.namespace: dict[str, Any] = {
            "_make": lambda c, fields: ConstructorValue(c.tag, fields, c),
            "_Ref": RefValue,
            "_holds": _holds,
            "_no_clause": _no_clause,
        }
        self.taken: set[str] = set()
        self.globals: dict[GlobalVar, str] = {}
        self.operators: dict[tuple[Any, ...], str] = {}

    def convert(self, expr: Expr) -> ast.Module:
        """The statements that assign what `expr` is to `_result`; global functions come first."""
        reached: dict[GlobalVar, Function] = {}
        body: list[ast.stmt] = []
        value = self.expr(expr, _Scope(self, body, reached))
        functions: list[ast.stmt] = []
        done: set[GlobalVar] = set()
        while len(done) < len(reached):
            for gvar in [g for g in reached if g not in done]:
                done.add(gvar)
                functions.append(self.function(reached[gvar], self.globals[gvar], _Scope(self, functions, reached)))
        module = ast.Module([*functions, *body, _assign(RESULT, value)], [])
        return ast.fix_missing_locations(module)

    def fresh(self, hint: str) -> str:
        """A name of Python's that nothing else has."""
        base = "".join([c if c.isidentifier() or c.isdigit() else "_" for c in hint]) or "v"
        base = base if base.isidentifier() else f"v_{base}"
        # Never a keyword, nor a name of ours.
        name, count = f"{base}_", 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def keep(self, hint: str, value: Any) -> ast.expr:
        """A name for a value that stands in no syntax."""
        name = self.fresh(f"_{hint}")
        self.namespace[name] = value
        return _name(name)

    def function(self, f: Function, name: str, outer: _Scope) -> ast.FunctionDef:
        body: list[ast.stmt] = []
        scope = _Scope(self, body, outer.reached, outer)
        args = [ast.arg(scope.bind(p)) for p in f.params]
        body.append(ast.Return(self.expr(f.body, scope)))
        return _define(name, args, body)

    def expr(self, root: Expr, scope: _Scope) -> ast.expr:
        """The Python expression of a relay one; statements that it needs go before it. What is shared is computed once."""
        stack = [root]
        while stack:
            e = stack[-1]
            if scope.find(e) is not None:
                stack.pop()
                continue
            pending = [c for c in flow_children(e) if scope.find(c) is None]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            made = self.rules[type(e)](self, e, scope)
            if not isinstance(made, ast.Name):
                name = self.fresh("t")
                scope.body.append(_assign(name, made))
                made = _name(name)
            scope.names[e] = made.id
        found = scope.find(root)
        assert found is not None
        return _name(found)

    def operand(self, e: Expr, scope: _Scope) -> ast.expr:
        name = scope.find(e)
        assert name is not None
        return _name(name)

    def var(self, v: Var, scope: _Scope) -> ast.expr:
        raise TVMError(f"to_python: the variable %{v.name_hint} is free; bind it first")

    def constant(self, c: Constant, scope: _Scope) -> ast.expr:
        return self.keep("const", array(c.value))

    def global_var(self, g: GlobalVar, scope: _Scope) -> ast.expr:
        found = self.mod.functions.get(g)
        if not isinstance(found, Function):
            raise TVMError(f"to_python: @{g.name_hint} is called, but the module has no such relay function")
        if g not in self.globals:
            self.globals[g] = self.fresh(g.name_hint)
            scope.reached[g] = found
        return _name(self.globals[g])

    def constructor(self, c: Constructor, scope: _Scope) -> ast.expr:
        return self.keep(c.name_hint, lambda *fields: ConstructorValue(c.tag, fields, c))

    def call(self, e: Call, scope: _Scope) -> ast.expr:
        args = [self.operand(a, scope) for a in e.args]
        if type(e.op) is Op:
            return _call(self.operator(e), args)
        if isinstance(e.op, Constructor):
            return _call(_name("_make"), [self.keep(e.op.name_hint, e.op), ast.Tuple(args, ast.Load())])
        return _call(self.operand(e.op, scope), args)

    def operator(self, e: Call) -> ast.expr:
        """A function that runs a kernel; calls of one operator on the same types share it."""
        types = [a.checked_type for a in e.args]
        key = (e.op, structural_hash(e.attrs), *map(str, types))
        if key not in self.operators:
            name = self.fresh(f"_{e.operator.name}")
            params = [Var(f"x{i}", t) for i, t in enumerate(types)]
            self.namespace[name] = _kernel(Function(params, Call(e.op, tuple(params), e.attrs)), self.target)
            self.operators[key] = name
        return _name(self.operators[key])

    def let(self, e: Let, scope: _Scope) -> ast.expr:
        body: Expr = e
        while isinstance(body, Let):
            if isinstance(body.value, Function):
                name = scope.bind(body.var)
                scope.body.append(self.function(body.value, name, scope))
            else:
                value = self.expr(body.value, scope)
                scope.body.append(_assign(scope.bind(body.var), value))
            body = body.body
        return self.expr(body, scope)

    def closure(self, f: Function, scope: _Scope) -> ast.expr:
        name = self.fresh("fn")
        scope.body.append(self.function(f, name, scope))
        return _name(name)

    def branch(self, e: If, scope: _Scope) -> ast.expr:
        cond = _call(ast.Attribute(self.expr(e.cond, scope), "numpy", ast.Load()), [])
        result = self.fresh("chosen")
        arms = [self.arm(b, result, scope) for b in (e.true_branch, e.false_branch)]
        scope.body.append(ast.If(cond, *arms))
        return _name(result)

    def arm(self, e: Expr, result: str, scope: _Scope) -> list[ast.stmt]:
        """The statements of a branch, which may not be taken."""
        body: list[ast.stmt] = []
        inner = _Scope(self, body, scope.reached, scope)
        body.append(_assign(result, self.expr(e, inner)))
        return body

    def match(self, e: Match, scope: _Scope) -> ast.expr:
        data, result = self.expr(e.data, scope), self.fresh("matched")
        rest: list[ast.stmt] = [ast.Expr(_call(_name("_no_clause"), [data]))]
        for clause in reversed(e.clauses):
            body: list[ast.stmt] = []
            inner = _Scope(self, body, scope.reached, scope)
            test = self.pattern(clause.lhs, data, inner)
            body.append(_assign(result, self.expr(clause.rhs, inner)))
            rest = body if test is None else [ast.If(test, body, rest)]
        scope.body += rest
        return _name(result)

    def pattern(self, p: Pattern, value: ast.expr, scope: _Scope) -> ast.expr | None:
        """The condition under which a value matches (None: always); variables are assigned in the clause."""
        if isinstance(p, PatternVar):
            scope.body.append(_assign(scope.bind(p.var), value))
            return None
        tests: list[ast.expr] = []
        if isinstance(p, PatternConstructor):
            tests.append(_call(_name("_holds"), [value, ast.Constant(p.constructor.name_hint)]))
            value = ast.Attribute(value, "fields", ast.Load())
        if isinstance(p, (PatternConstructor, PatternTuple)):
            for i, inner in enumerate(p.patterns):
                test = self.pattern(inner, ast.Subscript(value, ast.Constant(i), ast.Load()), scope)
                tests += [test] if test is not None else []
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)

    rules: dict[type, Callable[..., ast.expr]] = {
        Var: var,
        Constant: constant,
        GlobalVar: global_var,
        Constructor: constructor,
        Call: call,
        Let: let,
        Function: closure,
        If: branch,
        Match: match,
        Tuple: lambda self, e, scope: ast.Tuple([self.operand(f, scope) for f in e.fields], ast.Load()),
        TupleGetItem: lambda self, e, scope: ast.Subscript(
            self.operand(e.tuple_value, scope), ast.Constant(e.index), ast.Load()
        ),
        RefCreate: lambda self, e, scope: _call(_name("_Ref"), [self.operand(e.value, scope)]),
        RefRead: lambda self, e, scope: ast.Attribute(self.operand(e.ref, scope), "value", ast.Load()),
        RefWrite: lambda self, e, scope: self.written(e, scope),
    }

    def written(self, e: RefWrite, scope: _Scope) -> ast.expr:
        place = ast.Attribute(self.operand(e.ref, scope), "value", ast.Store())
        scope.body.append(ast.Assign([place], self.operand(e.value, scope)))
        return ast.Tuple([], ast.Load())


class _Scope:
    """The statements of a function or branch, and the names of what is known there."""

    def __init__(
        self,
        converter: PythonConverter,
        body: list[ast.stmt],
        reached: dict[GlobalVar, Function],
        outer: _Scope | None = None,
    ) -> None:
        self.converter, self.body, self.reached, self.outer = converter, body, reached, outer
        self.names: dict[Expr, str] = {}

    def find(self, e: Expr) -> str | None:
        scope: _Scope | None = self
        while scope is not None:
            if e in scope.names:
                return scope.names[e]
            scope = scope.outer
        return None

    def bind(self, v: Var) -> str:
        self.names[v] = self.converter.fresh(v.name_hint)
        return self.names[v]


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _call(callee: ast.expr, args: Sequence[ast.expr]) -> ast.expr:
    return ast.Call(callee, list(args), [])


def _define(name: str, args: list[ast.arg], body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[], returns=None)


def _holds(value: Any, constructor: str) -> bool:
    return isinstance(value, ConstructorValue) and value.constructor.name_hint == constructor


def _no_clause(value: Any) -> None:
    raise TVMError(f"no clause of the match fits the value {value!r}")


def _kernel(f: Function, target: Targets) -> Callable[..., Any]:
    """A function of NDArrays (and tuples of them), compiled at its first call."""
    compiled: list[Callable[..., Any]] = []

    def run(*args: Any) -> Any:
        if not compiled:
            compiled.append(create_executor("vm", IRModule.from_expr(f), target=target).evaluate())
        return compiled[0](*args)

    return run


def _converted(expr: Expr, mod: IRModule | None, target: Targets) -> tuple[ast.Module, dict[str, Any]]:
    mod = IRModule({}) if mod is None else mod
    names = [g.name_hint for g in mod.functions]
    entry = GlobalVar(next(f"to_python{i or ''}" for i in range(len(names) + 1) if f"to_python{i or ''}" not in names))
    typed = infer_module(mod.with_functions({**mod.functions, entry: Function([], expr)}))
    converter = PythonConverter(typed, target)
    with deep_recursion():
        made = converter.convert(typed[entry].body)
    return made, converter.namespace


def to_python(expr: Expr, mod: IRModule | None = None, target: Targets = "llvm") -> ast.Module:
    """A Python syntax tree that computes what `expr` does and assigns it to `_result`; `mod` has the functions and types that it names.
    Its text is `ast.unparse(tree)`. Names that begin with `_` stand for constants, kernels for `target`, and constructors, which only
    `run_as_python` has. Raises TVMError for free variables."""
    return _converted(expr, mod, target)[0]


def run_as_python(expr: Expr, mod: IRModule | None = None, target: Targets = "llvm") -> Any:
    """The value of `expr`, computed in Python: an NDArray, a tuple, a ConstructorValue, a RefValue, or a Python function of such."""
    tree, namespace = _converted(expr, mod, target)
    with deep_recursion():
        exec(compile(tree, "relay", "exec"), namespace)
    return namespace[RESULT]
