"""Metal's matrices of a simdgroup as tensor intrinsics: 8 x 8 elements, held by the threads of a simdgroup.

Names are as in simdgroup_load_8x8x8_f16_shared_trans, simdgroup_multiply_accumulate_8x8x8_f32, simdgroup_make_filled_8x8x8_f32 and
simdgroup_store_8x8x8_f32_global, where "trans" stands for a tile that is stored by columns.
"""

from __future__ import annotations

from tilewright.ir import PrimExpr
from tilewright.tir import Buffer, BufferLoad, BufferStore, Evaluate, Stmt, Var, const
from tilewright.tir.arithmetic import cast_to, floordiv, floormod
from tilewright.tir.builtin import (
    make_filled_simdgroup_matrix,
    simdgroup_load,
    simdgroup_multiply_accumulate,
    simdgroup_store,
)
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin.tile_programs import Intrinsics, Pair, copied, function, nest, tile

SCOPE = "metal.simdgroup"
SHORT = {"float16": "f16", "float32": "f32", "bfloat16": "bf16"}
"""Element types in names."""
SHARED = ("shared", "shared.dyn")


def get_simdgroup_index(buffer: Buffer, stride: PrimExpr, col: int, row: int) -> PrimExpr:
    """The number of the matrix that a tile of col x row elements is, in a buffer of matrices whose rows are `stride` elements apart."""
    across = floordiv(stride, row)
    place = buffer.elem_offset
    return floordiv(floordiv(place, stride), col) * across + floordiv(floormod(place, stride), row)


def get_make_filled_simdgroup_matrix_intrin(dtype: str, col: int = 8, row: int = 8) -> Pair:
    """Description and implementation of the initialisation of a matrix of sums by 0."""
    made = []
    zero = const(0, dtype)
    for implemented in (False, True):
        sums = tile("A", (col, row), dtype, SCOPE, row, implemented)
        if implemented:
            index = get_simdgroup_index(sums, sums.strides[0], col, row)
            body: Stmt = Evaluate(make_filled_simdgroup_matrix(sums.data, index, zero, col, row))
        else:
            body = nest((col, row), "SS", "init", lambda i, j: (BufferStore(sums, zero, (i, j)), ()))  # noqa: B023
        made.append(function((sums,), [], sums, body))
    return made[0], made[1]


def _moved(dtype: str, scope: str, sizes: tuple[int, int], transposed: bool, load: bool) -> Pair:
    """A copy between memory and a matrix; `transposed` tiles of memory have the rows of the matrix as columns."""
    col, row = sizes
    made = []
    for implemented in (False, True):
        first, second = [
            tile(name, (col, row), dtype, SCOPE if name == ("C" if load else "A") else scope, row, implemented)
            for name in "AC"
        ]
        matrix, memory = (second, first) if load else (first, second)
        if implemented:
            index = get_simdgroup_index(matrix, matrix.strides[0], col, row)
            pointer = memory.access_ptr("r" if load else "w")
            move = simdgroup_load if load else simdgroup_store
            body: Stmt = Evaluate(move(matrix.data, index, pointer, memory.strides[0], col, row, transposed))
        elif transposed:

            def turned(i: Var, j: Var) -> tuple[BufferStore, tuple[BufferLoad]]:
                value = BufferLoad(first, (i, j))  # noqa: B023
                return BufferStore(second, value, (j, i)), (value,)  # noqa: B023

            body = nest((col, row), "SS", "load" if load else "store", turned)
        else:
            body = copied(first, second, "load" if load else "store")
        made.append(function((first, second), [first], second, body))
    return made[0], made[1]


def get_simdgroup_load_intrin(
    dtype: str, scope: str, col: int = 8, row: int = 8, transpose_matrix: bool = False
) -> Pair:
    """Description and implementation of the load of a tile from memory in a scope ("shared", "shared.dyn" or "global")."""
    return _moved(dtype, scope, (col, row), transpose_matrix, True)


def get_simdgroup_store_intrin(
    dtype: str, scope: str, col: int = 8, row: int = 8, transpose_matrix: bool = False
) -> Pair:
    """Description and implementation of the store of a matrix to memory in a scope."""
    return _moved(dtype, scope, (col, row), transpose_matrix, False)


def get_simdgroup_multiply_accumulate_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Description and implementation of C[m, n] += A[m, k] * B[k, n] on matrices."""
    made = []
    for implemented in (False, True):
        a = tile("A", (m_dim, k_dim), dtype, SCOPE, k_dim, implemented)
        b = tile("B", (k_dim, n_dim), dtype, SCOPE, n_dim, implemented)
        c = tile("C", (m_dim, n_dim), dtype, SCOPE, n_dim, implemented)
        if implemented:
            index_a, index_b, index_c = (
                get_simdgroup_index(x, x.strides[0], *sizes)
                for x, sizes in ((a, (m_dim, k_dim)), (b, (k_dim, n_dim)), (c, (m_dim, n_dim)))
            )
            body: Stmt = Evaluate(
                simdgroup_multiply_accumulate(c.data, index_c, a.data, index_a, b.data, index_b, c.data, index_c)
            )
        else:

            def product(i: Var, j: Var, k: Var) -> tuple[BufferStore, tuple[BufferLoad, ...]]:
                total, left, right = BufferLoad(c, (i, j)), BufferLoad(a, (i, k)), BufferLoad(b, (k, j))  # noqa: B023
                value = total + cast_to(left, dtype) * cast_to(right, dtype)
                return BufferStore(c, value, (i, j)), (total, left, right)  # noqa: B023

            body = nest((m_dim, n_dim, k_dim), "SSR", "update", product)
        made.append(function((a, b, c), [c, a, b], c, body))
    return made[0], made[1]


INTRINSICS = Intrinsics("simdgroup_")
for _dtype, _short in SHORT.items():
    # The names of constants say FILLED for some types and MAKE_FILLED for others, as programs know them.
    _fill = f"SIMDGROUP_{'MAKE_' if _dtype == 'float16' else ''}FILLED_8x8x8_{_short}_INTRIN"
    INTRINSICS.add(_fill, f"simdgroup_make_filled_8x8x8_{_short}", get_make_filled_simdgroup_matrix_intrin, _dtype)
    for _scope in (*SHARED, "global"):
        for _trans in (False, True):
            _end = f"{_short}_{_scope.replace('.', '_')}{'_trans' * _trans}"
            _upper = f"{_short}_{_scope.replace('.', '_').upper()}{'_TRANS' * _trans}_INTRIN"
            _load, _store = get_simdgroup_load_intrin, get_simdgroup_store_intrin
            INTRINSICS.add(
                f"SIMDGROUP_LOAD_8x8x8_{_upper}", f"simdgroup_load_8x8x8_{_end}", _load, _dtype, _scope, 8, 8, _trans
            )
            INTRINSICS.add(
                f"SIMDGROUP_STORE_8x8x8_{_upper}", f"simdgroup_store_8x8x8_{_end}", _store, _dtype, _scope, 8, 8, _trans
            )
    INTRINSICS.add(
        f"SIMDGROUP_MULTI_ACC_8x8x8_{_short}_INTRIN", f"simdgroup_multiply_accumulate_8x8x8_{_short}",
        get_simdgroup_multiply_accumulate_intrin, 8, 8, 8, _dtype,
    )  # fmt: skip
TensorIntrin.register_family("simdgroup_", INTRINSICS.get)
globals().update(INTRINSICS.constants)


def get_simdgroup_intrin_group(
    load_scope: str, store_scope: str, dtype: str, trans_a: bool = False, trans_b: bool = False
) -> dict[str, str]:
    """The names of the intrinsics of a product: init, load_a, load_b, compute, store.

    load_scope: "shared" or "shared.dyn". store_scope: these or "global". dtype: "float16", "float32" or "bfloat16". trans_a, trans_b: the
    operand is stored by columns. Raises ValueError for others.
    """
    if load_scope not in SHARED or store_scope not in (*SHARED, "global") or dtype not in SHORT:
        raise ValueError(
            "matrices of float16, float32 or bfloat16 are loaded from shared memory, and stored there or to global, but"
            f" dtype, load_scope and store_scope are {dtype}, {load_scope} and {store_scope}"
        )
    short, load, store = SHORT[dtype], load_scope.replace(".", "_"), store_scope.replace(".", "_")
    return {
        "init": f"simdgroup_make_filled_8x8x8_{short}",
        "load_a": f"simdgroup_load_8x8x8_{short}_{load}{'_trans' * trans_a}",
        "load_b": f"simdgroup_load_8x8x8_{short}_{load}{'_trans' * trans_b}",
        "compute": f"simdgroup_multiply_accumulate_8x8x8_{short}",
        "store": f"simdgroup_store_8x8x8_{short}_{store}",
    }


__all__ = [
    "get_make_filled_simdgroup_matrix_intrin",
    "get_simdgroup_index",
    "get_simdgroup_intrin_group",
    "get_simdgroup_load_intrin",
    "get_simdgroup_multiply_accumulate_intrin",
    "get_simdgroup_store_intrin",
]
