"""Python source for the instructions of warpgroups: barriers with phases, copies of tiles, products."""

from __future__ import annotations

from tilewright.codegen.interp.expr import ExprSource
from tilewright.codegen.interp.values import InterpError
from tilewright.codegen.interp.warp_registers import TYPES
from tilewright.ir import DataType, PrimExpr
from tilewright.tir import Call


class WarpgroupCalls(ExprSource):
    """The part of a program's source for calls of `tir.warpgroups`, and for the barriers that they use."""

    lane: str | None
    shared: str

    def _moved(self, pointer: PrimExpr, offset: PrimExpr, dtype: DataType) -> str:
        raise NotImplementedError

    def _in_threads(self, e: Call) -> str:
        """The name of the thread's number."""
        if self.lane is None:
            raise InterpError(f"tir.{e.intrinsic} stands outside of the threads of a block")
        return self.lane

    def _phases(self, e: Call, text: str) -> str:
        lane = self._in_threads(e)
        return f"{self.shared}['phases'].{text.format(lane=lane)}"

    def _call_create_barriers(self, e: Call) -> str:
        self._in_threads(e)
        return f"phases_of({self.shared}, {self.expr(e.args[0])}, races)"

    def _call_ptx_init_barrier_thread_count(self, e: Call) -> str:
        return self._phases(e, f"init({self.expr(e.args[0])}, {self.expr(e.args[1])}, {{lane}})")

    def _call_ptx_arrive_barrier(self, e: Call) -> str:
        return self._phases(e, f"arrive({self.expr(e.args[0])}, {{lane}})")

    def _call_ptx_arrive_barrier_expect_tx(self, e: Call) -> str:
        return self._phases(e, f"arrive({self.expr(e.args[0])}, {{lane}}, {self.expr(e.args[1])})")

    def _call_ptx_fence_barrier_init(self, e: Call) -> str:
        return self._phases(e, "fence_init({lane})")

    def _call_ptx_fence_proxy_async(self, e: Call) -> str:
        lane = self._in_threads(e)
        return f"fence_of({self.shared}, {lane})"

    def _call_ptx_wait_barrier_parity(self, e: Call) -> str:
        self._in_threads(e)
        return f"(yield ('phase', {self.expr(e.args[0])}, {self.expr(e.args[1])}))"

    def _call_ptx_wait_barrier(self, e: Call) -> str:
        self._in_threads(e)
        return f"(yield ('phase', {self.expr(e.args[0])}, 0))"

    def _call_tensor_map(self, e: Call) -> str:
        return f"TensorMap({self.kind(e.args[0].dtype)}, {', '.join(map(self.expr, e.args[1:]))})"

    def _call_ptx_tma_load(self, e: Call) -> str:
        lane = self._in_threads(e)
        to, tensor, barrier, *at = map(self.expr, e.args)
        return f"{tensor}.load({to}, {self.shared}.get('phases'), {barrier}, ({', '.join(at)},), {lane})"

    def _product(self, e: Call, a: str, a_layout: str, rest: int) -> str:
        self._in_threads(e)
        shape, *names = [str(getattr(x, "value", x)) for x in e.args[:4]]
        b, *layout = map(self.expr, e.args[rest : rest + 5])
        c = self._moved(e.args[rest + 5], e.args[rest + 6], DataType(TYPES.get(names[2], names[2])))
        adds = self.expr(e.args[rest + 7])
        return f"(yield ('wgmma', {shape!r}, {tuple(names)!r}, {a}, {a_layout}, {b}, ({', '.join(layout)}), {c}, {adds}, products))"

    def _call_ptx_wgmma(self, e: Call) -> str:
        a, *layout = map(self.expr, e.args[4:9])
        return self._product(e, a, f"({', '.join(layout)})", 9)

    def _call_ptx_wgmma_rs(self, e: Call) -> str:
        name = str(getattr(e.args[1], "value", e.args[1]))
        return self._product(e, self._moved(e.args[4], e.args[5], DataType(TYPES.get(name, name))), "None", 6)

    def _call_ptx_wgmma_fence(self, e: Call) -> str:
        self._in_threads(e)
        data, offset, count = e.args
        return f"products.fence({self._moved(data, offset, e.dtype)}, {self.kind(e.dtype)}, {self.expr(count)})"

    def _call_ptx_wgmma_commit_group(self, e: Call) -> str:
        self._in_threads(e)
        return "products.commit()"

    def _call_ptx_wgmma_wait_group(self, e: Call) -> str:
        lane = self._in_threads(e)
        return f"wait_for_products(products, {self.expr(e.args[0])}, races, {lane})"

    def _call_ptx_setmaxnreg(self, e: Call) -> str:
        count = getattr(e.args[0], "value", 0)
        if not 24 <= count <= 256 or count % 8:
            raise InterpError(f"setmaxnreg takes 24 to 256 registers, a multiple of 8, but {count} were given")
        return "None"


__all__ = ["WarpgroupCalls"]
