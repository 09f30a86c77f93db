"""Converts the syntax tree of a hybrid function to TensorIR statements."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

from tilewright.ir import DataType, IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import post_order_visit
from tilewright.target import Target
from tilewright.te.regions import full_region
from tilewright.te.tensor import Tensor
from tilewright.tir import op as intrin
from tilewright.tir.arithmetic import cast_to, const, const_true, eq, logical_and, logical_not, logical_or
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.stmt import (
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_seq,
)

KINDS = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
}
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: lambda a, b: _equal(a, b),
    ast.NotEq: lambda a, b: logical_not(_equal(a, b)) if _symbolic(a, b) else a != b,
}
INTRINSICS = frozenset([
    "abs", "ceil", "cos", "cosh", "erf", "exp", "floor", "fmod", "if_then_else", "isfinite", "isinf", "isnan", "likely",
    "log", "log10", "log2", "max", "max_value", "min", "min_value", "nearbyint", "popcount", "power", "round", "rsqrt",
    "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
])  # fmt: skip
SCOPES = ("global", "shared", "local", "warp")
TYPES = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (16, 32, 64)))
    for bits in sizes
)


class _Scalar:
    """A variable of the function that holds one number."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


class Written(NamedTuple):
    """A function as its syntax tree, the file that it is in, and the values of names from outside."""

    function: ast.FunctionDef
    file: str
    outside: Mapping[str, Any]


def written(pyfunc: Callable[..., Any]) -> Written:
    """A Python function with its syntax tree. Raises ValueError for one that is not written with def."""
    lines, first = inspect.getsourcelines(pyfunc)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    closure = inspect.getclosurevars(pyfunc)
    outside = {**closure.globals, **closure.nonlocals}
    return Written(defined(tree, pyfunc.__name__), inspect.getsourcefile(pyfunc) or "?", outside)


def defined(tree: ast.AST, name: str = "source") -> ast.FunctionDef:
    """The function that a syntax tree begins with, or is. Raises ValueError where it is none."""
    function = tree.body[0] if isinstance(tree, ast.Module) and tree.body else tree
    if not isinstance(function, ast.FunctionDef):
        raise ValueError(f"te.hybrid.script takes a function that is written with def, but was given {name}")
    return function


class HybridParser:
    """Parses one function for given arguments. Then `inputs`, `input_buffers` and `returned` are set."""

    def __init__(self, written: Written, args: Sequence[Any], caller: HybridParser | None = None) -> None:
        function = written.function
        self.name, self.function, self.file, self.outside = function.name, function, written.file, written.outside
        # Results of a called function belong to this operation, too.
        self.inputs: list[Tensor] = [] if caller is None else caller.inputs
        self.input_buffers: list[Buffer] = [] if caller is None else caller.input_buffers
        self.outputs: list[Buffer] = [] if caller is None else caller.outputs
        self.allocated: list[Buffer] = [] if caller is None else caller.allocated
        self.axes: list[IterVar] = [] if caller is None else caller.axes
        self.unnamed: list[Buffer] = []
        self.pending: list[Stmt] = []
        self.returned: list[Buffer] = []
        self.env: dict[str, Any] = {}
        names = [a.arg for a in function.args.args]
        if len(names) != len(args):
            self.fail(function, f"{self.name} takes {len(names)} arguments, but was given {len(args)}")
        if caller is not None:
            self.env = dict(zip(names, args, strict=True))
            return
        for name, value in zip(names, args, strict=True):
            self.env[name] = self._argument(name, value)

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            buffer = decl_buffer(value.shape, value.dtype, name)
            self.inputs.append(value)
            self.input_buffers.append(buffer)
            return buffer
        if isinstance(value, (list, tuple)):
            return tuple([self._argument(f"{name}_{i}", v) for i, v in enumerate(value)])
        if isinstance(value, (PrimExpr, int, float, str)):
            return value
        return self.fail(self.function, f"argument {name} is a tensor or a number, but is {type(value).__name__}")

    def fail(self, node: ast.AST, rule: str) -> NoReturn:
        raise ValueError(f"te.hybrid: {self.file}:{getattr(node, 'lineno', 0)}: {rule}")

    def results(self) -> tuple[Stmt, list[Any]]:
        """The statements of the function, and its return values."""
        *body, last = self.function.body
        if not isinstance(last, ast.Return) or last.value is None:
            self.fail(last, f"the last statement of {self.name} must return the output tensors")
        stmts = [self.block(body)]
        values: list[Any] = []
        for node in last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]:
            value = self.expr(node)
            for v in value if isinstance(value, tuple) else (value,):
                if not isinstance(v, Buffer) or v not in self.outputs:
                    self.fail(last, f"{ast.unparse(node)} must be made by output_tensor to be returned")
                values.append(v)
        return stmt_seq(stmts + self._flushed()), values

    def _flushed(self) -> list[Stmt]:
        """The statements of the functions called by the statement that was parsed last."""
        found, self.pending = self.pending, []
        return found

    def parse(self) -> Stmt:
        stmt, self.returned = self.results()
        hidden = [b for b in self.outputs if b not in self.returned]
        if not self.allocated and not hidden:
            return stmt
        touched = [full_region(b) for b in self.input_buffers], [full_region(b) for b in self.returned]
        block = Block(
            (), tuple(touched[0]), tuple(touched[1]), f"{self.name}_body", stmt, None, (*self.allocated, *hidden)
        )
        return BlockRealize((), const_true(), block)

    # ---- statements

    def block(self, body: list[ast.stmt]) -> Stmt:
        found: list[Stmt] = []
        for node in body:
            made = self.stmt(node)
            found += self._flushed() + ([] if made is None else [made])
        return stmt_seq(found) if found else Evaluate(IntImm("int32", 0))

    def stmt(self, node: ast.stmt) -> Stmt | None:
        if isinstance(node, ast.For):
            return self._for(node)
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Assign):
            if len(node.targets) != 1:
                self.fail(node, "one target is assigned at a time")
            return self._assign(node, node.targets[0], self.expr(node.value))
        if isinstance(node, ast.AugAssign):
            value = BINARY[type(node.op)](self.number(node.target), self.number(node.value))
            return self._assign(node, node.target, value)
        if isinstance(node, ast.Assert):
            text = self.expr(node.msg) if node.msg else "assertion failed"
            return AssertStmt(as_prim_expr(self.expr(node.test)), as_prim_expr(text), Evaluate(IntImm("int32", 0)))
        if isinstance(node, ast.Return):
            self.fail(node, f"{self.name} returns once, in its last statement")
        if isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return None
        return self.fail(node, f"{type(node).__name__} is not a statement of hybrid scripts: {ast.unparse(node)[:60]}")

    def _for(self, node: ast.For) -> Stmt:
        call = node.iter
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or not isinstance(node.target, ast.Name)
            or node.orelse
        ):
            self.fail(node, "a loop has the form `for i in range(...)`")
        kind, args = call.func.id, [self.expr(a) for a in call.args]
        if kind == "bind":
            if len(args) != 2 or not isinstance(args[0], str):
                self.fail(node, "bind takes the name of a thread axis and an extent, as in bind('threadIdx.x', 16)")
            return self._loop(node, 0, args[1], ForKind.THREAD_BINDING, str(args[0]))
        if kind not in KINDS and kind != "const_range":
            self.fail(node, f"loops run over {', '.join([*KINDS, 'const_range', 'bind'])}, but this one over {kind}")
        if not 1 <= len(args) <= 3:
            self.fail(node, f"{kind} takes (end), (begin, end) or (begin, end, step)")
        begin, end = (0, args[0]) if len(args) == 1 else args[:2]
        step = args[2] if len(args) == 3 else 1
        if kind == "const_range":
            return self._unrolled(node, begin, end, step)
        if step != 1:
            return self._loop(node, 0, (end - begin + step - 1) // step, KINDS[kind], scale=(begin, step))
        return self._loop(node, begin, end - begin, KINDS[kind])

    def _loop(
        self, node: ast.For, begin: Any, extent: Any, kind: int, tag: str = "", scale: tuple[Any, Any] | None = None
    ) -> Stmt:
        assert isinstance(node.target, ast.Name)
        size = as_prim_expr(extent)
        var = Var(node.target.id, size.dtype)
        value = var if scale is None else var * scale[1] + scale[0]
        dom = Range.from_min_extent(as_prim_expr(begin, dtype=size.dtype), size)
        self.axes.append(IterVar(dom, var, IterVar.DataPar))
        kept = dict(self.env)
        self.env[node.target.id] = value
        body = self.block(node.body)
        if kind == ForKind.VECTORIZED:
            self._need_no_numbers(node, body)
        self.env = {**kept, **{k: v for k, v in self.env.items() if isinstance(v, _Scalar)}}
        thread = IterVar(None, Var(tag, size.dtype), IterVar.ThreadIndex, tag) if tag else None
        return For(var, dom.min, size, kind, body, thread)

    def _need_no_numbers(self, node: ast.For, body: Stmt) -> None:
        """Check that lanes set no number: they run in parallel and share all numbers."""
        scalars = {v.buffer for v in self.env.values() if isinstance(v, _Scalar)}

        def note(s: Any) -> None:
            if isinstance(s, BufferStore) and s.buffer in scalars:
                self.fail(
                    node, f"{s.buffer.name} is one number, which the lanes of vectorize cannot all set; use range"
                )

        post_order_visit(body, note)

    def _unrolled(self, node: ast.For, begin: Any, end: Any, step: Any) -> Stmt:
        numbers = [_plain(x) for x in (begin, end, step)]
        if not all([isinstance(x, int) for x in numbers]):
            self.fail(node, "the bounds of const_range must be constants")
        assert isinstance(node.target, ast.Name)
        out = []
        for i in range(*numbers):
            self.env[node.target.id] = i
            out.append(self.block(node.body))
        return stmt_seq(out) if out else Evaluate(IntImm("int32", 0))

    def _if(self, node: ast.If) -> Stmt | None:
        test = _plain(self.expr(node.test))
        if not isinstance(test, PrimExpr):
            chosen = node.body if test else node.orelse
            return self.block(chosen) if chosen else None
        then = self.block(node.body)
        return IfThenElse(test, then, self.block(node.orelse) if node.orelse else None)

    def _assign(self, node: ast.stmt, target: ast.expr, value: Any) -> Stmt | None:
        if isinstance(target, ast.Subscript):
            buffer = self.expr(target.value)
            if not isinstance(buffer, Buffer) or buffer in self.input_buffers:
                self.fail(node, f"{ast.unparse(target.value)} must be an output or allocated tensor to be assigned to")
            return BufferStore(buffer, self._as(value, buffer.dtype), self._indices(node, buffer, target))
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self.fail(node, f"{ast.unparse(target)} takes {len(target.elts)} values at once")
            return stmt_seq([s for t, v in zip(target.elts, value, strict=True) if (s := self._assign(node, t, v))])
        if not isinstance(target, ast.Name):
            self.fail(node, f"{ast.unparse(target)} cannot be assigned to")
        name = target.id
        if isinstance(value, Buffer):
            self.env[name] = self._named(value, name) if value in self.unnamed else value
            return None
        known = self.env.get(name)
        if not isinstance(known, _Scalar):
            if not isinstance(value, PrimExpr) and not isinstance(value, (int, float)):
                self.env[name] = value
                return None
            expr = as_prim_expr(value)
            known = self.env[name] = _Scalar(decl_buffer((1,), expr.dtype, name, scope="local"))
            self.allocated.append(known.buffer)
        return BufferStore(known.buffer, self._as(value, known.buffer.dtype), (IntImm("int32", 0),))

    def _named(self, buffer: Buffer, name: str) -> Buffer:
        """Give a new buffer the name of the variable to which it is assigned."""
        self.unnamed.remove(buffer)
        renamed = buffer.replace(name=name)
        for many in (self.outputs, self.allocated):
            if buffer in many:
                many[many.index(buffer)] = renamed
        return renamed

    def _as(self, value: Any, dtype: DataType) -> PrimExpr:
        if isinstance(value, (bool, int, float)):
            return const(value, dtype)
        expr = as_prim_expr(value)
        return expr if expr.dtype == dtype else cast_to(expr, dtype)

    def _indices(self, node: ast.AST, buffer: Buffer, target: ast.Subscript) -> tuple[PrimExpr, ...]:
        given = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if len(given) != len(buffer.shape):
            self.fail(node, f"{buffer.name} has {len(buffer.shape)} dimensions, but is indexed with {len(given)}")
        return tuple([as_prim_expr(self.expr(i)) for i in given])

    # ---- expressions

    def number(self, node: ast.expr) -> Any:
        value = self.expr(node)
        if isinstance(value, Buffer):
            self.fail(node, f"{ast.unparse(node)} is a tensor; index it to get a number")
        return value

    def expr(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.BinOp):
            return BINARY[type(node.op)](self.number(node.left), self.number(node.right))
        if isinstance(node, ast.UnaryOp):
            value = self.number(node.operand)
            if isinstance(node.op, ast.Not):
                return logical_not(value) if isinstance(value, PrimExpr) else not value
            return UNARY[type(node.op)](value)
        if isinstance(node, ast.Compare):
            values = [self.number(v) for v in (node.left, *node.comparators)]
            return self._joined(
                [_plain(COMPARE[type(o)](a, b)) for o, a, b in zip(node.ops, values, values[1:], strict=False)], True
            )
        if isinstance(node, ast.BoolOp):
            return self._joined([_plain(self.number(v)) for v in node.values], isinstance(node.op, ast.And))
        if isinstance(node, ast.IfExp):
            test = _plain(self.number(node.test))
            if not isinstance(test, PrimExpr):
                return self.expr(node.body if test else node.orelse)
            return intrin.if_then_else(test, self.number(node.body), self.number(node.orelse))
        if isinstance(node, ast.Tuple):
            return tuple([self.expr(e) for e in node.elts])
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self.fail(
            node, f"{type(node).__name__} is not an expression of hybrid scripts: {ast.unparse(node)[:60]}"
        )

    def _name(self, node: ast.Name) -> Any:
        found = self.env.get(node.id, self.outside.get(node.id))
        if found is None:
            self.fail(node, f"{node.id} is not defined")
        return BufferLoad(found.buffer, (IntImm("int32", 0),)) if isinstance(found, _Scalar) else found

    def _joined(self, parts: list[Any], both: bool) -> Any:
        out = parts[0]
        for p in parts[1:]:
            if isinstance(out, PrimExpr) or isinstance(p, PrimExpr):
                left, right = as_prim_expr(out), as_prim_expr(p)
                out = logical_and(left, right) if both else logical_or(left, right)
            else:
                out = (out and p) if both else (out or p)
        return out

    def _attribute(self, node: ast.Attribute) -> Any:
        value = self.expr(node.value)
        if isinstance(value, Buffer) and node.attr in ("shape", "dtype", "ndim"):
            if node.attr == "ndim":
                return len(value.shape)
            return tuple([_plain(d) for d in value.shape]) if node.attr == "shape" else str(value.dtype)
        return self.fail(node, f"tensors have shape and dtype, but no {node.attr}")

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.expr(node.value)
        if isinstance(value, Buffer):
            return BufferLoad(value, self._indices(node, value, node))
        index = _plain(self.expr(node.slice))
        if not isinstance(value, (list, tuple)) or not isinstance(index, int):
            self.fail(node, f"{ast.unparse(node)} must index a tensor, or a sequence by a constant")
        return value[index]

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            self.fail(node, f"{ast.unparse(node.func)} cannot be called in hybrid scripts")
        name, args = node.func.id, [self.expr(a) for a in node.args]
        if name in ("output_tensor", "allocate"):
            return self._tensor(node, name, args)
        if name == "len":
            return _plain(args[0].shape[0]) if isinstance(args[0], Buffer) else len(args[0])
        if name == "ceil_div":
            a, b = args
            return (a + b - 1) // b
        if name == "max_num_threads":
            target = Target.current(bool(_plain(args[0])) if args else True)
            return int(target.max_num_threads) if target is not None else 1
        called = self.outside.get(name)
        if isinstance(called, FunctionType):
            return self._inline(called, args)
        if name in TYPES:
            return cast_to(as_prim_expr(args[0]), DataType(name))
        if name in INTRINSICS:
            if name in ("max", "min") and not any([isinstance(a, PrimExpr) for a in args]):
                return max(*args) if name == "max" else min(*args)
            if name in ("max", "min"):
                out = args[0]
                for a in args[1:]:
                    out = getattr(intrin, name)(out, a)
                return out
            return getattr(intrin, name)(*args)
        return self.fail(node, f"{name} is not a function of hybrid scripts; known are {', '.join(sorted(INTRINSICS))}")

    def _inline(self, function: Callable[..., Any], args: list[Any]) -> Any:
        """The results of another hybrid function. Its statements precede the one that calls it."""
        inner = HybridParser(written(inspect.unwrap(function)), args, self)
        stmt, values = inner.results()
        self.pending.append(stmt)
        return values[0] if len(values) == 1 else tuple(values)

    def _tensor(self, node: ast.Call, kind: str, args: list[Any]) -> Buffer:
        given = dict(zip(("shape", "dtype", "scope"), args, strict=False))
        given.update({k.arg: self.expr(k.value) for k in node.keywords if k.arg})
        if "shape" not in given:
            self.fail(node, f"{kind} needs a shape, as in {kind}((16,), 'float32')")
        if kind == "output_tensor":
            made = decl_buffer(given["shape"], given.get("dtype", "float32"), "output")
            self.outputs.append(made)
            self.unnamed.append(made)
            return made
        if given.get("scope", "global") not in SCOPES and "." not in str(given.get("scope")):
            self.fail(node, f"allocate: the scope is one of {', '.join(SCOPES)}, but is {given.get('scope')!r}")
        made = decl_buffer(given["shape"], given.get("dtype", "float32"), "local", scope=given.get("scope", "global"))
        self.allocated.append(made)
        self.unnamed.append(made)
        return made


def _symbolic(a: Any, b: Any) -> bool:
    return isinstance(a, PrimExpr) or isinstance(b, PrimExpr)


def _equal(a: Any, b: Any) -> Any:
    """Equality as an expression. Python's == would compare the identity of nodes."""
    return eq(as_prim_expr(a), as_prim_expr(b)) if _symbolic(a, b) else a == b


def _plain(value: Any) -> Any:
    """Constants as Python numbers."""
    return value.value if isinstance(value, IntImm) else value
