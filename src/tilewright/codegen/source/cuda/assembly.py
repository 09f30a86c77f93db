"""Instructions of NVIDIA's GPUs that CUDA C has no functions for, as functions of inline assembly: asynchronous copies, barriers in shared
memory, ldmatrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.cuda.multiply import RULES as MULTIPLY
from tilewright.codegen.source.cuda.types import INLINE
from tilewright.codegen.source.cuda.warpgroups import RULES as WARPGROUPS
from tilewright.codegen.source.device.dialect import Refused, Rule
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.ir import IntImm
from tilewright.tir import BufferLoad, StringImm, Var

if TYPE_CHECKING:
    from tilewright.codegen.source.cuda.dialect import Cuda
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call, PrimExpr

_BARRIERS = "barriers"
_PLACE = "unsigned int place = (unsigned int)__cvta_generic_to_shared({});"


def number(e: Any, what: str) -> int:
    if not isinstance(e, IntImm):
        raise Refused(f"{what} is a constant, but {e} was given")
    return e.value


def needs(dialect: Cuda, least: int, what: str) -> None:
    if dialect.arch < least:
        raise Refused(
            f"{what} needs sm_{least}, but the target is for sm_{dialect.arch}; give it -arch=sm_{least} or a later one"
        )


def _assembly(dialect: Cuda, name: str, comment: str, params: str, lines: list[str]) -> None:
    """Defines a function of inline assembly."""
    body = "\n".join([f"  {line}" for line in lines])
    dialect.prelude.define(f"{name}({params})", f"// {comment}\n{INLINE} void {name}({params}) {{\n{body}\n}}")


def _copy(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 80, "cp.async")
    size = number(e.args[4], "the number of bytes of ptx_cp_async")
    if size not in (4, 8, 16):
        raise Refused(f"cp.async copies 4, 8 or 16 bytes, but {size} were given")
    element = e.dtype.element if e.dtype.code not in ("void", "handle", "") else None
    to, source = emitter.address(e.args[0], e.args[1], element), emitter.address(e.args[2], e.args[3], element)
    name, cache = f"cp_async_{size}", "cg" if size == 16 else "ca"
    made = f'"cp.async.{cache}.shared.global [%0], [%1], {size}'
    if len(e.args) == 5:
        line = f'asm volatile({made};" :: "r"(place), "l"(from) : "memory");'
        params, comment = (
            "void* to, const void* from",
            f"Copies {size} bytes from global to shared memory, asynchronously.",
        )
        _assembly(dialect, name, comment, params, [_PLACE.format("to"), line])
        return emitter.done(f"{name}({to}, {source});")
    line = f'asm volatile({made}, %2;" :: "r"(place), "l"(from), "r"(holds ? {size} : 0) : "memory");'
    comment = f"The same of {size} bytes, or zeros where the condition does not hold."
    _assembly(dialect, name, comment, "void* to, const void* from, bool holds", [_PLACE.format("to"), line])
    return emitter.done(f"{name}({to}, {source}, {emitter.expr(e.args[5])});")


def _commit(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 80, "cp.async")
    line = 'asm volatile("cp.async.commit_group;" ::: "memory");'
    _assembly(dialect, "cp_async_commit", "Ends a group of asynchronous copies.", "", [line])
    return emitter.done("cp_async_commit();")


def _wait(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 80, "cp.async")
    dialect.prelude.define(
        "cp_async_wait",
        "// Waits until at most `groups` groups of asynchronous copies are unfinished.\n"
        f"template <int groups> {INLINE} void cp_async_wait() {{\n"
        '  asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory");\n}',
    )
    return emitter.done(f"cp_async_wait<{number(e.args[0], 'the number of groups')}>();")


# --- barriers in shared memory


def _create(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 80, "mbarrier")
    count = number(e.args[0], "the number of barriers")
    emitter.top.append(f"  __shared__ alignas(8) unsigned long long {_BARRIERS}[{count}];")
    return Text("0")


def _barrier(name: str, comment: str, least: int, lines: list[str], takes: str = "", cast: str = "") -> Rule:
    """A rule for an instruction on a barrier. takes: its second parameter."""

    def rule(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
        needs(dialect, least, name)
        params = "unsigned long long* barrier" + (f", {takes}" if takes else "")
        _assembly(dialect, name, comment, params, [_PLACE.format("barrier"), *lines])
        given = [f"&{_BARRIERS}[{emitter.index(e.args[0])}]", *[emitter.expr(a) for a in e.args[1:]]]
        return emitter.done(f"{name}({', '.join(given)});")

    return rule


def _bulk(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 90, "cp.async.bulk")
    element = e.dtype.element if e.dtype.code not in ("void", "handle", "") else None
    to, source = emitter.address(e.args[0], e.args[1], element), emitter.address(e.args[2], e.args[3], element)
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    lines = [
        _PLACE.format("to"),
        "unsigned int told = (unsigned int)__cvta_generic_to_shared(barrier);",
        f'asm volatile("{text}" :: "r"(place), "l"(from), "r"(bytes), "r"(told) : "memory");',
    ]
    params = "void* to, const void* from, unsigned int bytes, unsigned long long* barrier"
    _assembly(
        dialect, "cp_async_bulk", "Copies bytes to shared memory, and tells a barrier when it is done.", params, lines
    )
    given = [to, source, emitter.expr(e.args[4]), f"&{_BARRIERS}[{emitter.index(e.args[5])}]"]
    return emitter.done(f"cp_async_bulk({', '.join(given)});")


# --- registers


def pointer(emitter: KernelEmitter, e: PrimExpr, offset: PrimExpr, kind: str) -> Text:
    """An address as a pointer of a type."""
    place = emitter.address(e, offset)
    return Text(f"({kind}){place.at(UNARY)}", UNARY)


def _ldmatrix(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    needs(dialect, 75, "ldmatrix")
    trans, count = bool(number(e.args[0], "trans")), number(e.args[1], "the number of tiles")
    kind = e.args[2].value if isinstance(e.args[2], StringImm) else str(e.args[2])
    if count not in (1, 2, 4) or kind != ".b16":
        raise Refused(f"ldmatrix loads 1, 2 or 4 tiles of .b16, but {count} of {kind} were asked for")
    name, by = f"ldmatrix_x{count}{'_trans' if trans else ''}", ".trans" if trans else ""
    holes = ", ".join([f"%{k}" for k in range(count)])
    outputs = ", ".join([f'"=r"(to[{k}])' for k in range(count)])
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{by}.shared.b16 {{{holes}}}, [%{count}];"
    line = f'asm volatile("{text}" : {outputs} : "r"(place) : "memory");'
    comment = f"Loads {count} tiles of 8 x 8 elements of 16 bits into the registers of a warp."
    _assembly(dialect, name, comment, "unsigned int* to, const void* from", [_PLACE.format("from"), line])
    to = pointer(emitter, e.args[3], e.args[4], "unsigned int*")
    element = e.dtype.element if e.dtype.code not in ("void", "handle", "") else None
    return emitter.done(f"{name}({to}, {emitter.address(e.args[5], e.args[6], element)});")


def _guarded(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    """local[offset] = load, where the guard holds."""
    local, guard, load, offset = e.args
    assert isinstance(local, Var) and isinstance(load, BufferLoad)
    at = emitter.offset(load.buffer, load.indices)
    assert at is not None
    condition = emitter.expr(guard)
    emitter.line(f"if ({condition}) {{")
    read = f"__ldg({emitter.place(load.buffer, at.start)})"
    emitter.line(f"  {emitter.stored(local).name}[{emitter.index(offset)}] = {read};")
    return emitter.done("}")


_TRY = [
    "asm volatile(",
    '  "{\\n"',
    '  "  .reg .pred done;\\n"',
    '  "again:\\n"',
    '  "  mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n"',
    '  "  @!done bra.uni again;\\n"',
    '  "}"',
    '  :: "r"(place) : "memory");',
]
RULES: Mapping[str, Rule] = {
    **MULTIPLY,
    **WARPGROUPS,
    "ptx_cp_async": _copy,
    "ptx_commit_group": _commit,
    "ptx_wait_group": _wait,
    "ptx_cp_async_bulk": _bulk,
    "create_barriers": _create,
    "ptx_init_barrier_thread_count": _barrier(
        "mbarrier_init", "Says for how many threads a barrier waits.", 80,
        ['asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(place), "r"(threads) : "memory");'], "int threads",
    ),
    "ptx_cp_async_barrier": _barrier(
        "mbarrier_copies", "Arrives at a barrier when the copies so far are done.", 80,
        ['asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(place) : "memory");'],
    ),
    "ptx_arrive_barrier": _barrier(
        "mbarrier_arrive", "Arrives at a barrier.", 80,
        ["unsigned long long state;",
         'asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(place) : "memory");'],
    ),
    "ptx_arrive_barrier_expect_tx": _barrier(
        "mbarrier_expect", "Arrives at a barrier that also waits for so many bytes.", 90,
        ["unsigned long long state;",
         'asm volatile("mbarrier.arrive.expect_tx.shared.b64 %0, [%1], %2;" : "=l"(state) : "r"(place), "r"(bytes) : "memory");'],
        "int bytes",
    ),
    "ptx_wait_barrier": _barrier("mbarrier_wait", "Waits at a barrier.", 90, _TRY),
    "ptx_ldmatrix": _ldmatrix,
    "ptx_ldg32": _guarded,
}  # fmt: skip

__all__ = ["RULES", "needs", "number", "pointer"]
