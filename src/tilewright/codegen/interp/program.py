"""Python function of a PrimFunc: statements become Python source, which is compiled once."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, ClassVar

import numpy as np

from tilewright.codegen.interp.cooperate import CooperatingThreads
from tilewright.codegen.interp.direct import (
    MOST_CELLS,
    Site,
    Usage,
    extents,
    is_compact,
    is_plain,
)
from tilewright.codegen.interp.environment import ENVIRONMENT
from tilewright.codegen.interp.expr import python_name
from tilewright.codegen.interp.lanes import is_shared, scope_of
from tilewright.codegen.interp.values import InterpError, Pointer, Storage, np_type
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import (
    Add,
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
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
    Mul,
    Prefetch,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    Var,
    While,
)
from tilewright.tir.transform.block.empty_reductions import define_empty_reductions

_NESTING = 15
"""The most nested blocks in one Python function. CPython allows 20."""


@lru_cache(maxsize=256)
def _code(name: str, source: str) -> CodeType:
    return compile(source, f"<interp {name}>", "exec")


def _is_told(size: PrimExpr, told: frozenset[Var]) -> bool:
    """Whether a size is an expression of constants and of variables that the arguments give."""
    if isinstance(size, (Add, Mul)):
        return _is_told(size.a, told) and _is_told(size.b, told)
    return isinstance(size, IntImm) or size in told


class Program(CooperatingThreads):
    """The generated Python function of one PrimFunc; `source` is its text, `entry` the function.

    checked: every access goes through an accessor, which checks for races and takes any pointer. Otherwise elements that are known to exist
    are accessed directly; for an argument that does not allow this, the function raises UnsuitableArgument before it does anything.
    """

    _stmts: ClassVar[dict[type, Callable[..., None]]] = {}

    def __init__(self, name: str, func: PrimFunc, checked: bool = False) -> None:
        super().__init__()
        self.name, self.func, self.checked = name, func, checked
        self.env: dict[str, Any] = dict(ENVIRONMENT)
        self.names: dict[Var, str] = {}
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.bound: list[dict[int, str]] = [{}]
        self.lines: list[str | Site] = []
        self.sites: dict[Var, Site] = {}
        self.told: frozenset[Var] = frozenset()
        """The variables whose values arguments give."""
        self._placed: list[tuple[int, int, Stmt]] = []
        self.depth = 1
        self._unique = itertools.count()
        self.loops: list[tuple[str, str, int, int]] = []
        self.launched: set[Var] = set()
        self._keep: list[Any] = []
        self.usage = Usage()
        body = define_empty_reductions(func.body)
        self.usage.visit(body)
        self._parameters()
        self.stmt(body)
        lines = ["def program(args, races, call_function, call_extern, match_arg):"]
        lines += ["    tiles = Tiles(races)"] if self.has_tiles else []
        lines += ["    fragments = Fragments(races)"] if self.has_fragments else []
        lines += ["    copies = Copies(races)"] if self.has_copies else []
        numbers: list[int] = []
        for line in self.lines:
            numbers.append(len(lines) + 1)
            if isinstance(line, Site):
                lines += line.lines
            else:
                lines.append(line)
        self.source = "\n".join([*lines, "    return None"])
        # The statement of each line of the source.
        self.places = {n: s for first, last, s in self._placed for n in numbers[first:last]}
        self._numbers = numbers
        exec(_code(name, self.source), self.env)
        self.entry = self.env["program"]

    def loops_at(self, line: int) -> list[tuple[str, str]]:
        """(Python name, name in the program) of the variables of the loops and blocks around a line of the source."""
        at = bisect.bisect_right(self._numbers, line) - 1
        return [
            (name, label) for name, label, first, last in sorted(self.loops, key=lambda v: v[2]) if first <= at < last
        ]

    # --- emission

    def around(self, name: str, label: str, start: int) -> None:
        """Records that the lines from `start` on are inside the loop with this variable."""
        self.loops.append((name, label, start, len(self.lines)))

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, hint: str) -> str:
        return f"{hint}_{next(self._unique)}"

    def nested(self, header: str, body: Callable[[], None]) -> None:
        """Writes `header` with an indented body. Deep nests continue in a function of their own."""
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
        if type(s) is not BufferStore and type(s) is not Evaluate:
            method(self, s)
            return
        start = len(self.lines)
        method(self, s)
        self._placed.append((start, len(self.lines), s))

    # --- buffers

    def accessor(self, buffer: Buffer) -> str:
        for scope in reversed(self.bound):
            if id(buffer) in scope:
                return scope[id(buffer)]
        site = self.sites.get(buffer.data)
        if site is not None and site.kind != "cells":
            found = site.accessors.get(id(buffer))
            if found is not None:
                return found
            if all([_is_told(d, site.told) for d in (*buffer.shape, *buffer.strides, buffer.elem_offset)]):
                name, text = self._accessor_text(buffer)
                site.lines.append("    " * site.depth + text)
                site.accessors[id(buffer)] = name
                return name
        return self.bind(buffer)

    def _accessor_text(self, buffer: Buffer) -> tuple[str, str]:
        self._keep.append(buffer)
        shape = "".join(f"{self.expr(d)}, " for d in buffer.shape)
        strides = "".join(f"{self.expr(d)}, " for d in buffer.strides)
        offset = self.expr(buffer.elem_offset)
        name = self.fresh("b_" + python_name(buffer.name))
        made = f"Accessor({buffer.name!r}, {self.dtype(buffer.dtype)}, {self.expr(buffer.data)}"
        return name, f"{name} = {made}, ({shape}), ({strides}), {offset}, races)"

    def bind(self, buffer: Buffer) -> str:
        """Writes the accessor of a buffer whose data and sizes are known here."""
        name, text = self._accessor_text(buffer)
        self.line(text)
        self.bound[-1][id(buffer)] = name
        return name

    def site(self, data: Var, kind: str = "") -> None:
        """Marks this line as the definition of `data`: buffers of it are bound here if they are used and their sizes are known."""
        site = self.sites[data] = Site(self.depth, kind, self.told)
        self.lines.append(site)

    def direct(self, buffer: Buffer) -> str | None:
        """The name for direct access to single elements of a buffer; None if it needs an accessor."""
        site = self.sites.get(buffer.data)
        if site is None or not site.kind:
            return None
        if site.kind == "cells":
            return self.names[buffer.data]
        if id(buffer) not in site.direct:
            self._keep.append(buffer)
            name = None
            if is_compact(buffer) and buffer.dtype.lanes == 1:
                count = 1
                for n in extents(buffer):
                    count *= n
                name = self.fresh("e_" + python_name(buffer.name))
                reach = "elements_at" if site.kind == "address" else "elements"
                args = f"{self.names[buffer.data]}, {self.kind(buffer.dtype)}, {count}, {is_plain(buffer.dtype)}"
                site.lines.append(f"{'    ' * site.depth}{name} = {reach}({args})")
            site.direct[id(buffer)] = name
        return site.direct[id(buffer)]

    def is_cells(self, buffer: Buffer) -> bool:
        """Whether the buffer's storage is a table of cells."""
        return self.sites[buffer.data].kind == "cells"

    def _parameters(self) -> None:
        """Binds the arguments: scalars, arrays to buffers, and the sizes that the arrays give."""
        for k, param in enumerate(self.func.params):
            name = self.define(param)
            if param in self.func.buffer_map:
                continue
            self.line(f"{name} = args[{k}]")
            if param.dtype.code == "handle":
                self.line(f"{name} = match_arg({name}, None, {param.name!r})[0]")
                self.site(param, "" if self.checked else "argument")
            elif param.dtype.is_float and param.dtype.lanes == 1:
                self.line(f"{name} = {self.scalar(param.dtype)}({name})")
        for k, param in enumerate(self.func.params):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
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
        self.told = frozenset(self.names)
        for k, param in enumerate(self.func.params):
            buffer = self.func.buffer_map.get(param)
            if buffer is not None:
                wanted = "".join(f"{self.expr(d)}, " for d in buffer.shape)
                self.line(f"match_arg.check(args[{k}], ({wanted}), {buffer.name!r})")
                self.site(buffer.data, "" if self.checked else "argument")

    # --- statements

    def _seq(self, s: SeqStmt) -> None:
        for item in s.seq:
            self.stmt(item)

    def _prefetch(self, s: Prefetch) -> None:
        self.line("pass")

    def _evaluate(self, s: Evaluate) -> None:
        if isinstance(s.value, Call) and getattr(s.value.op, "name", "") == "tir.ret":
            self.line(f"return {self.expr(s.value.args[0])}")
        elif self.lane is not None and self.waits(s.value):
            return
        elif type(s.value) is not IntImm:
            self.line(self.expr(s.value))

    def _store(self, s: BufferStore) -> None:
        value = self.expr(s.value)
        direct = self.direct(s.buffer) if s.value.dtype.lanes == 1 and s.predicate is None else None
        if direct is not None:
            at = self.inside(s.buffer, s.indices)
            cells = self.is_cells(s.buffer)
            if at is not None:
                self.line(f"{direct}[{at}] = {self.exact(value, s.value) if cells else value}")
                return
            if cells:
                self.line(f"{direct}.write({self.exact(value, s.value)}{self._indices(s.indices)})")
                return
        name = self.accessor(s.buffer)
        if s.value.dtype.lanes == 1 and s.predicate is None:
            self.line(f"{name}.set({value}{self._indices(s.indices)})")
        elif self.is_run(s.buffer, s.indices, s.predicate):
            ramp = s.indices[0]
            assert isinstance(ramp, Ramp)
            self.line(f"{name}.put({value}, {self.expr(ramp.base)}, {ramp.lanes})")
        else:
            mask = "None" if s.predicate is None else f"np.atleast_1d({self.expr(s.predicate)})"
            self.line(f"{name}.vset({value}, {mask}{self._indices(s.indices)})")

    def _indices(self, indices: tuple[PrimExpr, ...]) -> str:
        return "".join([f", {self.expr(i)}" for i in indices])

    def _for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING and self.threads(s, s.thread_binding, s.extent, [s.loop_var]):
            return
        low, extent = self.expr(s.min), self.expr(s.extent)
        name = self.define(s.loop_var)
        a, b = self.bounds(s.min), self.bounds(s.extent)
        if a is not None and b is not None:
            self.ranges[s.loop_var] = (a[0], max(a[1] + b[1] - 1, a[0]))
        end = f"{low} + {extent}" if low != "0" else extent
        thread = s.thread_binding
        if s.kind == ForKind.THREAD_BINDING and thread is not None and thread.var is not s.loop_var:
            self.names[thread.var] = name

        watched = s.kind == ForKind.PARALLEL and self.checked
        launches = s.kind == ForKind.THREAD_BINDING and thread is not None and self.is_axis_of_launch(thread.thread_tag)

        def body() -> None:
            if watched:
                self.line(f"if races.on and not {inner}: races.iteration = {name}")
            self.stmt(s.body)

        if watched:
            inner = self.fresh("inner")
            self.line(f"{inner} = races.iteration >= 0")
            self.line(f"if races.on and not {inner}: races.epoch += 1; races.loop = {s.loop_var.name!r}")
        start = len(self.lines) + 1
        header = f"for {name} in range({low}, {end}):" if low != "0" else f"for {name} in range({end}):"
        if launches:
            self.axis_of_launch(name, header, s, body)
        else:
            self.nested(header, body)
        self.around(name, s.loop_var.name, start)
        if watched:
            self.line(f"if not {inner}: races.iteration = -1")

    def _while(self, s: While) -> None:
        self.nested("while True:", lambda: self._while_body(s))

    def _while_body(self, s: While) -> None:
        cond = self.expr(s.condition)
        if str(self.lines[-1]).strip().startswith("def part"):
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
        known = self.bounds(s.value)
        if known is not None:
            self.ranges[s.var] = known
        if s.var.dtype.code == "handle":
            at_address = isinstance(s.value, Call) and getattr(s.value.op, "name", "") == "tir.reinterpret"
            self.site(s.var, "address" if at_address and not self.checked else "")
        self.stmt(s.body)

    def _assert(self, s: AssertStmt) -> None:
        message = self.expr(s.message)
        self.line(f"if not {self.expr(s.condition)}: raise failure({message})")
        self.stmt(s.body)

    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(s.node, IterVar):
            axis = s.node
            if s.attr_key == "thread_extent" and self.threads(s, axis, s.value, []):
                return
            extent = self.expr(s.value)
            if axis.var in self.launched and s.attr_key == "thread_extent":
                self.stmt(s.body)
                return
            name = self.define(axis.var)
            if type(s.value) is IntImm:
                self.ranges[axis.var] = (0, s.value.value - 1)
            # Consecutive kernels may launch the same variable.
            self.launched.add(axis.var)
            start = len(self.lines) + 1
            header = f"for {name} in range({extent}):"
            if s.attr_key == "thread_extent" and self.is_axis_of_launch(axis.thread_tag):
                self.axis_of_launch(name, header, s, lambda: self.stmt(s.body))
            else:
                self.nested(header, lambda: self.stmt(s.body))
            self.around(name, axis.var.name, start)
            self.launched.discard(axis.var)
            return
        if s.attr_key == "reduce_scope" and isinstance(s.node, CommReducer):
            self.reducers.append(s.node)
            self.stmt(s.body)
            self.reducers.pop()
            return
        if s.attr_key == "async_wait_inflight_count":
            self.has_copies = True
            self.line(f"copies.wait({self.expr(s.value)})")
        self.stmt(s.body)
        if s.attr_key == "async_commit_queue_scope":
            self.has_copies = True
            self.line("copies.commit()")

    def _storage(self, data: Var, dtype: DataType, count: tuple[PrimExpr, ...]) -> None:
        scope = scope_of(data)
        total = " * ".join([self.expr(n) for n in count]) or "1"
        if self.lane is not None and is_shared(scope):
            site = self.fresh(f"{data.name} ")
            made = f"{self.shared}, {self.lane}, {scope!r}, {site!r}, {self.dtype(dtype)}, {total}"
            self.line(f"{self.define(data)} = shared_storage({made})")
            self.site(data)
            return
        buffer = self._only_cells(data, dtype, count)
        if buffer is not None:
            shape = "".join([f"{n}, " for n in extents(buffer)])
            self.line(f"{self.define(data)} = Cells({buffer.name!r}, ({shape}))")
            self.site(data, "cells")
            return
        common = ", True" if scope == "global" and not self.axes_around and self.lane is None else ""
        self.line(f"{self.define(data)} = allocate({data.name!r}, {self.dtype(dtype)}, {total}{common})")
        self.site(data)

    def _only_cells(self, data: Var, dtype: DataType, count: tuple[PrimExpr, ...]) -> Buffer | None:
        """The buffer of storage whose accesses are all of single elements; None for other storage."""
        usage = self.usage
        buffers = usage.buffers.get(data, ())
        if self.checked or self.lane is not None or len(buffers) != 1:
            return None
        if data in usage.vectors or data in usage.escaping or not is_compact(buffers[0]) or buffers[0].dtype != dtype:
            return None
        size = used = 1
        for n in count:
            if type(n) is not IntImm:
                return None
            size *= n.value
        for k in extents(buffers[0]):
            used *= k
        return buffers[0] if used <= size and size <= MOST_CELLS else None

    def _allocate(self, s: Allocate) -> None:
        self._storage(s.buffer_var, s.dtype, s.extents)
        self.stmt(s.body)

    def _allocate_const(self, s: AllocateConst) -> None:
        data = np.ascontiguousarray(s.data.numpy() if hasattr(s.data, "numpy") else s.data).reshape(-1)
        pointer = Pointer(Storage(s.buffer_var.name, data.astype(np_type(s.dtype)), None))
        self.line(f"{self.define(s.buffer_var)} = {self.constant(pointer, 'const')}")
        self.site(s.buffer_var)
        self.stmt(s.body)

    def _decl(self, s: DeclBuffer) -> None:
        self._ensure_data(s.buffer)
        self.stmt(s.body)

    def _ensure_data(self, buffer: Buffer) -> None:
        """Allocates storage for a buffer whose data variable is not defined yet."""
        if buffer.data not in self.names:
            count = (buffer.strides[0], buffer.shape[0]) if buffer.strides else buffer.shape
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
        start, axes = [], []
        together = self.reduced_together(block, iter_values)
        for axis, value in zip(block.iter_vars, iter_values, strict=True):
            text = self.expr(value)
            name = self.define(axis.var)
            self.line(f"{name} = {text}")
            axes.append((name, axis.var.name, len(self.lines)))
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
        self.name_thread(together)
        for name, label, first in axes:
            self.around(name, label, first)

    def _ensure_fresh(self, buffer: Buffer) -> None:
        self.names.pop(buffer.data, None)
        self._ensure_data(buffer)

    def _match(self, match: MatchBufferRegion) -> None:
        """Binds a view: its data, strides and offset are those of the region that it matches."""
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
        name = self.fresh("match")
        data, dtype = self.expr(buffer.data), self.dtype(buffer.dtype)
        self.line(f"{name} = Accessor({buffer.name!r}, {dtype}, {data}, ({shape}), {strides}, {base}, races)")
        self.bound[-1][id(buffer)] = name
        self._keep.append(buffer)


@lru_cache(maxsize=64)
def compiled(name: str, func: PrimFunc, checked: bool) -> Program:
    """The program of a function. It is cached: functions often run again, alone or in another module."""
    return Program(name, func, checked)


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
    Prefetch: Program._prefetch,
    BufferRealize: Program._realize,
    BlockRealize: Program._block_realize,
}
