"""Python source for threads that wait for each other: each thread is a generator, which `lanes.run_lanes` runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.interp.lanes import TAGS, WARP, Cooperation, scope_of
from tilewright.codegen.interp.values import InterpError
from tilewright.codegen.interp.warp_registers import TYPES
from tilewright.codegen.interp.warpgroup_calls import WarpgroupCalls
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.node import any_node
from tilewright.tir import Block, BufferLoad, Call, CommReducer, IterVar, Stmt, Var
from tilewright.tir.stmt_functor import used_vars


def _waits_for_all(node: Any) -> bool:
    """Whether a node is a barrier of all blocks."""
    return (
        isinstance(node, Call)
        and node.intrinsic == "tvm_storage_sync"
        and getattr(node.args[0], "value", "") == "global"
    )


class CooperatingThreads(WarpgroupCalls):
    """The part of a program's source that runs the threads of a block in lockstep.

    lane: the Python name of the thread's number in the body of a thread; None outside. axes_around: the names of the axes around, of a
    launch whose threads are loops; grid: the name of the list of its blocks, if these wait for each other.
    """

    lane: str | None = None
    shared: str = ""
    bound: list[dict[int, str]]
    depth: int
    checked: bool

    def __init__(self) -> None:
        self.has_fragments = False
        self.has_copies = False
        self.axes: dict[str, tuple[str, Any]] = {}
        self.axes_around: list[str] = []
        self.grid = ""
        self.reducers: list[CommReducer] = []

    def line(self, text: str) -> None:
        raise NotImplementedError

    def fresh(self, hint: str) -> str:
        raise NotImplementedError

    def nested(self, header: str, body: Callable[[], None]) -> None:
        raise NotImplementedError

    def stmt(self, s: Stmt) -> None:
        raise NotImplementedError

    def threads(self, s: Any, axis: IterVar | None, extent: PrimExpr, also: list[Var]) -> bool:
        """Writes a statement that binds a thread axis, if threads cooperate below it. Returns whether it did."""
        if axis is None or axis.thread_tag not in TAGS:
            return False
        if self.lane is not None:
            self._axis(s, axis, extent, also)
            return True
        look = Cooperation()
        look.visit(s)
        # Where threads are loops still, the loop of a warp around its instructions stands for these threads.
        of_warp = look.on_registers and axis.thread_tag == "threadIdx.x"
        if not look.found and not of_warp:
            return False
        self._block(s, axis, extent, also, look.extents)
        return True

    def _axis(self, s: Any, axis: IterVar, extent: PrimExpr, also: list[Var]) -> None:
        """Writes the body of an axis inside a thread, where the axis's variable is the coordinate of the thread."""
        name, whole = self.axes[axis.thread_tag]
        for var in [axis.var, *also]:
            self.names[var] = name
            if isinstance(extent, IntImm):
                self.ranges[var] = (0, extent.value - 1)
        if isinstance(extent, IntImm) and isinstance(whole, IntImm) and extent.value < whole.value:
            self.nested(f"if {name} < {extent.value}:", lambda: self.stmt(s.body))
        else:
            self.stmt(s.body)

    def _block(self, s: Any, axis: IterVar, extent: PrimExpr, also: list[Var], extents: dict[str, Any]) -> None:
        names = [self.fresh(tag.replace(".", "_")) for tag in TAGS]
        counts = [self.expr(extents[tag]) if tag in extents else "1" for tag in TAGS]
        self.axes = {tag: (name, extents.get(tag)) for tag, name in zip(TAGS, names, strict=True)}
        body, self.lane, self.shared = self.fresh("lane_body"), self.fresh("lane"), self.fresh("shared")
        # Blocks that wait for each other run on when the loops around have ended.
        around = [f"{name}={name}" for name in self.axes_around] if self.grid else []
        self.line(f"def {body}({', '.join([*names, self.lane, self.shared, *around])}):")
        depth = self.depth
        # A function of its own, since Python limits the nesting of blocks in a function.
        self.depth += 1
        self.bound.append({})
        self.line("if False: yield")
        self.line("copies = Copies(races)")
        self.line("products = Products()")
        self._axis(s, axis, extent, also)
        self.line("products.end()")
        self.bound.pop()
        self.depth = depth
        self.lane = None
        made = f"({body}, ({', '.join(counts)}), races)"
        self.line(f"{self.grid}.append(lanes{made})" if self.grid else f"run_lanes{made}")

    def is_axis_of_launch(self, tag: str) -> bool:
        """Whether a loop is an axis of a launch, outside of threads in lockstep."""
        return self.lane is None and tag.startswith(("blockIdx.", "threadIdx."))

    def axis_of_launch(self, name: str, header: str, statement: Stmt, body: Callable[[], None]) -> None:
        """Writes the loop of an axis of a launch, in which the thread is named by all axes around."""
        before = self.axes_around
        if not before:
            self.line("races.launch += 1")
            self.grid = self.fresh("grid") if any_node(statement, _waits_for_all) else ""
            if self.grid:
                self.line(f"{self.grid} = []")

        def inside() -> None:
            self.name_thread([*before, name])
            body()

        self.nested(header, inside)
        self.name_thread(before)
        if not before and self.grid:
            self.line(f"run_grid({self.grid}, races)")
            self.grid = ""

    def name_thread(self, axes: list[str]) -> None:
        """From here on, these axes name the thread."""
        if axes != self.axes_around:
            self.axes_around = axes
            named = "".join([f"{name}, " for name in axes])
            if self.checked:
                self.line(f"races.thread = ({named})" if axes else "races.thread = None")

    def reduced_together(self, block: Block, iter_values: tuple[PrimExpr, ...]) -> list[str]:
        """Takes the axes that a block reduces over out of the thread's name: these threads compute its results together. Returns the name
        before."""
        before = self.axes_around
        if before and self.checked:
            pairs = zip(block.iter_vars, iter_values, strict=True)
            reduced = [value for axis, value in pairs if axis.iter_type == IterVar.CommReduce]
            over = {self.names[v] for value in reduced for v in used_vars(value) if v in self.names}
            self.name_thread(["None" if name in over else name for name in before])
        return before

    def waits(self, e: PrimExpr) -> bool:
        """Writes a call at which threads wait for each other. Returns whether `e` is one."""
        if not isinstance(e, Call):
            return False
        name = f"tir.{e.intrinsic}"
        if name == "tir.tvm_storage_sync":
            scope = getattr(e.args[0], "value", "shared")
            kind = "warp" if scope == "warp" else "grid" if scope == "global" and self.grid else "sync"
            self.line(f"yield ({kind!r},)")
            return True
        if name == "tir.tvm_thread_allreduce":
            self._reduce(e)
            return True
        return False

    def _reduce(self, e: Any) -> None:
        """Writes tvm_thread_allreduce(n, source..., condition, result..., thread variable...) with the reducer of its scope."""
        if not self.reducers:
            raise InterpError("tvm_thread_allreduce is not in a reduce_scope, which names its reducer")
        reducer = self.reducers[-1]
        n = int(e.args[0])
        values = "".join(f"{self.expr(x)}, " for x in e.args[1 : 1 + n])
        condition = self.expr(e.args[1 + n])
        results, threads = e.args[2 + n : 2 + 2 * n], e.args[2 + 2 * n :]
        combine = self.fresh("combine")
        variables = [self.define(v) for v in (*reducer.lhs, *reducer.rhs)]
        combined = "".join(f"{self.expr(x)}, " for x in reducer.result)
        self.line(f"{combine} = lambda {', '.join(variables)}: ({combined})")
        identity = "".join(f"{self.expr(x)}, " for x in reducer.identity_element)
        reduced = {self.expr(t) for t in threads}
        key = "".join(f"{name}, " for name, _ in self.axes.values() if name not in reduced)
        got = self.fresh("reduced")
        self.line(f"{got} = yield ('reduce', ({key}), ({values}), {condition}, {combine}, ({identity}))")
        for k, result in enumerate(results):
            if isinstance(result, BufferLoad):
                index = "".join(f", {self.expr(i)}" for i in result.indices)
                self.line(f"{self.accessor(result.buffer)}.set({got}[{k}]{index})")
            else:
                self.line(f"store_first({self.expr(result)}, {got}[{k}])")

    def _shuffle_by(self, kind: str, e: Call) -> str:
        if self.lane is None:
            raise InterpError(f"tir.{e.intrinsic} stands outside of the threads of a block")
        _, value, by, width = map(self.expr, e.args[:4])
        return f"(yield ({kind!r}, {value}, {by}, {width}))"

    def _call_tvm_warp_shuffle(self, e: Call) -> str:
        return self._shuffle_by("at", e)

    def _call_tvm_warp_shuffle_up(self, e: Call) -> str:
        return self._shuffle_by("up", e)

    def _call_tvm_warp_shuffle_down(self, e: Call) -> str:
        return self._shuffle_by("down", e)

    def _fragment(self, e: Call) -> str:
        """The fragment of a call as arguments: storage, index and shape."""
        data = e.args[0]
        scope = scope_of(data)
        m, n, k = [int(x.value) for x in e.args[1:4] if isinstance(x, IntImm)]
        shape = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n), "wmma.accumulator": (m, n)}.get(scope)
        if shape is None:
            raise InterpError(f"tir.{e.intrinsic} takes a fragment, but {data} is in scope {scope}")
        self.has_fragments = True
        return f"{self.expr(data)}, {self.expr(e.args[4])}, {shape}"

    def _leads(self, e: Call) -> str:
        """Whether a thread is the first of its warp. Without threads around, the program stands for that of a warp."""
        if self.lane is None:
            return "True"
        _, extent = self.axes["threadIdx.x"]
        if not isinstance(extent, IntImm) or extent.value % WARP:
            raise InterpError(
                f"tir.{e.intrinsic} takes whole warps, so the extent of threadIdx.x must be a multiple of {WARP}"
            )
        return f"{self.lane} % {WARP} == 0"

    def _call_tvm_fill_fragment(self, e: Call) -> str:
        return f"fragments.fill({self._fragment(e)}, {self.expr(e.args[5])})"

    def _matrix(self, kind: str, e: Call) -> str:
        pointer, stride, layout = map(self.expr, e.args[5:8])
        return f"fragments.{kind}({self._fragment(e)}, {pointer}, {stride}, {layout}, {self._leads(e)})"

    def _call_tvm_load_matrix_sync(self, e: Call) -> str:
        return self._matrix("load", e)

    def _call_tvm_store_matrix_sync(self, e: Call) -> str:
        return self._matrix("store", e)

    def _call_tvm_mma_sync(self, e: Call) -> str:
        self._leads(e)
        self.has_fragments = True
        parts = [f"({self.expr(e.args[i])}, {self.expr(e.args[i + 1])})" for i in range(0, 8, 2)]
        return f"fragments.multiply({', '.join(parts)})"

    def _of_warp(self, kind: str, e: Call, args: str) -> str:
        if self.lane is None:
            raise InterpError(f"tir.{e.intrinsic} stands outside of the threads of a block")
        return f"(yield ({kind!r}, {args}))"

    def _moved(self, pointer: PrimExpr, offset: PrimExpr, dtype: DataType) -> str:
        """A pointer and an offset in elements of a type."""
        return f"{self.expr(pointer)}.moved({self.expr(offset)} * {dtype.bytes * dtype.lanes})"

    def _call_ptx_ldmatrix(self, e: Call) -> str:
        trans, count = self.expr(e.args[0]), self.expr(e.args[1])
        to, row = self._moved(e.args[3], e.args[4], e.dtype), self._moved(e.args[5], e.args[6], e.dtype)
        return self._of_warp("ldmatrix", e, f"{trans}, {count}, {to}, {row}")

    def _call_ptx_mma(self, e: Call) -> str:
        shape, a_layout, b_layout, *names = [str(getattr(x, "value", x)) for x in e.args[:6]]
        if (a_layout, b_layout) != ("row", "col") or len(e.args) > 13:
            raise InterpError(f"the interpreter has mma of row by col only, without operators: {e}")
        kinds = [DataType(TYPES.get(name, name)) for name in names]
        parts = [self._moved(e.args[i], e.args[i + 1], kind) for i, kind in zip((6, 8, 10), kinds, strict=True)]
        return self._of_warp("mma", e, f"{shape!r}, {', '.join(map(repr, names))}, {', '.join(parts)}")

    def _call_mma_fill(self, e: Call) -> str:
        return f"fill_registers({self._moved(e.args[1], e.args[2], e.dtype)}, {self.kind(e.dtype)}, {self.expr(e.args[0])})"

    def _call_mma_store(self, e: Call) -> str:
        _, _, to, source, offset, stride = e.args
        if self.lane is None:
            raise InterpError("tir.mma_store stands outside of the threads of a block")
        args = f"{self.expr(to)}, {self._moved(source, offset, e.dtype)}, {self.expr(stride)}, {self.kind(e.dtype)}"
        return f"store_registers({args}, {self.lane}, races)"

    def _call_ptx_cp_async(self, e: Call) -> str:
        to, source = [self._moved(e.args[i], e.args[i + 1], e.dtype) for i in (0, 2)]
        self.has_copies = True
        return f"copies.copy({to}, {source}, {', '.join(map(self.expr, e.args[4:]))})"

    def _call_ptx_commit_group(self, e: Call) -> str:
        self.has_copies = True
        return "copies.commit()"

    def _call_ptx_wait_group(self, e: Call) -> str:
        self.has_copies = True
        return f"copies.wait({self.expr(e.args[0])})"

    def _call_tvm_warp_activemask(self, e: Call) -> str:
        return self.wrapped(str((1 << 32) - 1), e.dtype)
