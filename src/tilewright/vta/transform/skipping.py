"""Products of a transposed convolution without those of zeros between the data."""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.support.errors import TVMError
from tilewright.tir import Add, AttrStmt, BufferLoad, BufferStore, Call, Cast, IfThenElse, Mul, Select, SeqStmt, Stmt
from tilewright.tir.stmt import stmt_seq
from tilewright.tir.transform.base import body_pass
from tilewright.vta.compiler.nests import Nest, nest_of
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import get_env
from tilewright.vta.names import GEMM, RESET, SCOPES
from tilewright.vta.transform.calls import address, around, called, has_pragma

PRAGMA = "conv2d_transpose_gemm"


def _without_cast(e: PrimExpr) -> PrimExpr:
    return e.value if isinstance(e, Cast) else e


def _operand(e: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
    """The condition under which an operand is not zero, and the operand."""
    e = _without_cast(e)
    condition = None
    if isinstance(e, Select):
        condition, e = e.condition, _without_cast(e.true_value)
    elif isinstance(e, Call) and e.intrinsic == "if_then_else":
        condition, e = e.args[0], _without_cast(e.args[1])
    return condition, e


def _product(nest: Nest, s: BufferStore, config: Configuration) -> Stmt:
    """A nest of products of numbers as one of steps of the array, under the conditions of their operands."""
    value = s.value
    if isinstance(value, IntImm) and value.value == 0:
        return around(
            nest,
            _numbers(nest, config.batch * config.block_out),
            called(RESET, address(s.buffer, s.buffer.offset_of(s.indices)[0], "w")),
        )
    found: dict[str, tuple[PrimExpr | None, PrimExpr]] = {}
    if isinstance(value, Add) and isinstance(value.b, Mul):
        for e in (value.b.a, value.b.b):
            condition, load = _operand(e)
            if isinstance(load, BufferLoad):
                found[SCOPES.get(load.buffer.scope(), "")] = condition, load
    if set(found) != {"inp", "wgt"}:
        raise TVMError(
            f"InjectConv2DTransposeSkip: under the pragma {PRAGMA} sums of products of inp and wgt, but there is\n{s}"
        )
    pointers = [address(s.buffer, s.buffer.offset_of(s.indices)[0], "rw")]
    conditions = []
    for memory in ("inp", "wgt"):
        condition, load = found[memory]
        assert isinstance(load, BufferLoad)
        pointers.append(address(load.buffer, load.buffer.offset_of(load.indices)[0], "r"))
        conditions += [condition] if condition is not None else []
    step = called(GEMM, *pointers)
    for condition in reversed(conditions):
        step = IfThenElse(condition, step, None)
    return around(nest, _numbers(nest, config.batch * config.block_out * config.block_in), step)


def _numbers(nest: Nest, count: int) -> int:
    """How many of the innermost loops are over the numbers of a step, so many."""
    numbers = 1
    for dropped in range(len(nest.loops) + 1):
        if numbers == count:
            return dropped
        if dropped < len(nest.loops):
            numbers *= nest.loops[-1 - dropped][2]
    raise TVMError(
        f"InjectConv2DTransposeSkip: the innermost loops are not over the {count} numbers of a step:\n{nest.inside}"
    )


class _Skip(Mutator):
    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self._steps(s.body) if has_pragma(s, PRAGMA) else self.rebuild(s)

    def _steps(self, s: Stmt) -> Stmt:
        if isinstance(s, SeqStmt):
            return stmt_seq(*[self._steps(part) for part in s.seq])
        nest = nest_of(s, {})
        if nest is None or not isinstance(nest.inside, BufferStore):
            raise TVMError(
                f"InjectConv2DTransposeSkip: under the pragma {PRAGMA} there are loops around a store, but here is\n{s}"
            )
        return _product(nest, nest.inside, get_env().configuration)


def InjectConv2DTransposeSkip() -> Pass:
    """Make products under the pragma "conv2d_transpose_gemm", whose inputs are zero unless a condition holds, steps of the array under
    that condition. The innermost loops are over the numbers of a step: batch, outputs, inputs."""
    return body_pass("vta.InjectConv2DTransposeSkip", lambda f: _Skip().visit(f.body))


__all__ = ["InjectConv2DTransposeSkip", "PRAGMA"]
