"""Computes on sparse matrices by rows (CSR) or blocks (BSR), given as (data, indices, indptr), and on lists of indices.

Entries whose row bounds or columns are out of bounds are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.support import lazy
from tilewright.topi.indexing import data_index
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import copy, local, loop_kind, program, unflatten
from tilewright.topi.planner import planner
from tilewright.topi.sparse_tiles import Sparse, along_block_rows, along_dense_rows, along_entries
from tilewright.topi.transform import reshape, transpose
from tilewright.topi.utils import Dim, as_int, get_const_int, inside, known_equal, numbers, prod, shape_of, to, whole

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def least(a: Dim, b: Dim) -> Dim:
    """The smaller of two extents."""
    return a if known_equal(a, b) else as_int(tir.min(a, b))


def entries(ib: IRBuilder, data: te.Tensor, indices: te.Tensor, indptr: Any, row: Any) -> Any:
    """A loop over the entries of a row. Bounds in `indptr` are clipped to the number of entries."""
    some = least(shape_of(data)[0], shape_of(indices)[0]) + 1
    begin = ib.let("begin", data_index(indptr[row], some, "clip"))
    end = tir.max(data_index(indptr[row + 1], some, "clip"), begin)
    return ib.for_range(begin, end, "e")


def sparse_dense(
    dense_data: te.Tensor,
    sparse_data: te.Tensor,
    sparse_indices: te.Tensor,
    sparse_indptr: te.Tensor,
    sparse_lhs: bool = False,
) -> te.Tensor:
    """Dense (M, K) times the transpose of sparse (N, K): (M, N). With `sparse_lhs`: sparse (M, K) times the transpose of dense (N,
    K)."""
    rows, inner = shape_of(dense_data)
    blocks = shape_of(sparse_data)[1:] or [1, 1]
    bsr = len(sparse_data.shape) == 3
    br, bc = [get_const_int(b) for b in blocks] if bsr else (1, 1)
    groups = as_int(shape_of(sparse_indptr)[0] - 1)
    others = as_int(groups * br)
    shape = [others, rows] if sparse_lhs else [rows, others]
    dtype = dense_data.dtype
    tensors = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    lanes = planner().lanes(dtype)
    if lanes and isinstance(rows, int) and isinstance(groups, int) and isinstance(inner, int):
        some = least(shape_of(sparse_data)[0], shape_of(sparse_indices)[0])
        sparse = Sparse(some, groups, br, bc, inner, bsr)
        if rows < lanes and bc == 1 and br % lanes == 0:
            return along_block_rows(sparse, tensors, rows, lanes, sparse_lhs, shape)
        if rows > 1:
            return along_dense_rows(sparse, tensors, rows, lanes, sparse_lhs, shape)
        if rows == 1 and bc == 1:
            return along_entries(sparse, tensors, sparse_lhs, shape)

    def body(
        ib: IRBuilder, dense: BufferVar, data: BufferVar, indices: BufferVar, indptr: BufferVar, out: BufferVar
    ) -> None:
        kind = loop_kind(rows, others, inner)
        with (
            ib.for_range(0, rows, "m", kind=kind) as m,
            ib.for_range(0, groups, "g") as g,
            ib.for_range(0, br, "r") as r,
        ):
            total = local(ib, dtype, 0, "total")
            with entries(ib, sparse_data, sparse_indices, indptr, g) as e:
                index = ib.let("index", whole(indices[e]))
                with ib.if_scope(inside(index, inner // bc)), ib.for_range(0, bc, "c") as c:
                    value = data[e, r, c] if bsr else data[e]
                    total[0] = total[0] + value * dense[m, index * bc + to(c, index.dtype)]
            place = (g * br + r, m) if sparse_lhs else (m, g * br + r)
            out[place] = total[0]

    return program([shape], [dtype], tensors, body, "sparse_dense")[0]


def sparse_dense_sp_lhs(
    data_data: te.Tensor, data_indices: te.Tensor, data_indptr: te.Tensor, weight: te.Tensor
) -> te.Tensor:
    """Sparse data (M, K) times the transpose of dense weights (N, K): (M, N)."""
    return sparse_dense(weight, data_data, data_indices, data_indptr, True)


def sparse_dense_sp_rhs(
    data: te.Tensor, weight_data: te.Tensor, weight_indices: te.Tensor, weight_indptr: te.Tensor
) -> te.Tensor:
    """Dense data (M, K) times the transpose of sparse weights (N, K): (M, N)."""
    return sparse_dense(data, weight_data, weight_indices, weight_indptr)


def sparse_conv2d(
    dense_data: te.Tensor,
    sparse_data: te.Tensor,
    sparse_indices: te.Tensor,
    sparse_indptr: te.Tensor,
    layout: str = "NHWC",
    kernel_size: int | Sequence[int] = 1,
) -> te.Tensor:
    """Convolution of images with a kernel of one element whose weights are a sparse matrix (O, C)."""
    if {*numbers(kernel_size, 2)} != {1} or layout not in ("NHWC", "NCHW"):
        raise ValueError(
            f"sparse_conv2d takes NHWC or NCHW and a kernel of one element, but they are {layout} and {kernel_size}"
        )
    last = dense_data if layout == "NHWC" else transpose(dense_data, (0, 2, 3, 1))
    n, h, w, c = shape_of(last)
    made = sparse_dense(reshape(last, [as_int(n * h * w), c]), sparse_data, sparse_indices, sparse_indptr)
    shaped = reshape(made, [n, h, w, shape_of(made)[1]])
    return shaped if layout == "NHWC" else transpose(shaped, (0, 3, 1, 2))


def sparse_transpose(sparse_data: te.Tensor, sparse_indices: te.Tensor, sparse_indptr: te.Tensor) -> list[te.Tensor]:
    """(data, indices, indptr) of the transpose of a square CSR matrix."""
    count, n = shape_of(sparse_data)[0], as_int(shape_of(sparse_indptr)[0] - 1)

    def body(
        ib: IRBuilder,
        data: BufferVar,
        indices: BufferVar,
        indptr: BufferVar,
        out: BufferVar,
        columns: BufferVar,
        begin: BufferVar,
    ) -> None:
        kind = sparse_indptr.dtype
        with ib.for_range(0, n + 1, "i") as i:
            begin[i] = tir.const(0, kind)
        with ib.for_range(0, count, "e") as e:
            out[e], columns[e] = tir.const(0, out.dtype), tir.const(0, columns.dtype)
        with ib.for_range(0, n, "row") as row, entries(ib, sparse_data, sparse_indices, indptr, row) as e:
            column = ib.let("column", whole(indices[e]))
            with ib.if_scope(inside(column, n)):
                begin[column + 1] = begin[column + 1] + tir.const(1, kind)
        with ib.for_range(0, n, "i") as i:
            begin[i + 1] = begin[i + 1] + begin[i]
        with ib.for_range(0, n, "row") as row, entries(ib, sparse_data, sparse_indices, indptr, row) as e:
            column = ib.let("column", whole(indices[e]))
            with ib.if_scope(inside(column, n)):
                place = ib.let("place", begin[column])
                with ib.if_scope(inside(place, count)):
                    out[place] = data[e]
                    columns[place] = to(row, sparse_indices.dtype)
                begin[column] = place + tir.const(1, kind)
        # The begin of each row has become its end, which is the begin of the next row.
        with ib.for_range(0, n, "i") as i:
            begin[n - i] = begin[n - i - 1]
        begin[0] = tir.const(0, kind)

    return program(
        [[count], [count], [as_int(n + 1)]],
        [sparse_data.dtype, sparse_indices.dtype, sparse_indptr.dtype],
        [sparse_data, sparse_indices, sparse_indptr],
        body,
        "sparse_transpose",
    )


def sparse_add(
    dense_data: te.Tensor, sparse_data: te.Tensor, sparse_indices: te.Tensor, sparse_indptr: te.Tensor
) -> te.Tensor:
    """dense (M, N) plus a CSR matrix."""
    shape = shape_of(dense_data)

    def body(
        ib: IRBuilder, dense: BufferVar, data: BufferVar, indices: BufferVar, indptr: BufferVar, out: BufferVar
    ) -> None:
        copy(ib, dense, out, shape)
        rows = least(shape[0], as_int(shape_of(sparse_indptr)[0] - 1))
        with ib.for_range(0, rows, "row") as row, entries(ib, sparse_data, sparse_indices, indptr, row) as e:
            column = ib.let("column", whole(indices[e]))
            with ib.if_scope(inside(column, shape[1])):
                out[row, column] = out[row, column] + data[e]

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    return program([shape], [dense_data.dtype], inputs, body, "sparse_add")[0]


def sparse_to_dense(
    sparse_indices: te.Tensor, output_shape: Sequence[Dim], sparse_values: te.Tensor, default_value: te.Tensor
) -> te.Tensor:
    """A tensor of `output_shape` with the values at their indices (a scalar, a vector, or rows of indices), and `default_value`
    elsewhere. Indices out of bounds are ignored."""
    shape = [as_int(d) for d in output_shape]
    rank = len(sparse_indices.shape)
    count = shape_of(sparse_indices)[0] if rank else 1

    def body(ib: IRBuilder, indices: BufferVar, values: BufferVar, default: BufferVar, out: BufferVar) -> None:
        with ib.for_range(0, prod(shape), "i", kind=loop_kind(*shape)) as i:
            out[tuple(unflatten(i, shape))] = default[()] if not default_value.shape else default[0]
        with ib.for_range(0, count, "k") as k:
            value = values[k] if sparse_values.shape else values[()]
            if rank == 2:
                place = tuple([indices[k, a] for a in range(len(shape))])
            else:
                place = (indices[k] if rank else indices[()],)
            with ib.if_scope(tir.all(*[inside(i, d) for i, d in zip(place, shape, strict=True)])):
                out[place] = value

    inputs = [sparse_indices, sparse_values, default_value]
    return program([shape], [sparse_values.dtype], inputs, body, "sparse_to_dense")[0]


def sparse_reshape(
    sparse_indices: te.Tensor,
    prev_shape: te.Tensor,
    new_shape: te.Tensor,
    new_sparse_indices_shape: Any = None,
    new_shape_shape: Any = None,
) -> list[te.Tensor]:
    """[the indices (count, rank) in a tensor of `new_shape`, the new shape]. `new_shape` may contain one -1. The shapes of the results
    follow from those of the inputs, and need not be given."""
    del new_sparse_indices_shape, new_shape_shape
    rank, before = get_const_int(new_shape.shape[0]), get_const_int(prev_shape.shape[0])
    dtype = new_shape.dtype

    def extent(k: Var) -> PrimExpr:
        whole, rest = tir.const(1, dtype), tir.const(1, dtype)
        for a in range(before):
            whole = whole * to(prev_shape(a), dtype)
        for a in range(rank):
            rest = rest * tir.Select(new_shape(a) < 0, tir.const(1, dtype), new_shape(a))
        return tir.Select(new_shape(k) < 0, tir.indexdiv(whole, tir.max(rest, tir.const(1, dtype))), new_shape(k))

    shape = compute([rank], extent, name="new_shape", tag="injective")
    kind = sparse_indices.dtype

    def element(i: Var, k: Var) -> Any:
        flat = to(sparse_indices(i, 0), kind)
        for a in range(1, before):
            flat = flat * to(prev_shape(a), kind) + sparse_indices(i, a)
        found = flat
        for a in range(rank - 1, -1, -1):
            d = tir.max(to(shape(a), kind), tir.const(1, kind))
            part = tir.indexmod(flat, d) if a else flat
            found = part if a == rank - 1 else tir.Select(tir.EQ(k, tir.const(a, k.dtype)), part, found)
            flat = tir.indexdiv(flat, d)
        return found

    return [compute([shape_of(sparse_indices)[0], rank], element, name="sparse_reshape", tag="injective"), shape]


def sparse_fill_empty_rows(
    sparse_indices: te.Tensor,
    sparse_values: te.Tensor,
    dense_shape: te.Tensor,
    default_value: te.Tensor,
    new_sparse_indices_shape: Sequence[Dim],
    new_sparse_values_shape: Sequence[Dim],
    empty_row_indicator_shape: Sequence[Dim],
) -> list[te.Tensor]:
    """[indices, values, whether each row was empty (bool)] of a sparse matrix in which each row without an entry gets
    `default_value` in its first column. Entries are in the order of their rows, and of one row in the order in which they were given.

    The shapes are those of the results, which only the data know: as many entries as there were, and one for each empty row.
    """
    del dense_shape
    rows = as_int(list(empty_row_indicator_shape)[0])
    (held, rank), (number,) = (
        [as_int(d) for d in new_sparse_indices_shape],
        [as_int(d) for d in new_sparse_values_shape],
    )
    count = shape_of(sparse_indices)[0]
    kind, word = sparse_indices.dtype, "int64"

    def body(
        ib: IRBuilder,
        indices: BufferVar,
        values: BufferVar,
        default: BufferVar,
        places: BufferVar,
        out: BufferVar,
        empty: BufferVar,
        begin: BufferVar,
    ) -> None:
        fresh = default[0] if default_value.shape else default[()]
        one, room = tir.const(1, word), tir.min(to(held, word), to(number, word))
        with ib.for_range(0, rows + 1, "row") as row:
            begin[row] = tir.const(0, word)
        with ib.for_range(0, count, "e") as e:
            row = ib.let("row", whole(indices[e, 0]))
            with ib.if_scope(inside(row, rows)):
                begin[row + 1] = begin[row + 1] + one
        with ib.for_range(0, rows, "row") as row:
            entries_of = ib.let("entries", begin[row + 1])
            empty[row] = tir.EQ(entries_of, tir.const(0, word))
            place = ib.let("place", begin[row])
            begin[row + 1] = place + tir.max(entries_of, one)
            with ib.if_scope(tir.And(tir.EQ(entries_of, tir.const(0, word)), place < room)):
                for a in range(rank):
                    places[place, a] = to(row, kind) if a == 0 else tir.const(0, kind)
                out[place] = fresh
        # From here on begin[row] is where the row's next entry goes.
        with ib.for_range(0, count, "e") as e:
            row = ib.let("row", whole(indices[e, 0]))
            with ib.if_scope(inside(row, rows)):
                place = ib.let("place", begin[row])
                begin[row] = place + one
                with ib.if_scope(place < room):
                    for a in range(rank):
                        places[place, a] = indices[e, a]
                    out[place] = values[e]

    return program(
        [[held, rank], [number], [rows]],
        [kind, sparse_values.dtype, "bool"],
        [sparse_indices, sparse_values, default_value],
        body,
        "sparse_fill_empty_rows",
        [([rows + 1], word)],
    )


def csrmm(a: Any, b: te.Tensor, c: te.Tensor | None = None) -> te.Tensor:
    """A sparse matrix a (M, K), such as `contrib.sparse.placeholder` makes, times b (K, N), plus c: (M, N)."""
    return csrmm_default(a.data, a.indices, a.indptr, b, c)


def csrmm_default(
    data: te.Tensor, indices: te.Tensor, indptr: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None
) -> te.Tensor:
    """A CSR matrix (M, K) times weight (K, N), plus bias of M elements, one for each row, or else of N, one for each column: (M, N)."""
    return _biased(sparse_dense(transpose(weight), data, indices, indptr, True), bias)


def csrmv(a: Any, x: te.Tensor, y: te.Tensor | None = None) -> te.Tensor:
    """A sparse matrix a (M, K) times a column x (K, 1), plus y: (M, 1)."""
    return csrmv_default(a.data, a.indices, a.indptr, x, y)


def csrmv_default(
    data: te.Tensor, indices: te.Tensor, indptr: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None
) -> te.Tensor:
    """A CSR matrix (M, K) times a column (K, 1), plus bias of M elements or of one: (M, 1)."""
    return csrmm_default(data, indices, indptr, weight, bias)


def _biased(made: te.Tensor, bias: te.Tensor | None) -> te.Tensor:
    if bias is None:
        return made
    rows, extent = shape_of(made)[0], shape_of(bias)[0]
    by_row = known_equal(rows, extent)
    single = isinstance(extent, int) and extent == 1

    def element(i: Var, j: Var) -> Any:
        return made(i, j) + bias(0 if single else i if by_row else j)

    return compute(made.shape, element, name="T_add", tag="broadcast")


def dense(data: Any, weight: Any, bias: te.Tensor | None = None) -> te.Tensor:
    """data (M, K) times weight (N, K) transposed, plus bias (N,), where one of both is sparse, as `contrib.sparse.placeholder` makes it."""
    if isinstance(data, te.Tensor):
        return dense_sw(data, weight.data, weight.indices, weight.indptr, bias)
    return dense_si(data.data, data.indices, data.indptr, weight, bias)


def dense_si(
    data: te.Tensor, indices: te.Tensor, indptr: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None
) -> te.Tensor:
    """A CSR matrix (M, K) times weight (N, K) transposed, plus bias (N,): (M, N)."""
    return _by_column(sparse_dense(weight, data, indices, indptr, True), bias)


def dense_sw(
    data: te.Tensor, w_data: te.Tensor, w_indices: te.Tensor, w_indptr: te.Tensor, bias: te.Tensor | None = None
) -> te.Tensor:
    """data (M, K) times a CSR matrix (N, K) transposed, plus bias (N,): (M, N)."""
    return _by_column(sparse_dense(data, w_data, w_indices, w_indptr), bias)


def _by_column(made: te.Tensor, bias: te.Tensor | None) -> te.Tensor:
    if bias is None:
        return made
    return compute(made.shape, lambda i, j: made(i, j) + bias(j), name="T_add", tag="broadcast")


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:
    """A random sparse matrix of SciPy in blocks bs_r by bs_c, of which the share `density` is not zero."""
    from importlib import import_module

    import numpy as np

    if m % bs_r or n % bs_c:
        raise ValueError(f"random_bsr_matrix: blocks {bs_r} by {bs_c} do not divide a matrix {m} by {n}")
    generator = np.random.default_rng()
    blocks = int(m * n * density // (bs_r * bs_c)) + 1
    whole = (m // bs_r) * (n // bs_c)
    chosen = np.sort(generator.choice(whole, size=min(blocks, whole), replace=False))
    rows, columns = np.divmod(chosen, n // bs_c)
    data = generator.standard_normal((len(chosen), bs_r, bs_c)).astype(dtype)
    begins = np.searchsorted(rows, np.arange(m // bs_r + 1))
    return import_module("scipy.sparse").bsr_matrix((data, columns, begins), shape=(m, n))


lazy.faces(
    __name__,
    {
        "csrmm": ["csrmm", "csrmm_default"],
        "csrmv": ["csrmv", "csrmv_default"],
        "dense": ["dense", "dense_si", "dense_sw"],
        "utils": [
            "random_bsr_matrix",
            *[
                f"tilewright.relay.data_dep_optimization.sparse_models:{name}"
                for name in (
                    "convert_model_dense_to_sparse",
                    "random_sparse_conv2d_params",
                    "random_sparse_dense_params",
                )
            ],
        ],
    },
)
