"""The matrix units of NVIDIA's GPUs as tensor intrinsics: CUDA's wmma, by which a warp multiplies tiles in fragments.

Names are as in wmma_load_16x16x16_f16_a_shared_dyn, wmma_sync_16x16x16_f16f16f32_trans, wmma_fill_16x16x16_f32 and
wmma_store_16x16x16_f32_global, where "trans" stands for a second operand that is stored by columns (n, k).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    Stmt,
    Var,
    const,
    decl_buffer,
)
from tilewright.tir.arithmetic import cast_to, floordiv, floormod
from tilewright.tir.builtin import (
    tvm_fill_fragment,
    tvm_load_matrix_sync,
    tvm_mma_sync,
    tvm_store_matrix_sync,
)
from tilewright.tir.schedule import TensorIntrin

WARP_SIZE = 32
SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int4": "s4", "int32": "s32"}
"""Element types in names."""
PAIRS = {"float16": ("float16", "float32"), "int8": ("int32",), "int4": ("int32",)}
"""Element types of operands, and those of sums."""
Pair = tuple[PrimFunc, PrimFunc]


def _tile(name: str, shape: tuple[int, int], dtype: str, scope: str, aligned: int, strides: bool = False) -> Buffer:
    steps = (Var(f"{name}_s1", "int32"), Var(f"{name}_s0", "int32")) if strides else ()
    return decl_buffer(shape, dtype, name, scope=scope, data_alignment=64, offset_factor=aligned, strides=steps or None)


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, tuple([Range.from_min_extent(0, n) for n in buffer.shape]))


def _function(params: tuple[Buffer, ...], read: list[Buffer], written: Buffer, body: Stmt) -> PrimFunc:
    root = Block((), tuple([_whole(b) for b in read]), (_whole(written),), "root", body)
    return PrimFunc(params, BlockRealize((), const(True, "bool"), root))


def _nest(extents: tuple[int, ...], kinds: str, name: str, make: Any) -> Stmt:
    """A block in loops. kinds: S or R for each loop. make: from the block's variables to (store, loads)."""
    loops = [Var(n, "int32") for n in "ijk"[: len(extents)]]
    kind = {"S": IterVar.DataPar, "R": IterVar.CommReduce}
    axes = [
        IterVar(Range(0, e), Var(f"v{v.name}", "int32"), kind[letter])
        for v, e, letter in zip(loops, extents, kinds, strict=True)
    ]
    store, loads = make(*[a.var for a in axes])

    def region(x: Any) -> BufferRegion:
        return BufferRegion(x.buffer, tuple([Range.from_min_extent(e, 1) for e in x.indices]))

    block = Block(tuple(axes), tuple([region(x) for x in loads]), (region(store),), name, store)
    body: Stmt = BlockRealize(tuple(loops), const(True, "bool"), block)
    for v, e in reversed(list(zip(loops, extents, strict=True))):
        body = For(v, 0, e, ForKind.SERIAL, body)
    return body


def _copied(source: Buffer, to: Buffer, name: str) -> Stmt:
    def make(i: Var, j: Var) -> Any:
        load = BufferLoad(source, (i, j))
        return BufferStore(to, load, (i, j)), (load,)

    return _nest(tuple([int(n.value) for n in to.shape if isinstance(n, IntImm)]), "SS", name, make)


def get_wmma_fragment_index(buffer: Buffer, stride: PrimExpr, m_dim: int, n_dim: int) -> PrimExpr:
    """The number of the fragment that a tile of m_dim x n_dim elements is, in a buffer of fragments whose rows are `stride` elements
    apart."""
    row, column = floordiv(floordiv(buffer.elem_offset, stride), m_dim), floormod(buffer.elem_offset, stride)
    return row * floordiv(stride, n_dim) + floordiv(column, n_dim)


def get_wmma_load_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str, shared_scope: str, is_b: bool, is_col_major: bool
) -> Pair:
    """Description and implementation of the load of a tile to a fragment: (m, k), or (k, n) for the second operand (is_b); in reverse
    order where it is stored by columns."""
    rows, columns = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    rows, columns = (columns, rows) if is_col_major else (rows, columns)
    scope = f"wmma.matrix_{'b' if is_b else 'a'}"
    made = []
    for implemented in (False, True):
        source = _tile("A", (rows, columns), dtype, shared_scope, columns, implemented)
        fragment = _tile("C", (rows, columns), dtype, scope, columns, implemented)
        if implemented:
            index = get_wmma_fragment_index(fragment, fragment.strides[0], rows, columns)
            body: Stmt = Evaluate(
                tvm_load_matrix_sync(
                    fragment.data, m_dim, n_dim, k_dim, index, source.access_ptr("r"), source.strides[0],
                    "col_major" if is_col_major else "row_major",
                )
            )  # fmt: skip
        else:
            body = _copied(source, fragment, "load")
        made.append(_function((source, fragment), [source], fragment, body))
    return made[0], made[1]


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Description and implementation of the initialisation of a fragment of sums by 0."""
    made = []
    zero = const(0, dtype)
    for implemented in (False, True):
        sums = _tile("C", (m_dim, n_dim), dtype, "wmma.accumulator", n_dim, implemented)
        if implemented:
            index = get_wmma_fragment_index(sums, sums.strides[0], m_dim, n_dim)
            body: Stmt = Evaluate(
                tvm_fill_fragment(
                    sums.data, m_dim, n_dim, k_dim, index, const(0.0, "float32") if "f" in dtype else zero
                )
            )
        else:
            body = _nest((m_dim, n_dim), "SS", "init", lambda i, j: (BufferStore(sums, zero, (i, j)), ()))  # noqa: B023
        made.append(_function((sums,), [], sums, body))
    return made[0], made[1]


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """Description and implementation of the store of a fragment of sums to memory in a scope."""
    made = []
    for implemented in (False, True):
        sums = _tile("A", (m_dim, n_dim), dtype, "wmma.accumulator", n_dim, implemented)
        to = _tile("C", (m_dim, n_dim), dtype, scope, n_dim, implemented)
        if implemented:
            index = get_wmma_fragment_index(sums, sums.strides[0], m_dim, n_dim)
            pointer, stride = to.access_ptr("w"), to.strides[0]
            body: Stmt = Evaluate(
                tvm_store_matrix_sync(sums.data, m_dim, n_dim, k_dim, index, pointer, stride, "row_major")
            )
        else:
            body = _copied(sums, to, "store")
        made.append(_function((sums, to), [sums], to, body))
    return made[0], made[1]


def get_wmma_sync_intrin(m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """Description and implementation of C[m, n] += A[m, k] * B[k, n] on fragments; B[n, k] where b_transposed."""
    columns = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)
    made = []
    for implemented in (False, True):
        a = _tile("A", (m_dim, k_dim), in_dtype, "wmma.matrix_a", k_dim, implemented)
        b = _tile("B", columns, in_dtype, "wmma.matrix_b", columns[1], implemented)
        c = _tile("C", (m_dim, n_dim), out_dtype, "wmma.accumulator", n_dim, implemented)
        if implemented:
            places = [
                get_wmma_fragment_index(x, x.strides[0], int(x.shape[0]), int(x.shape[1]))  # type: ignore[call-overload]
                for x in (a, b, c)
            ]
            body: Stmt = Evaluate(
                tvm_mma_sync(c.data, places[2], a.data, places[0], b.data, places[1], c.data, places[2])
            )
        else:
            body = _product(a, b, c, (m_dim, n_dim, k_dim), b_transposed)
        made.append(_function((a, b, c), [c, a, b], c, body))
    return made[0], made[1]


def _product(a: Buffer, b: Buffer, c: Buffer, sizes: tuple[int, int, int], b_transposed: bool) -> Stmt:
    def make(i: Var, j: Var, k: Var) -> Any:
        total, left = BufferLoad(c, (i, j)), BufferLoad(a, (i, k))
        right = BufferLoad(b, (j, k) if b_transposed else (k, j))
        product = cast_to(left, c.dtype) * cast_to(right, c.dtype)
        return BufferStore(c, total + product, (i, j)), (total, left, right)

    return _nest(sizes, "SSR", "update", make)


NAMES: dict[str, str] = {}
"""The classic names of the names, such as WMMA_FILL_16x16x16_F32_INTRIN."""
_MAKERS: dict[str, Callable[[], Pair]] = {}


def _register(constant: str, name: str, make: Callable[..., Pair], *args: Any) -> None:
    _MAKERS[name] = lambda: make(*args)
    NAMES[constant] = name
    globals()[constant] = name


def intrinsic(name: str) -> TensorIntrin | None:
    """The tensor intrinsic of one of NAMES; None for other names."""
    return TensorIntrin(*_MAKERS[name]()) if name in _MAKERS else None


def _register_all(m: int, n: int, k: int, in_dtype: str, both: bool) -> None:
    """The loads, stores, initialisations and products of one shape and one type of operands. both: also of operands by columns in A, and
    by rows in B."""
    size, short = f"{m}x{n}x{k}", SHORT[in_dtype]
    for scope, dyn in (("shared", ""), ("shared.dyn", "_DYN")):
        for operand, trans in (("A", False), ("A", True), ("B", False), ("B", True)):
            if not both and trans != (operand == "B"):
                continue
            end = "_TRANS" if trans else ""
            _register(
                f"WMMA_LOAD_{size}_{short.upper()}_{operand}{end}{dyn}_INTRIN",
                f"wmma_load_{size}_{short}_{operand.lower()}{end.lower()}_{scope.replace('.', '_')}",
                get_wmma_load_intrin,
                m,
                n,
                k,
                in_dtype,
                scope,
                operand == "B",
                trans,
            )
    for out_dtype in PAIRS[in_dtype]:
        out = SHORT[out_dtype]
        fill = f"WMMA_FILL_{size}_{out.upper()}_INTRIN"
        if fill not in NAMES:
            _register(fill, f"wmma_fill_{size}_{out}", get_wmma_fill_intrin, m, n, k, out_dtype)
            for scope in ("global", "shared", "shared.dyn"):
                end = scope.replace(".", "_")
                _register(
                    f"WMMA_STORE_{size}_{out.upper()}_{end.upper()}_INTRIN",
                    f"wmma_store_{size}_{out}_{end}",
                    get_wmma_store_intrin,
                    m,
                    n,
                    k,
                    out_dtype,
                    scope,
                )
        for trans in (False, True) if both else (True,):
            kinds = f"{short}{short}{out}"
            end = "_TRANS" if trans else ""
            _register(
                f"WMMA_SYNC_{size}_{kinds}{end}_INTRIN",
                f"wmma_sync_{size}_{kinds}{end.lower()}",
                get_wmma_sync_intrin,
                m,
                n,
                k,
                in_dtype,
                out_dtype,
                trans,
            )


_register_all(16, 16, 16, "float16", True)
_register_all(16, 16, 16, "int8", True)
_register_all(8, 8, 32, "int4", False)
TensorIntrin.register_family("wmma_", intrinsic)


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The names of the intrinsics of a product, as MultiLevelTilingTensorCore takes them: init, load_a, load_b, compute, store.

    load_scope: "shared" or "shared.dyn". store_scope: these or "global". in_dtype: "float16" or "int8". out_dtype: "float16" or "float32",
    or "int32". trans_b: the second operand is (n, k). Raises ValueError for others.
    """
    if load_scope not in ("shared", "shared.dyn") or store_scope not in ("global", "shared", "shared.dyn"):
        raise ValueError(
            f"fragments are loaded from shared memory, and stored there or to global, not {load_scope}, {store_scope}"
        )
    if in_dtype not in ("float16", "int8") or out_dtype not in PAIRS[in_dtype]:
        raise ValueError(f"there is no product of {in_dtype} with sums of {out_dtype}")
    short, out, trans = SHORT[in_dtype], SHORT[out_dtype], "_trans" if trans_b else ""
    load, store = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    return {
        "init": f"wmma_fill_16x16x16_{out}",
        "load_a": f"wmma_load_16x16x16_{short}_a_{load}",
        "load_b": f"wmma_load_16x16x16_{short}_b{trans}_{load}",
        "compute": f"wmma_sync_16x16x16_{short}{short}{out}{trans}",
        "store": f"wmma_store_16x16x16_{out}_{store}",
    }
