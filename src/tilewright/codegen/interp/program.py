"""A PrimFunc to one Python function: statements become Python source, compiled once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tilewright.codegen.interp import intrinsics, values
from tilewright.codegen.interp.cooperate import CooperatingThreads
from tilewright.codegen.interp.lanes import is_shared, run_lanes, scope_of, shared_storage, store_first
from tilewright.codegen.interp.values import Accessor, InterpError, Pointer, Storage, np_type
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    CommReducer,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    While,
)

_NESTING = 15
"""Blocks nested in one Python function; CPython allows 20 loops."""

_HELPERS = {
    name: getattr(values, name)
    for name in [
        "address",
        "failure",
        "packed_array",
        "truncdiv",
        "truncmod",
        "floordiv",
        "floormod",
        "lesser",
        "greater",
        "select",
        "saturate",
        "ramp",
        "broadcast",
        "allocate",
    ]
} | {
    name: getattr(intrinsics, name)
    for name in ["fma", "shift_left", "shift_right", "popcount", "clz", "q_multiply_shift", "reinterpret"]
}


def narrow(value: Any, kind: Any) -> Any:
    """A float (or a vector) rounded to `kind`; what is narrower than float32 is reached through float32."""
    array = np.asarray(value)
    if kind.itemsize < 4 and array.dtype == np.float64:
        array = array.astype(np.float32)
    result = array.astype(kind)
    return result if result.ndim else result[()]


def from_int(value: Any, kind: Any) -> Any:
    """An integer as a float, rounded once."""
    value = int(value)
    array = np.asarray(value, np.int64 if value < 1 << 63 else np.uint64)
    return array.astype(np.float32).astype(kind)[()] if kind.itemsize < 4 else array.astype(kind)[()]


class _Buffers(Visitor):
    """All buffers that a body accesses, in order, and those it declares itself."""

    def __init__(self) -> None:
        self.found: dict[int, Buffer] = {}

    def note(self, buffer: Buffer) -> None:
        self.found.setdefault(id(buffer), buffer)

    @on(BufferLoad, BufferStore)
    def _access(self, x: Any) -> None:
        self.note(x.buffer)
        self.visit_children(x)


class Program(CooperatingThreads):
    """The generated Python function of one PrimFunc; `source` is its text, `run(context, args)` calls it."""

    _stmts: ClassVar[dict[type, Callable[..., None]]] = {}

    def __init__(self, name: str, func: PrimFunc) -> None:
        super().__init__()
        self.name, self.func = name, func
        self.env: dict[str, Any] = {"np": np, "Accessor": Accessor, "narrow": narrow, "from_int": from_int, **_HELPERS}
        self.env |= {"bind_match": _bind_match, "InterpError": InterpError}
        self.env |= {"run_lanes": run_lanes, "shared_storage": shared_storage, "store_first": store_first}
        self.names: dict[Var, str] = {}
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.bound: list[dict[int, str]] = [{}]
        self.lines: list[str] = []
        self.depth = 1
        self._unique = itertools.count()
        self.loops: dict[str, str] = {}
        self._keep: list[Any] = []
        buffers = _Buffers()
        buffers.visit(func.body)
        self._accessed: dict[Var, list[Buffer]] = {}
        for buffer in buffers.found.values():
            self._accessed.setdefault(buffer.data, []).append(buffer)
        self._parameters()
        self.stmt(func.body)
        head = "def program(args, races, call_function, call_extern, match_arg):"
        self.source = "\n".join([head, *self.lines, "    return None"])
        exec(compile(self.source, f"<interp {name}>", "exec"), self.env)
        self.entry = self.env["program"]

    # --- emission

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, hint: str) -> str:
        return f"{hint}_{next(self._unique)}"

    def nested(self, header: str, body: Callable[[], None]) -> None:
        """`header` with an indented body; deep nests continue in a function of their own."""
        self.line(header)
        self.depth += 1
        self.bound.append({})
        start = len(self.lines)
        if self.depth % _NESTING == 0:
            part = self.fresh("part")
            self.line(f"def {part}():")
            self.depth += 1
            self.line("pass" if self.lane is None else "if False: yield")
            body()
            self.depth -= 1
            self.line(f"{part}()" if self.lane is None else f"yield from {part}()")
        else:
            body()
        if len(self.lines) == start:
            self.line("pass")
        self.bound.pop()
        self.depth -= 1

    def stmt(self, s: Stmt) -> None:
        method = self._stmts.get(type(s))
        if method is None:
            raise InterpError(
                f"the interpreter has no rule for the statement {type(s).__name__} in function {self.name}"
            )
        method(self, s)

    # --- buffers

    def accessor(self, buffer: Buffer) -> str:
        for scope in reversed(self.bound):
            if id(buffer) in scope:
                return scope[id(buffer)]
        return self.bind(buffer)

    def bind(self, buffer: Buffer) -> str:
        """Makes an accessor for a buffer whose data and sizes are known here."""
        self._keep.append(buffer)
        shape = "".join(f"{self.expr(d)}, " for d in buffer.shape)
        strides = "".join(f"{self.expr(d)}, " for d in buffer.strides)
        offset = self.expr(buffer.elem_offset)
        dtype = self.constant(buffer.dtype, "dtype")
        name = self.fresh("b_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in buffer.name))
        data = self.expr(buffer.data)
        self.line(f"{name} = Accessor({buffer.name!r}, {dtype}, {data}, ({shape}), ({strides}), {offset}, races)")
        self.bound[-1][id(buffer)] = name
        return name

    def bind_all(self, data: Var) -> None:
        """Accessors for every buffer over `data` whose sizes are constants."""
        for buffer in self._accessed.get(data, ()):
            sizes = (*buffer.shape, *buffer.strides, buffer.elem_offset)
            if all([type(d) is IntImm for d in sizes]):
                self.bind(buffer)

    def _parameters(self) -> None:
        """Binds arguments: arrays to buffers, sizes that they tell, scalars."""
        buffers: list[Buffer] = []
        for k, param in enumerate(self.func.params):
            name = self.define(param)
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                self.line(f"{name} = args[{k}]")
                if param.dtype.code == "handle":
                    self.line(f"{name} = match_arg({name}, None, {param.name!r})[0]")
                    self.bind_all(param)
                continue
            spec = self.constant(buffer, "buffer")
            data, shape, strides = self.define(buffer.data), self.fresh("shape"), self.fresh("strides")
            self.line(f"{data}, {shape}, {strides} = match_arg(args[{k}], {spec}, {buffer.name!r})")
            for sizes, source in ((buffer.shape, shape), (buffer.strides, strides)):
                for axis, dim in enumerate(sizes):
                    if isinstance(dim, Var) and dim not in self.names:
                        self.line(f"{self.define(dim)} = {source}[{axis}]")
            if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.names:
                self.line(f"{self.define(buffer.elem_offset)} = 0")
            buffers.append(buffer)
        for k, param in enumerate(self.func.params):
            buffer = self.func.buffer_map.get(param)
            if buffer is not None:
                wanted = "".join(f"{self.expr(d)}, " for d in buffer.shape)
                self.line(f"match_arg.check(args[{k}], ({wanted}), {buffer.name!r})")
                self.bind(buffer)
                for other in self._accessed.get(buffer.data, ()):
                    if other is not buffer and all([type(d) is IntImm for d in (*other.shape, *other.strides)]):
                        self.bind(other)

    # --- statements

    def _seq(self, s: SeqStmt) -> None:
        for item in s.seq:
            self.stmt(item)

    def _evaluate(self, s: Evaluate) -> None:
        if isinstance(s.value, Call) and getattr(s.value.op, "name", "") == "tir.ret":
            self.line(f"return {self.expr(s.value.args[0])}")
        elif self.lane is not None and self.waits(s.value):
            return
        elif type(s.value) is not IntImm:
            self.line(self.expr(s.value))

    def _store(self, s: BufferStore) -> None:
        value = self.expr(s.value)
        name = self.accessor(s.buffer)
        index = "".join(f", {self.expr(i)}" for i in s.indices)
        if s.value.dtype.lanes == 1 and s.predicate is None:
            self.line(f"{name}.set({value}{index})")
        else:
            mask = "None" if s.predicate is None else f"np.atleast_1d({self.expr(s.predicate)})"
            self.line(f"{name}.vset({value}, {mask}{index})")

    def _for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING and self.threads(s, s.thread_binding, s.extent, [s.loop_var]):
            return
        low, extent = self.expr(s.min), self.expr(s.extent)
        name = self.define(s.loop_var)
        self.loops[name] = s.loop_var.name
        a, b = self.bounds(s.min), self.bounds(s.extent)
        if a is not None and b is not None:
            self.ranges[s.loop_var] = (a[0], max(a[1] + b[1] - 1, a[0]))
        end = f"{low} + {extent}" if low != "0" else extent
        thread = s.thread_binding
        if s.kind == ForKind.THREAD_BINDING and thread is not None and thread.var is not s.loop_var:
            self.names[thread.var] = name

        def body() -> None:
            if s.kind == ForKind.PARALLEL:
                self.line(f"if races.on and not {inner}: races.iteration = {name}")
            self.stmt(s.body)

        if s.kind == ForKind.PARALLEL:
            inner = self.fresh("inner")
            self.line(f"{inner} = races.iteration >= 0")
            self.line(f"if races.on and not {inner}: races.epoch += 1; races.loop = {s.loop_var.name!r}")
        self.nested(f"for {name} in range({low}, {end}):", body)
        if s.kind == ForKind.PARALLEL:
            self.line(f"if not {inner}: races.iteration = -1")

    def _while(self, s: While) -> None:
        self.nested("while True:", lambda: self._while_body(s))

    def _while_body(self, s: While) -> None:
        cond = self.expr(s.condition)
        if self.lines[-1].strip().startswith("def part"):
            raise InterpError(f"function {self.name}: a while loop is nested too deeply for the interpreter")
        self.line(f"if not {cond}: break")
        self.stmt(s.body)

    def _if(self, s: IfThenElse) -> None:
        cond = self.expr(s.condition)
        self.nested(f"if {cond}:", lambda: self.stmt(s.then_case))
        if s.else_case is not None:
            other = s.else_case
            self.nested("else:", lambda: self.stmt(other))

    def _let_stmt(self, s: LetStmt) -> None:
        value = self.expr(s.value)
        self.line(f"{self.define(s.var)} = {value}")
        if s.var.dtype.code == "handle":
            self.bind_all(s.var)
        self.stmt(s.body)

    def _assert(self, s: AssertStmt) -> None:
        message = self.expr(s.message)
        self.line(f"if not {self.expr(s.condition)}: raise InterpError(failure({message}))")
        self.stmt(s.body)

    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(s.node, IterVar):
            axis = s.node
            if s.attr_key == "thread_extent" and self.threads(s, axis, s.value, []):
                return
            extent = self.expr(s.value)
            if axis.var in self.names and s.attr_key == "thread_extent":
                self.stmt(s.body)
                return
            name = self.define(axis.var)
            self.loops[name] = axis.var.name
            if type(s.value) is IntImm:
                self.ranges[axis.var] = (0, s.value.value - 1)
            self.nested(f"for {name} in range({extent}):", lambda: self.stmt(s.body))
            return
        if s.attr_key == "reduce_scope" and isinstance(s.node, CommReducer):
            self.reducers.append(s.node)
            self.stmt(s.body)
            self.reducers.pop()
            return
        self.stmt(s.body)

    def _storage(self, data: Var, dtype: DataType, count: str) -> None:
        kind = self.constant(dtype, "dtype")
        scope = scope_of(data)
        if self.lane is not None and is_shared(scope):
            site = self.fresh(f"{data.name} ")
            self.line(
                f"{self.define(data)} = shared_storage({self.shared}, {self.lane}, {scope!r}, {site!r}, {kind}, {count})"
            )
        else:
            self.line(f"{self.define(data)} = allocate({data.name!r}, {kind}, {count})")
        self.bind_all(data)

    def _allocate(self, s: Allocate) -> None:
        count = " * ".join(self.expr(e) for e in s.extents) or "1"
        self._storage(s.buffer_var, s.dtype, count)
        self.stmt(s.body)

    def _allocate_const(self, s: AllocateConst) -> None:
        data = np.ascontiguousarray(s.data.numpy() if hasattr(s.data, "numpy") else s.data).reshape(-1)
        pointer = Pointer(Storage(s.buffer_var.name, data.astype(np_type(s.dtype)), None))
        self.line(f"{self.define(s.buffer_var)} = {self.constant(pointer, 'const')}")
        self.bind_all(s.buffer_var)
        self.stmt(s.body)

    def _decl(self, s: DeclBuffer) -> None:
        self._ensure_data(s.buffer)
        self.stmt(s.body)

    def _ensure_data(self, buffer: Buffer) -> None:
        """Storage for a buffer whose data nothing else defines."""
        if buffer.data not in self.names:
            count = " * ".join(self.expr(d) for d in buffer.shape) or "1"
            if buffer.strides:
                count = f"{self.expr(buffer.strides[0])} * {self.expr(buffer.shape[0])}"
            self._storage(buffer.data, buffer.dtype, count)

    def _realize(self, s: BufferRealize) -> None:
        self._ensure_data(s.buffer)
        self.stmt(s.body)

    # --- blocks

    def _block_realize(self, s: BlockRealize) -> None:
        block = s.block
        if type(s.predicate) is IntImm and s.predicate.value:
            self._block_body(block, s.iter_values)
        else:
            cond = self._predicate(s)
            self.nested(f"if {cond}:", lambda: self._block_body(block, s.iter_values))

    def _predicate(self, s: BlockRealize) -> str:
        return self.expr(s.predicate)

    def _block_body(self, block: Block, iter_values: tuple[PrimExpr, ...]) -> None:
        start = []
        for axis, value in zip(block.iter_vars, iter_values, strict=True):
            text = self.expr(value)
            name = self.define(axis.var)
            self.loops[name] = axis.var.name
            self.line(f"{name} = {text}")
            if axis.dom is not None:
                low, extent = self.expr(axis.dom.min), self.expr(axis.dom.extent)
                known, a, b = self.bounds(value), self.bounds(axis.dom.min), self.bounds(axis.dom.extent)
                fits = (
                    known is not None
                    and a is not None
                    and b is not None
                    and a[1] <= known[0]
                    and known[1] < a[0] + b[0]
                )
                if not fits:
                    self.line(
                        f"if not {low} <= {name} < {low} + {extent}: raise InterpError("
                        f"f'block {block.name_hint}: axis {axis.var.name} = {{{name}}} lies outside {{{low}}}.."
                        f"{{{low} + {extent} - 1}}')"
                    )
                if a is not None and b is not None:
                    self.ranges[axis.var] = (a[0], max(a[1] + b[1] - 1, a[0]))
                if axis.iter_type == IterVar.CommReduce:
                    start.append(f"{name} == {low}")
        for match in block.match_buffers:
            self._match(match)
        for buffer in block.alloc_buffers:
            self._ensure_fresh(buffer)
        if block.init is not None:
            init = block.init
            if start:
                self.nested(f"if {' and '.join(start)}:", lambda: self.stmt(init))
            else:
                self.stmt(init)
        self.stmt(block.body)

    def _ensure_fresh(self, buffer: Buffer) -> None:
        self.names.pop(buffer.data, None)
        self._ensure_data(buffer)

    def _match(self, match: MatchBufferRegion) -> None:
        """A buffer that is a view: its data, strides and offset are those of the region it stands for."""
        buffer, source = match.buffer, match.source.buffer
        outer = self.accessor(source)
        begins = "".join(f"{self.expr(r.min)}, " for r in match.source.region)
        extents = "".join(f"{self.expr(r.extent)}, " for r in match.source.region)
        base, strides = self.fresh("base"), self.fresh("strides")
        ndim = len(buffer.shape)
        self.line(f"{base}, {strides} = bind_match({outer}, ({begins}), ({extents}), {ndim}, {buffer.name!r})")
        self.line(f"{self.define(buffer.data)} = {self.expr(source.data)}")
        if isinstance(buffer.elem_offset, Var):
            self.line(f"{self.define(buffer.elem_offset)} = {base}")
        for axis, stride in enumerate(buffer.strides):
            if isinstance(stride, Var):
                self.line(f"{self.define(stride)} = {strides}[{axis}]")
        for axis, dim in enumerate(buffer.shape):
            if isinstance(dim, Var) and dim not in self.names:
                region = match.source.region[axis - ndim]
                self.line(f"{self.define(dim)} = {self.expr(region.extent)}")
        shape = "".join(f"{self.expr(d)}, " for d in buffer.shape)
        dtype = self.constant(buffer.dtype, "dtype")
        name = self.fresh("match")
        data = self.expr(buffer.data)
        self.line(f"{name} = Accessor({buffer.name!r}, {dtype}, {data}, ({shape}), {strides}, {base}, races)")
        self.bound[-1][id(buffer)] = name
        self._keep.append(buffer)


def _bind_match(
    source: Accessor, begins: tuple[int, ...], extents: tuple[int, ...], ndim: int, name: str
) -> tuple[int, tuple[int, ...]]:
    """(element offset, strides) of a view of a region; leading axes that the view drops must have extent 1."""
    for begin, extent, dim in zip(begins, extents, source.shape, strict=True):
        if begin < 0 or begin + extent > dim:
            raise InterpError(
                f"match_buffer {name}: region {begins} with extents {extents} leaves buffer {source.name}"
                f" of shape {source.shape}"
            )
    dropped = len(begins) - ndim
    if any(extent != 1 for extent in extents[:dropped]):
        raise InterpError(
            f"match_buffer {name} drops axes of extents {extents[:dropped]}; only axes of extent 1 can be dropped"
        )
    base = source.offset // source.lanes + sum(b * s for b, s in zip(begins, source.strides, strict=True))
    return base, tuple(source.strides[dropped:])


Program._stmts = {
    SeqStmt: Program._seq,
    Evaluate: Program._evaluate,
    BufferStore: Program._store,
    For: Program._for,
    While: Program._while,
    IfThenElse: Program._if,
    LetStmt: Program._let_stmt,
    AssertStmt: Program._assert,
    AttrStmt: Program._attr,
    Allocate: Program._allocate,
    AllocateConst: Program._allocate_const,
    DeclBuffer: Program._decl,
    BufferRealize: Program._realize,
    BlockRealize: Program._block_realize,
}
