"""Tensor intrinsics: computations in plain loops with implementations by instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Node
from tilewright.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Var,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.linear_forms import Forms, Lin, combine, same
from tilewright.tir.schedule.primitives.copies import copy_statement
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.stmt_functor import substitute, used_vars

if TYPE_CHECKING:
    from tilewright.tir.expr import Mul
    from tilewright.tir.stmt import Stmt


class TensorIntrin(Node, key="tir.TensorIntrin"):
    """desc: the computation. impl: the implementation, on buffers of the same shapes."""

    desc: PrimFunc
    impl: PrimFunc

    _known: ClassVar[dict[str, Any]] = {}
    _families: ClassVar[dict[str, Callable[[str], Any]]] = {}

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Register an intrinsic under a name. Raises ValueError if the name exists and `override` is not set."""
        if name in TensorIntrin._known and not override:
            raise ValueError(f"the tensor intrinsic {name!r} is registered already; pass override=True to replace it")
        if len(desc.params) != len(impl.params):
            raise ValueError(
                f"desc and impl of {name!r} must take the same buffers, but take {len(desc.params)} and {len(impl.params)}"
            )
        found = TensorIntrin._known[name] = TensorIntrin(desc, impl)
        return found

    @staticmethod
    def register_family(prefix: str, make: Callable[[str], TensorIntrin | None]) -> None:
        """Register a function that makes intrinsics from their names. When a name with this prefix is first requested,
        `make(name)` returns the intrinsic or None.
        """
        TensorIntrin._families[prefix] = make

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic with this name. If there is none: None with `allow_missing`, otherwise raises ScheduleError."""
        found: TensorIntrin | None = TensorIntrin._known.get(name)
        if found is None:
            makers = [make for prefix, make in TensorIntrin._families.items() if name.startswith(prefix)]
            found = next((made for make in makers if (made := make(name)) is not None), None)
            if found is not None:
                TensorIntrin._known[name] = found
        if found is None and not allow_missing:
            refuse(f"there is no tensor intrinsic {name!r}; registered are {sorted(TensorIntrin._known)}")
        return found


class _Match:
    """Compares the description with a block, and finds the first index of the tile in each buffer."""

    def __init__(self, forms: Forms, block: Block) -> None:
        self.forms, self.block = forms, block
        self.env: dict[Any, Lin] = {}
        self.want_env: dict[Any, Lin] = {}
        self.loops: set[Any] = set()
        self.lets: dict[Any, Any] = {}
        self.buffers: dict[Any, tuple[Any, list[Lin]]] = {}

    def no(self, why: str, at: Mul | Block | BufferStore | For | None = None) -> NoReturn:
        culprits = (self.block,) if at is None or at is self.block else (self.block, at)
        refuse(f"{{0}} must be the computation that the intrinsic describes, but {why}", *culprits)

    def index(self, e: Any, env: dict[Any, Lin]) -> Lin:
        return self.forms.of(e, env)

    def stmt(self, want: Any, have: Any) -> None:
        if type(want) is not type(have):
            self.no(f"has {type(have).__name__} where that has {type(want).__name__}", have)
        if isinstance(want, For):
            if not same(self.index(want.extent, self.want_env), self.index(have.extent, self.env)):
                self.no(f"loop {have.loop_var.name} runs to {have.extent}, not {want.extent}", have)
            self.want_env[want.loop_var] = self.forms.var(have.loop_var)
            self.loops.add(have.loop_var)
            self.stmt(want.body, have.body)
        elif isinstance(want, SeqStmt):
            if len(want.seq) != len(have.seq):
                self.no(f"has {len(have.seq)} statements where that has {len(want.seq)}", have.seq[-1])
            for a, b in zip(want.seq, have.seq, strict=True):
                self.stmt(a, b)
        elif isinstance(want, BlockRealize):
            a, b = want.block, have.block
            for realize, env in ((want, self.want_env), (have, self.env)):
                for iv, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
                    env[iv.var] = self.index(value, env)
            if b.match_buffers or b.alloc_buffers:
                self.no(f"block {b.name_hint} views or allocates buffers", b)
            kinds = [
                [iv.iter_type for iv in x.iter_vars if self.forms.leaves(env[iv.var]) & self.loops]
                for x, env in ((a, self.want_env), (b, self.env))
            ]
            if kinds[0] != kinds[1]:
                self.no("its iteration variables are of other kinds", b)
            if (a.init is None) != (b.init is None):
                self.no("one has an initialisation and the other has none", b)
            self.expr(want.predicate, have.predicate)
            if a.init is not None:
                self.stmt(a.init, b.init)
            self.stmt(a.body, b.body)
        elif isinstance(want, BufferStore):
            self.access(want, have)
            self.expr(want.value, have.value)
        elif isinstance(want, IfThenElse):
            self.expr(want.condition, have.condition)
            if (want.else_case is None) != (have.else_case is None):
                self.no("one has an else and the other has none", have)
            self.stmt(want.then_case, have.then_case)
            if want.else_case is not None:
                self.stmt(want.else_case, have.else_case)
        elif isinstance(want, LetStmt):
            self.expr(want.value, have.value)
            self.want_env[want.var] = self.forms.var(have.var)
            self.lets[want.var] = have.var
            self.stmt(want.body, have.body)
        elif isinstance(want, Evaluate):
            self.expr(want.value, have.value)
        else:
            self.no(f"no {type(want).__name__} can be compared", have)

    def begin(self, have: Lin, want: Any) -> Lin:
        """The first index of the tile along an axis: the index of an element minus its position in the tile."""
        form = have if want is None else combine(have, self.index(want, self.want_env), -1)
        return self.forms.merge_digits(form)

    def divided(self, e: Any) -> Lin:
        """The form of an index, with divisions resolved as far as the bounds of loops allow."""
        plain = self.forms.emit(self.index(e, self.env), str(e.dtype))
        analyzer = Analyzer()
        for v in used_vars(plain):
            if v in self.forms.ranges:
                low, high = self.forms.ranges[v]
                analyzer.bind(v, Range.from_min_extent(low, high - low + 1))
        return self.forms.of(analyzer.simplify(plain))

    def access(self, want: BufferLoad | BufferStore, have: Any) -> None:
        lead = len(have.indices) - len(want.indices)
        if lead < 0 or want.buffer.dtype != have.buffer.dtype:
            self.no(
                f"{have.buffer.name} ({have.buffer.dtype}) is not a tile of the kind of {want.buffer.name} ({want.buffer.dtype})",
                have,
            )
        base: list[Lin] = []
        for i, e in enumerate(have.indices):
            form = self.begin(self.index(e, self.env), want.indices[i - lead] if i >= lead else None)
            if self.forms.leaves(form) & self.loops:
                # A tile that is a part of a block: its quotients depend on the bounds of the loops.
                form = self.begin(self.divided(e), want.indices[i - lead] if i >= lead else None)
            if self.forms.leaves(form) & self.loops:
                self.no(
                    f"{have.buffer.name} is accessed at {list(have.indices)} where that accesses {list(want.indices)}",
                    have,
                )
            base.append(form)
        known = self.buffers.setdefault(want.buffer, (have.buffer, base))
        if known[0] is not have.buffer or not all([same(a, b) for a, b in zip(known[1], base, strict=True)]):
            self.no(f"{have.buffer.name} stands where the same tile of {known[0].name} should", have)

    def expr(self, want: Any, have: Any) -> None:
        if isinstance(want, BufferLoad) and isinstance(have, BufferLoad):
            self.access(want, have)
            return
        if isinstance(want, PrimExpr) and isinstance(have, PrimExpr) and want.dtype.is_int and have.dtype.is_int:
            a, b = self.index(want, self.want_env), self.index(have, self.env)
            if same(a, b):
                return
        if type(want) is not type(have) or getattr(want, "dtype", None) != getattr(have, "dtype", None):
            self.no(f"computes {have} where that computes {want}", have)
        if isinstance(want, Var):
            if self.lets.get(want) is have:
                return
            self.no(f"uses {have} where that uses {want}", have)
        for f in want._fields:
            if f.kind == "skip":
                continue
            a, b = getattr(want, f.name), getattr(have, f.name)
            if isinstance(a, PrimExpr):
                self.expr(a, b)
            elif isinstance(a, tuple):
                if len(a) != len(b):
                    self.no(f"computes {have} where that computes {want}")
                for x, y in zip(a, b, strict=True):
                    self.expr(x, y)
            elif a != b:
                self.no(f"computes {have} where that computes {want}")


def need_described(state: ScheduleState, block: Block, desc: Any) -> _Match:
    """How a block is the computation of a description. Raises ScheduleError if it is not."""
    match = _Match(state.forms, block)
    root = desc.body.block
    match.stmt(root.body, block.body)
    if root.init is not None and block.init is not None:
        match.stmt(root.init, block.init)
    return match


def match_intrinsic(
    state: ScheduleState, block: Block, intrin: TensorIntrin
) -> tuple[Stmt, tuple[MatchBufferRegion, ...]]:
    """The body of the intrinsic for a block that matches its description, and the views of the block's buffers."""
    desc: Any = intrin.desc
    impl: Any = intrin.impl
    match = need_described(state, block, desc)
    views = []
    renamed: dict[Var, Var] = {}
    for p, q in zip(desc.params, impl.params, strict=True):
        want, buffer = desc.buffer_map[p], impl.buffer_map[q]
        if want not in match.buffers:
            refuse(f"{{0}} does not use the tile {want.name} of the intrinsic", block)
        have, base = match.buffers[want]
        if have.scope() != buffer.scope():
            refuse(
                f"{{0}} has buffer {have.name} in scope {have.scope()}, where {buffer.name} of the intrinsic is in scope"
                f" {buffer.scope()}; give match_buffer of the intrinsic scope={have.scope()!r}",
                block,
            )
        lead = len(base) - len(want.shape)
        ranges = []
        for i, form in enumerate(base):
            dtype = str(have.shape[i].dtype)
            extent = IntImm(dtype, 1) if i < lead else want.shape[i - lead]
            ranges.append(Range.from_min_extent(state.forms.emit(form, dtype), extent))
        for v in (buffer.data, buffer.elem_offset, *buffer.strides):
            if isinstance(v, Var):
                renamed[v] = Var(v.name, v.type_annotation if v is buffer.data else v.dtype)
        views.append(MatchBufferRegion(buffer, BufferRegion(have, tuple(ranges))))
    impl_root = impl.body.block
    carrier = Block((), (), (), "", copy_statement(impl_root.body), None, impl_root.alloc_buffers, tuple(views))
    carrier = substitute(carrier, renamed)
    body = carrier.body
    if carrier.alloc_buffers:
        body = BlockRealize(
            (), IntImm("bool", 1), Block((), block.reads, block.writes, "", body, None, carrier.alloc_buffers)
        )
    return body, carrier.match_buffers
