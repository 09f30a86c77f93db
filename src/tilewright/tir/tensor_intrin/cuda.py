"""The matrix units of NVIDIA's GPUs as tensor intrinsics: CUDA's wmma, by which a warp multiplies tiles in fragments. mma.py has those by
the PTX instruction mma; all names can be had from here.

Names are as in wmma_load_16x16x16_f16_a_shared_dyn, wmma_sync_16x16x16_f16f16f32_trans, wmma_fill_16x16x16_f32 and
wmma_store_16x16x16_f32_global, where "trans" stands for a second operand that is stored by columns (n, k).
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import PrimExpr
from tilewright.tir import Buffer, BufferLoad, BufferStore, Evaluate, Stmt, Var, const
from tilewright.tir.arithmetic import cast_to, floordiv, floormod
from tilewright.tir.builtin import (
    tvm_fill_fragment,
    tvm_load_matrix_sync,
    tvm_mma_sync,
    tvm_store_matrix_sync,
)
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin import mma
from tilewright.tir.tensor_intrin.mma import (
    get_ldmatrix_intrin,
    get_mma_fill_intrin,
    get_mma_intrin,
    get_mma_intrin_group,
    get_mma_store_intrin,
)
from tilewright.tir.tensor_intrin.mma_layouts import (
    M_DIM,
    N_DIM,
    WARP_SIZE,
    index_map_shared_16x16_to_ldmatrix_32x8_layout,
    ldmatrix_32x8_to_shared_16x16_layout,
    shared_16x16_to_ldmatrix_32x8_layout,
    shared_16x32_to_ldmatrix_32x16_layout,
    shared_32x16_to_ldmatrix_32x16_layout,
)
from tilewright.tir.tensor_intrin.tile_programs import Intrinsics, Pair, copied, function, nest, tile

HALF_WARP = WARP_SIZE // 2
SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int4": "s4", "int32": "s32"}
"""Element types in names."""
PAIRS = {"float16": ("float16", "float32"), "int8": ("int32",), "int4": ("int32",)}
"""Element types of operands, and those of sums."""


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
        source = tile("A", (rows, columns), dtype, shared_scope, columns, implemented)
        fragment = tile("C", (rows, columns), dtype, scope, columns, implemented)
        if implemented:
            index = get_wmma_fragment_index(fragment, fragment.strides[0], rows, columns)
            body: Stmt = Evaluate(
                tvm_load_matrix_sync(
                    fragment.data, m_dim, n_dim, k_dim, index, source.access_ptr("r"), source.strides[0],
                    "col_major" if is_col_major else "row_major",
                )
            )  # fmt: skip
        else:
            body = copied(source, fragment, "load")
        made.append(function((source, fragment), [source], fragment, body))
    return made[0], made[1]


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Description and implementation of the initialisation of a fragment of sums by 0."""
    made = []
    zero = const(0, dtype)
    for implemented in (False, True):
        sums = tile("C", (m_dim, n_dim), dtype, "wmma.accumulator", n_dim, implemented)
        if implemented:
            index = get_wmma_fragment_index(sums, sums.strides[0], m_dim, n_dim)
            body: Stmt = Evaluate(
                tvm_fill_fragment(
                    sums.data, m_dim, n_dim, k_dim, index, const(0.0, "float32") if "f" in dtype else zero
                )
            )
        else:
            body = nest((m_dim, n_dim), "SS", "init", lambda i, j: (BufferStore(sums, zero, (i, j)), ()))  # noqa: B023
        made.append(function((sums,), [], sums, body))
    return made[0], made[1]


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """Description and implementation of the store of a fragment of sums to memory in a scope."""
    made = []
    for implemented in (False, True):
        sums = tile("A", (m_dim, n_dim), dtype, "wmma.accumulator", n_dim, implemented)
        to = tile("C", (m_dim, n_dim), dtype, scope, n_dim, implemented)
        if implemented:
            index = get_wmma_fragment_index(sums, sums.strides[0], m_dim, n_dim)
            pointer, stride = to.access_ptr("w"), to.strides[0]
            body: Stmt = Evaluate(
                tvm_store_matrix_sync(sums.data, m_dim, n_dim, k_dim, index, pointer, stride, "row_major")
            )
        else:
            body = copied(sums, to, "store")
        made.append(function((sums, to), [sums], to, body))
    return made[0], made[1]


def get_wmma_sync_intrin(m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """Description and implementation of C[m, n] += A[m, k] * B[k, n] on fragments; B[n, k] where b_transposed."""
    columns = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)
    made = []
    for implemented in (False, True):
        a = tile("A", (m_dim, k_dim), in_dtype, "wmma.matrix_a", k_dim, implemented)
        b = tile("B", columns, in_dtype, "wmma.matrix_b", columns[1], implemented)
        c = tile("C", (m_dim, n_dim), out_dtype, "wmma.accumulator", n_dim, implemented)
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
        made.append(function((a, b, c), [c, a, b], c, body))
    return made[0], made[1]


def _product(a: Buffer, b: Buffer, c: Buffer, sizes: tuple[int, int, int], b_transposed: bool) -> Stmt:
    def make(i: Var, j: Var, k: Var) -> Any:
        total, left = BufferLoad(c, (i, j)), BufferLoad(a, (i, k))
        right = BufferLoad(b, (j, k) if b_transposed else (k, j))
        product = cast_to(left, c.dtype) * cast_to(right, c.dtype)
        return BufferStore(c, total + product, (i, j)), (total, left, right)

    return nest(sizes, "SSR", "update", make)


INTRINSICS = Intrinsics("wmma_")


def _register_all(m: int, n: int, k: int, in_dtype: str, both: bool) -> None:
    """The loads, stores, initialisations and products of one shape and one type of operands. both: also of operands by columns in A, and
    by rows in B."""
    size, short = f"{m}x{n}x{k}", SHORT[in_dtype]
    for scope, dyn in (("shared", ""), ("shared.dyn", "_DYN")):
        for operand, trans in (("A", False), ("A", True), ("B", False), ("B", True)):
            if not both and trans != (operand == "B"):
                continue
            end = "_TRANS" if trans else ""
            INTRINSICS.add(
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
        if fill not in INTRINSICS.constants:
            INTRINSICS.add(fill, f"wmma_fill_{size}_{out}", get_wmma_fill_intrin, m, n, k, out_dtype)
            for scope in ("global", "shared", "shared.dyn"):
                end = scope.replace(".", "_")
                INTRINSICS.add(
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
            INTRINSICS.add(
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
TensorIntrin.register_family("wmma_", INTRINSICS.get)
NAMES: dict[str, str] = {**INTRINSICS.constants, **mma.INTRINSICS.constants}
"""The classic constants of the names, such as WMMA_FILL_16x16x16_F32_INTRIN."""
globals().update(NAMES)


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


__all__ = [
    "HALF_WARP",
    "M_DIM",
    "NAMES",
    "N_DIM",
    "WARP_SIZE",
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
    "get_wmma_fill_intrin",
    "get_wmma_fragment_index",
    "get_wmma_intrin_group",
    "get_wmma_load_intrin",
    "get_wmma_store_intrin",
    "get_wmma_sync_intrin",
    "index_map_shared_16x16_to_ldmatrix_32x8_layout",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout",
]
