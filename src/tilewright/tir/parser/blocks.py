"""Words of blocks: `T.block`, its axes, and what is said inside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.script.parser import Frame, Scope, ScriptParser, active
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import extent_of
from tilewright.tir.expr import IterVar, Var
from tilewright.tir.parser.complete import with_regions
from tilewright.tir.parser.frames import BlockFrame, FunctionFrame
from tilewright.tir.parser.program import TirParser
from tilewright.tir.parser.values import as_region, plain
from tilewright.tir.stmt import Block, BlockRealize, BufferRegion, Stmt


def tir_parser(what: str) -> TirParser:
    """The parser of the function that is being read."""
    p = active(what)
    if not isinstance(p, TirParser):
        raise TVMError(f"{what} stands inside of a function")
    return p


class BlockScope(Scope):
    """A block around statements."""

    what = "a block"
    inline = False

    def __init__(self, name: str, no_realize: bool) -> None:
        self.frame = BlockFrame(name, not no_realize)

    def enter(self, p: ScriptParser) -> None:
        p.frames.append(self.frame)

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        f = self.frame
        assert isinstance(p, TirParser)
        block = Block(
            f.iter_vars, f.reads or (), f.writes or (), f.name, body, f.init, f.allocations, f.matches, f.annotations
        )
        missing = (f.reads is None, f.writes is None)
        if any(missing):
            block = with_regions(block, p.by_data, missing)
            p.detected.add(id(block))
            p.kept.append(block)
        if not f.realized:
            if f.predicate is not None or f.iter_values:
                raise TVMError(
                    f'the block "{f.name}" is not realized, so it has neither T.where nor values of its axes'
                )
            return block
        return BlockRealize(tuple(f.iter_values), const_true() if f.predicate is None else f.predicate, block)


class InitScope(Scope):
    """Statements that a reduction block runs before its first iteration."""

    what = "the init of a block"
    inline = False

    def enter(self, p: ScriptParser) -> None:
        assert isinstance(p, TirParser)
        self.block: BlockFrame = p.frame("T.init", BlockFrame)
        if self.block.init is not None:
            raise TVMError(f'the block "{self.block.name}" has two inits')
        p.frames.append(Frame("an init"))

    def leave(self, p: ScriptParser, body: Any) -> None:
        self.block.init = body


def block(name: str = "", no_realize: bool = False) -> BlockScope:
    """A block of that name: `with T.block("C"):`."""
    if not isinstance(name, str):
        raise TypeError(
            f"T.block takes a name, but was given {type(name).__name__}: {name!r}; axes are bound by T.axis"
        )
    return BlockScope(name, no_realize)


def init() -> InitScope:
    """`with T.init():` holds what a reduction block does before its first iteration."""
    return InitScope()


def _block(what: str) -> BlockFrame:
    frame: BlockFrame = tir_parser(what).frame(what, BlockFrame)
    return frame


def where(predicate: Any) -> None:
    """The block runs only where the predicate holds."""
    frame = _block("T.where")
    if frame.predicate is not None:
        raise TVMError(f'the block "{frame.name}" has two predicates; join them with `and`')
    holds = as_prim_expr(plain(predicate), "the predicate of a block")
    if not holds.dtype.is_bool:
        raise TypeError(f"T.where takes a condition, but {holds!r} is {holds.dtype}; compare it with a number")
    frame.predicate = holds


def _regions(given: tuple[Any, ...], what: str) -> list[BufferRegion]:
    flat: list[Any] = []
    for g in given:
        flat += g if isinstance(g, (list, tuple)) else [g]
    return [as_region(g, what) for g in flat]


def reads(*regions: Any) -> None:
    """The regions that the block reads."""
    frame = _block("T.reads")
    if frame.reads is not None:
        raise TVMError(f'the block "{frame.name}" states its reads twice')
    frame.reads = _regions(regions, "T.reads")


def writes(*regions: Any) -> None:
    """The regions that the block writes."""
    frame = _block("T.writes")
    if frame.writes is not None:
        raise TVMError(f'the block "{frame.name}" states its writes twice')
    frame.writes = _regions(regions, "T.writes")


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block."""
    _block("T.block_attr").annotations.update(attrs)


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function; bools become Python's."""
    frame: FunctionFrame = tir_parser("T.func_attr").frame("T.func_attr", FunctionFrame)
    for key, value in attrs.items():
        frame.attrs[key] = bool(value.value) if isinstance(value, IntImm) and value.dtype.is_bool else value


def func_ret(ret_type: Any) -> None:
    """The type that the function returns."""
    p = tir_parser("T.func_ret")
    p.frame("T.func_ret", FunctionFrame).ret_type = p._type(p.at, ret_type)


# --- axes


def _domain(dom: Any, what: str) -> Range | None:
    if dom is None or isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise TypeError(f"{what} takes an extent or a pair (begin, end), but was given {len(dom)} numbers")
        low, high = as_prim_expr(dom[0], what), as_prim_expr(dom[1], what)
        return Range.from_min_extent(low, extent_of(low, high))
    extent = as_prim_expr(dom, f"the domain of {what}")
    if not (extent.dtype.is_int or extent.dtype.is_uint):
        raise TypeError(f"the extent of {what} must be an integer, but is {extent.dtype}: {extent!r}")
    return Range.from_min_extent(IntImm(extent.dtype, 0), extent)


_MISSING = object()


class Axis:
    """`T.axis`: the axes of a block, each with a domain and the value that it is bound to."""

    def _one(self, what: str, kind: int, dom: Any, binding: Any) -> Var:
        p = tir_parser(what)
        frame: BlockFrame = p.frame(what, BlockFrame)
        rng = _domain(dom, what)
        value: PrimExpr | None = None
        if binding is not _MISSING:
            value = as_prim_expr(plain(binding), f"the value of {what}")
            if not (value.dtype.is_int or value.dtype.is_uint) or value.dtype.lanes != 1:
                raise TypeError(f"the value of {what} must be a scalar integer, but is {value.dtype}: {value!r}")
        elif frame.realized:
            raise TypeError(f"{what} takes a domain and the value that the axis is bound to, but was given no value")
        dtype = rng.extent.dtype if rng is not None else value.dtype if value is not None else "int32"
        span = p.source.span(p.at)
        var = Var("v", dtype, span)
        if value is not None:
            if value.dtype != dtype and isinstance(value, IntImm):
                value = IntImm(dtype, value.value)
            frame.iter_values.append(value)
        frame.iter_vars.append(IterVar(rng, var, kind, span=span))
        p.unnamed[id(var)] = (var, _namer(var), p.at)
        return var

    def spatial(self, dom: Any, binding: Any = _MISSING, dtype: str = "int32") -> Var:
        """An axis along which blocks are independent."""
        return self._one("T.axis.spatial", IterVar.DataPar, dom, binding)

    def reduce(self, dom: Any, binding: Any = _MISSING, dtype: str = "int32") -> Var:
        """An axis that is summed over."""
        return self._one("T.axis.reduce", IterVar.CommReduce, dom, binding)

    def scan(self, dom: Any, binding: Any = _MISSING, dtype: str = "int32") -> Var:
        """An axis that must be followed in order."""
        return self._one("T.axis.scan", IterVar.Ordered, dom, binding)

    def opaque(self, dom: Any, binding: Any = _MISSING, dtype: str = "int32") -> Var:
        """An axis of which nothing is known."""
        return self._one("T.axis.opaque", IterVar.Opaque, dom, binding)

    S, R = spatial, reduce

    def remap(self, kinds: str, bindings: Any, dtype: str = "int32") -> Any:
        """Axes that just rename loops: one letter for each, S spatial or R reduction, and the loops' variables."""
        p = tir_parser("T.axis.remap")
        p.frame("T.axis.remap", BlockFrame)
        if not isinstance(kinds, str) or not isinstance(bindings, (list, tuple)):
            raise TypeError(
                f'T.axis.remap takes kinds and loops, as in T.axis.remap("SR", [i, j]), but was given {kinds!r}, {bindings!r}'
            )
        if len(kinds) != len(bindings):
            raise TypeError(f"T.axis.remap has {len(kinds)} kinds {kinds!r}, but {len(bindings)} loops")
        out = []
        for kind, loop in zip(kinds, bindings, strict=True):
            found = p.loops.get(id(loop))
            if found is None:
                raise TypeError(
                    f"T.axis.remap takes variables of loops, but was given {loop!r}; use T.axis.spatial or reduce"
                )
            if kind not in "SR":
                raise TypeError(f"T.axis.remap knows the kinds S and R, but was given {kind!r}")
            rng = Range.from_min_extent(*found)
            out.append((self.spatial if kind == "S" else self.reduce)(rng, loop))
        return out[0] if len(out) == 1 else out


def _namer(var: Var) -> Callable[[str], None]:
    from tilewright.tir.parser.words import rename_var

    return lambda name: rename_var(var, name)


axis = Axis()
