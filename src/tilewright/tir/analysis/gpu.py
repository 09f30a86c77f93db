"""Limits of GPUs: whether the kernels of a lowered function keep within them."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir.expr import BufferLoad, IterVar
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore

LIMITS = (
    "max_local_memory_per_block",
    "max_shared_memory_per_block",
    "max_threads_per_block",
    "max_thread_x",
    "max_thread_y",
    "max_thread_z",
    "max_vthread",
    "max_vector_bytes",
    "max_kernels",
)


class _Kernels(Visitor):
    """Counts what each kernel uses; a kernel is an outermost statement that is bound to thread axes."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.errors: list[str] = []
        self.kernels = 0
        self.inside = False
        self.used: dict[str, int] = {}
        self.extents: dict[str, int] = {}
        self.virtual = 1

    def check(self, what: str, used: int, text: str) -> None:
        limit = self.limits.get(what)
        if limit is not None and used > limit:
            self.errors.append(f"{text} {used}, more than the {limit} of {what}")

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(s.node, IterVar):
            self.visit(s.value)
            self.visit(s.body)
            return
        outermost = not self.inside
        if outermost:
            self.inside = True
            self.kernels += 1
            self.used, self.extents = {}, {}
        outer = self.virtual
        self._axis(s.node.thread_tag or s.node.var.name, s.value)
        self.visit(s.body)
        self.virtual = outer
        if outermost:
            self.inside = False
            self._finish()

    def _axis(self, tag: str, extent: PrimExpr) -> None:
        kind = tag.split(".")[0]
        if kind == "blockIdx":
            return
        if not isinstance(extent, IntImm):
            self.errors.append(f"the extent of {tag} is {extent}, which is not a constant")
            return
        if kind == "vthread":
            self.virtual *= extent.value
            self.extents["vthread"] = max(self.extents.get("vthread", 1), self.virtual)
            return
        old = self.extents.get(tag)
        if old is not None and old != extent.value:
            self.errors.append(f"{tag} has the extents {old} and {extent.value} in one kernel")
        self.extents[tag] = extent.value

    def _finish(self) -> None:
        threads = 1
        for tag, n in self.extents.items():
            if tag.startswith("threadIdx."):
                threads *= n
                self.check(f"max_thread_{tag[-1]}", n, f"{tag} has the extent")
        self.check("max_threads_per_block", threads, "threads of a block:")
        self.check("max_vthread", self.extents.get("vthread", 1), "virtual threads:")
        for scope in ("local", "shared"):
            self.check(f"max_{scope}_memory_per_block", self.used.get(scope, 0), f"bytes of {scope} memory:")

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        scope = str(getattr(s.buffer_var.type_annotation, "storage_scope", "") or "global").split(".")[0]
        size = s.dtype.bytes * s.dtype.lanes
        for e in s.extents:
            if not isinstance(e, IntImm):
                self.errors.append(f"the size of {s.buffer_var.name} is not a constant")
                size = 0
                break
            size *= e.value
        self.used[scope] = self.used.get(scope, 0) + size
        self._vector(s.dtype, s.buffer_var.name)
        self.visit(s.body)

    def _vector(self, dtype: DataType, name: str) -> None:
        if dtype.lanes > 1:
            self.check("max_vector_bytes", dtype.bytes * dtype.lanes, f"bytes of a vector of {name}:")

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._vector(e.dtype, e.buffer.name)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._vector(s.value.dtype, s.buffer.name)
        self.visit_children(s)


def gpu_code_errors(func: PrimFunc, constraints: Mapping[str, int]) -> list[str]:
    """The excesses of the kernels of a lowered function over the limits, in words. See verify_gpu_code."""
    unknown = sorted(set(constraints) - set(LIMITS))
    if unknown:
        raise TVMError(f"verify_gpu_code: unknown limits {', '.join(unknown)}; known: {', '.join(LIMITS)}")
    walk = _Kernels({k: int(v) for k, v in constraints.items()})
    walk.visit(func.body)
    walk.check("max_kernels", walk.kernels, "kernels:")
    return walk.errors


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether the kernels of a lowered function keep within limits.

    constraints: any of max_local_memory_per_block, max_shared_memory_per_block (bytes), max_threads_per_block,
    max_thread_x, max_thread_y, max_thread_z, max_vthread, max_vector_bytes, max_kernels. Sizes and extents that
    are not constants are beyond every limit. Raises TVMError for other names.
    """
    return not gpu_code_errors(func, constraints)
