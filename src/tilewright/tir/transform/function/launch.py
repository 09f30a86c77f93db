"""Kernel launches from the host (LowerDeviceKernelLaunch), and special memory (LowerDeviceStorageAccessInfo, LowerVtcmAlloc)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import Mutator, Node, Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import cast_to, const, floordiv, multiply
from tilewright.tir.buffer import decl_buffer
from tilewright.tir.builtin import tvm_stack_make_shape
from tilewright.tir.expr import BufferLoad, Call, IterVar, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import address_of, call_packed
from tilewright.tir.stmt import Allocate, AttrStmt, Evaluate, LetStmt, Stmt
from tilewright.tir.stmt_functor import substitute, used_vars
from tilewright.tir.transform.base import body_pass, call_name
from tilewright.tir.transform.thread.thread_sync import scope_of

if TYPE_CHECKING:
    from tilewright.target.target import Target


DEVICE_KERNEL_LAUNCH = 2
"""The attribute "calling_conv" of a kernel that is launched through a packed function."""
DYNAMIC = "tir.use_dyn_shared_memory"
COOPERATIVE = "tir.use_cooperative_launch"
"""Says that the blocks of a kernel wait for each other, so that all must run at once; no number belongs to it."""
MIN_BLOCKS = "pragma_min_blocks_per_multiprocessor"
"""Annotation of a loop over threads: as many blocks of its kernel shall run on a multiprocessor at once. Compilers then give threads the
registers that this leaves. Without it they may keep values in memory to make room for more blocks."""


def min_blocks(s: AttrStmt, target: Target) -> int:
    """The number of an annotation MIN_BLOCKS. Raises TVMError unless a multiprocessor of the target holds so many blocks."""
    most = target.gpu.max_blocks_per_multiprocessor
    number = s.value.value if isinstance(s.value, IntImm) else 0
    if number < 1 or (most and number > most):
        loop = s.node.var if isinstance(s.node, IterVar) else s.node
        wanted = (
            f"a constant from 1 to {most}, the blocks of a multiprocessor of {target.gpu.arch}"
            if most
            else "a constant above 0"
        )
        raise TVMError(f"the annotation {MIN_BLOCKS} of the loop {loop} is {wanted}, but here it is {s.value}")
    return number


class _Launch(Visitor):
    """The extents of a kernel's thread axes by tag, the size of its dynamic shared memory, and whether its blocks wait for each other."""

    def __init__(self) -> None:
        self.extents: dict[str, PrimExpr] = {}
        self.dynamic: PrimExpr | None = None
        self.cooperative = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if call_name(s.value) == "tvm_storage_sync" and isinstance(s.value, Call):
            self.cooperative |= getattr(s.value.args[0], "value", "") == "global"

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar) and s.node.thread_tag:
            self.extents.setdefault(s.node.thread_tag, s.value)
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        if scope_of(s.buffer_var) == "shared.dyn":
            if self.dynamic is not None:
                raise TVMError(
                    "LowerDeviceKernelLaunch: a kernel allocates dynamic shared memory twice; run"
                    " MergeSharedMemoryAllocations first"
                )
            size = const(s.dtype.bytes * s.dtype.lanes, "int32")
            for e in s.extents:
                size = multiply(size, cast_to(e, "int32"))
            self.dynamic = size
        self.visit(s.body)


def _kind(target: Target) -> str:
    return str(getattr(getattr(target, "kind", None), "name", ""))


class _Calls(Mutator):
    def __init__(self, mod: IRModule, caller: Any) -> None:
        self.mod, self.caller = mod, caller
        self.launched: dict[GlobalVar, tuple[str, ...]] = {}
        self.maps: dict[GlobalVar, tuple[Any, ...]] = {}
        self._described: dict[Var, Call] = {}

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Stmt:
        """A tensor map is an address on the host; the kernel says what the runtime makes of it."""
        if call_name(s.value) != "tensor_map":
            return self.rebuild(s)
        assert isinstance(s.value, Call)
        self._described[s.var] = s.value
        out: Stmt = self.visit(s.body)
        return out

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        gvar = new.op
        if not isinstance(gvar, GlobalVar) or self.caller is None:
            return new
        func = self.mod.functions.get(gvar)
        if not isinstance(func, PrimFunc):
            return new
        target = func.attrs.get("target")
        if target is None or _kind(target) == _kind(self.caller):
            return new
        symbol = str(func.attrs.get("global_symbol") or gvar.name_hint)
        look = _Launch()
        look.visit(func.body)
        env = dict(zip(func.params, new.args, strict=True))
        extents = [substitute(x, env) for x in look.extents.values()]
        tags = tuple(look.extents)
        if look.dynamic is not None:
            tags, extents = (*tags, DYNAMIC), [*extents, substitute(look.dynamic, env)]
        if look.cooperative:
            tags = (*tags, COOPERATIVE)
        for tag, extent in zip(look.extents, look.extents.values(), strict=True):
            foreign = [v.name for v in used_vars(extent) if v not in func.params]
            if foreign:
                raise TVMError(
                    f"LowerDeviceKernelLaunch: the extent of {tag} in {symbol} depends on {', '.join(foreign)}, which its"
                    " caller does not pass"
                )
        self.launched[gvar] = tags
        found = [(k, self._described[a]) for k, a in enumerate(new.args) if isinstance(a, Var) and a in self._described]
        self.maps[gvar] = tuple([(k, *_tensor_map(call)) for k, call in found])
        args = [self._described[a].args[1] if isinstance(a, Var) and a in self._described else a for a in new.args]
        return call_packed(symbol, *args, *extents)


def _tensor_map(call: Call) -> tuple[Any, ...]:
    """(type of the elements, swizzle, extents, strides, box), the outermost first."""
    numbers = [int(a) for a in call.args[2:]]  # type: ignore[call-overload]
    rank = len(numbers) // 3
    return str(call.args[0].dtype), numbers[0], numbers[1 : rank + 1], numbers[rank + 1 : 2 * rank], numbers[2 * rank :]


def LowerDeviceKernelLaunch() -> Pass:
    """Lower calls of device functions from the host to packed calls, with the arguments and the extents of the thread
    axes.

    The kernel gets the attribute "tir.kernel_launch_params" with the names of these axes, and "calling_conv" 2; a kernel with barriers of
    all blocks also "tir.use_cooperative_launch", to which no argument belongs. Tensor maps are passed as addresses;
    "tir.tensor_maps" says what the runtime makes of them: (argument, type, swizzle, extents, strides, box).
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        functions = dict(mod.functions)
        launched: dict[GlobalVar, tuple[str, ...]] = {}
        maps: dict[GlobalVar, tuple[Any, ...]] = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                target = func.attrs.get("target")
                walk = _Calls(mod, getattr(target, "host", None) or target)
                functions[gvar] = func.replace(body=walk.visit(func.body))
                launched |= walk.launched
                maps |= walk.maps
        for gvar, tags in launched.items():
            func = functions[gvar]
            attrs = {
                "calling_conv": DEVICE_KERNEL_LAUNCH,
                "tir.kernel_launch_params": tags,
                "tir.is_global_func": True,
                "global_symbol": str(func.attrs.get("global_symbol") or gvar.name_hint),
            }
            if maps[gvar]:
                attrs["tir.tensor_maps"] = maps[gvar]
            functions[gvar] = func.with_attrs(attrs)
        return mod.with_functions(functions)

    return Pass(PassInfo(0, "tir.LowerDeviceKernelLaunch"), run)


class MemoryInfo(Node, key="MemoryInfo"):
    """The description of a device memory, as the registered function "tvm.info.mem.<scope>" returns it.

    unit_bits: the addressable unit; max_num_bits: the size of the memory; max_simd_bits: the width of an access;
    head_address: the address of the first allocation, or None if the compiler does not place storage.
    """

    unit_bits: int
    max_num_bits: int
    max_simd_bits: int
    head_address: Any = None


def memory_info(scope: str) -> MemoryInfo | None:
    """The memory of a scope, from the registered function "tvm.info.mem.<scope>"; None without such a function."""
    from tilewright.runtime import get_global_func

    found = get_global_func(f"tvm.info.mem.{scope}", allow_missing=True)
    info = None if found is None else found()
    if info is not None and not isinstance(info, MemoryInfo):
        raise TVMError(f"tvm.info.mem.{scope} must give a MemoryInfo, but gave {type(info).__name__}")
    return info


class _Storage(Mutator):
    """Places storage of special memories at the head address, and turns access pointers into addresses."""

    def __init__(self) -> None:
        self.infos: dict[Var, MemoryInfo] = {}
        self.types: dict[Var, Any] = {}

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        scope = scope_of(s.buffer_var)
        self.types[s.buffer_var] = s.dtype
        info = memory_info(scope) if "." in scope and not scope.startswith(("shared.dyn", "wmma.")) else None
        if info is None:
            return self.rebuild(s)
        bits = s.dtype.bits * s.dtype.lanes
        for e in s.extents:
            bits = bits * e.value if isinstance(e, IntImm) else 0
        if bits > info.max_num_bits:
            raise TVMError(
                f"LowerDeviceStorageAccessInfo: {s.buffer_var.name} takes {bits} bits, more than the {info.max_num_bits} of"
                f" memory {scope}"
            )
        self.infos[s.buffer_var] = info
        body = self.visit(s.body)
        if info.head_address is None:
            return s.replace(body=body)
        return LetStmt(s.buffer_var, info.head_address, body)

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        if call_name(new) != "tvm_access_ptr":
            return new
        dtype, offset = new.args[0].dtype, new.args[2]
        data: Any = new.args[1]
        info = self.infos.get(data)
        if info is not None:
            bits = dtype.bits * dtype.lanes
            if info.unit_bits % bits and bits % info.unit_bits:
                raise TVMError(
                    f"LowerDeviceStorageAccessInfo: elements of {bits} bits do not fit units of {info.unit_bits} bits"
                )
            by: PrimExpr = offset
            if info.unit_bits > bits:
                by = floordiv(offset, info.unit_bits // bits)
            elif info.unit_bits < bits:
                by = multiply(offset, const(bits // info.unit_bits, offset.dtype))
            return Call("handle", "handle_add_byte_offset", (data, by))
        return address_of(BufferLoad(decl_buffer((1,), dtype, data.name, data=data), (offset,)))


def LowerDeviceStorageAccessInfo() -> Pass:
    """Lower tvm_access_ptr to addresses, and place storage of memories that "tvm.info.mem.<scope>" describes at their
    head address.
    """
    return body_pass("LowerDeviceStorageAccessInfo", lambda f: _Storage().visit(f.body), gives=("no_access_pointers",))


class _Vtcm(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        new = self.rebuild(s)
        scope = scope_of(s.buffer_var)
        if scope not in ("global.vtcm", "global.vtcm.dyn"):
            return new
        args = (StringImm("global.vtcm"), const(len(s.extents), "int64"), tvm_stack_make_shape(*s.extents))
        return LetStmt(s.buffer_var, Call("handle", "nd_mem_alloc_with_scope", args), new.body)


def LowerVtcmAlloc() -> Pass:
    """Replace allocations of scope "global.vtcm" by calls of nd_mem_alloc_with_scope."""
    return body_pass("LowerVtcmAlloc", lambda f: _Vtcm().visit(f.body), gives=("no_vtcm",))
