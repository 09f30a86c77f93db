"""Products of a dense matrix and a sparse one in vectors: along the rows of the dense matrix where it has enough of them, else along the
rows of a block, or the entries of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.indexing import data_index
from tilewright.topi.lang import tir
from tilewright.topi.loops import loop_kind, program
from tilewright.topi.utils import Dim, inside, to, whole

if TYPE_CHECKING:
    from tilewright.tir.ir_builder import BufferVar, IRBuilder

CHAINS = 4
"""Sums of the entries of a row that do not wait for each other."""

MOST_VECTORS = 4
"""Vectors of sums that a pass over the entries of a row adds to: each entry is read once for so many."""

LINE = 16
"""Columns of the result that are computed before they are written, row by row: a line of memory of float32."""


class Sparse:
    """The matrix (data, indices, indptr) as a program reads it: `groups` rows of blocks of `br` x `bc`, in `inner` columns."""

    def __init__(self, some: Dim, groups: int, br: int, bc: int, inner: int, blocked: bool) -> None:
        self.some, self.groups, self.br, self.bc, self.inner, self.blocked = some, groups, br, bc, inner, blocked

    def bounds(self, ib: IRBuilder, indptr: Any, group: Any) -> tuple[Any, Any]:
        """The first entry of a row of blocks, and the one after its last; both within the entries that there are."""
        begin = ib.let("begin", data_index(indptr[group], self.some + 1, "clip"))
        return begin, ib.let("end", tir.max(data_index(indptr[group + 1], self.some + 1, "clip"), begin))

    def value(self, data: Any, e: Any, r: Any, c: Any) -> Any:
        """An element of the block of an entry."""
        return data[e, r, c] if self.blocked else data[e]


def along_dense_rows(
    sparse: Sparse, tensors: list[te.Tensor], rows: int, lanes: int, sparse_lhs: bool, shape: list[Dim]
) -> te.Tensor:
    """The product, in tiles of rows of the dense matrix. Each tile is turned first, so that a column of it is contiguous."""
    vectors = min(MOST_VECTORS, -(-rows // lanes))
    tile = vectors * lanes
    tiles, held = -(-rows // tile), max(1, LINE // sparse.br)
    jobs, columns = -(-sparse.groups // held), held * sparse.br
    dtype = tensors[0].dtype

    def turn(ib: IRBuilder, dense: BufferVar, panel: BufferVar) -> None:
        kind = loop_kind(rows, sparse.inner)
        with ib.for_range(0, tiles, "tile", kind=kind) as i, ib.for_range(0, tile, "t") as t:
            row = ib.let("row", tir.min(i * tile + t, rows - 1))
            with ib.for_range(0, sparse.inner, "k") as k:
                panel[i, k, t] = dense[row, k]

    def add(ib: IRBuilder, sums: Any, factor: Any, panel: BufferVar, i: Any, k: Any) -> None:
        for v in range(vectors):
            with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                sums[v * lanes + lane] += factor * panel[i, k, v * lanes + lane]

    def clear(ib: IRBuilder, sums: Any) -> None:
        for v in range(vectors):
            with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                sums[v * lanes + lane] = tir.const(0, dtype)

    def keep(ib: IRBuilder, sums: Any, results: Any, column: Any) -> None:
        for v in range(vectors):
            with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                results[column, v * lanes + lane] = sums[v * lanes + lane]

    def write(ib: IRBuilder, results: Any, out: BufferVar, i: Any, job: Any) -> None:
        count = ib.let("count", tir.min(columns, sparse.groups * sparse.br - job * columns))

        def lines(kind: str, columns: Any) -> None:
            with (
                ib.for_range(0, tir.min(tile, rows - i * tile), "t") as t,
                ib.for_range(0, columns, "column", kind=kind) as column,
            ):
                place = (job * held * sparse.br + column, i * tile + t)
                out[place if sparse_lhs else place[::-1]] = results[column, t]

        if sparse_lhs or columns > LINE:
            lines("serial", count)
            return
        with ib.if_scope(count == columns):
            lines("vectorize", columns)
        with ib.else_scope():
            lines("serial", count)

    def body(
        ib: IRBuilder,
        dense: BufferVar,
        data: BufferVar,
        indices: BufferVar,
        indptr: BufferVar,
        out: BufferVar,
        panel: BufferVar,
    ) -> None:
        turn(ib, dense, panel)
        kind = loop_kind(*shape, sparse.inner)
        with ib.for_range(0, tiles * jobs, "job", kind=kind) as every:
            i, job = ib.let("i", every // jobs), ib.let("j", every % jobs)
            results = ib.allocate(dtype, (columns, tile), name="results", scope="local")
            with (
                ib.for_range(0, tir.min(held, sparse.groups - job * held), "g") as g,
                ib.for_range(0, sparse.br, "r") as r,
            ):
                sums = ib.allocate(dtype, (tile,), name="sums", scope="local")
                clear(ib, sums)
                begin, end = sparse.bounds(ib, indptr, job * held + g)
                with ib.for_range(begin, end, "e") as e:
                    index = ib.let("index", whole(indices[e]))
                    with ib.if_scope(inside(index, sparse.inner // sparse.bc)), ib.for_range(0, sparse.bc, "c") as c:
                        factor = ib.let("factor", sparse.value(data, e, r, c))
                        add(ib, sums, factor, panel, i, index * sparse.bc + to(c, index.dtype))
                keep(ib, sums, results, g * sparse.br + r)
            write(ib, results, out, i, job)

    scratch: list[tuple[list[Dim], str]] = [([tiles, sparse.inner, tile], dtype)]
    return program([shape], [dtype], tensors, body, "sparse_dense", scratch)[0]


def along_block_rows(
    sparse: Sparse, tensors: list[te.Tensor], rows: int, lanes: int, sparse_lhs: bool, shape: list[Dim]
) -> te.Tensor:
    """The product for few rows of the dense matrix, by blocks of one column whose rows are vectors."""
    dtype, vectors = tensors[0].dtype, sparse.br // lanes

    def body(
        ib: IRBuilder, dense: BufferVar, data: BufferVar, indices: BufferVar, indptr: BufferVar, out: BufferVar
    ) -> None:
        kind = loop_kind(*shape, sparse.inner)
        with ib.for_range(0, rows * sparse.groups, "job", kind=kind) as job:
            m, g = ib.let("m", job // sparse.groups), ib.let("g", job % sparse.groups)
            sums = ib.allocate(dtype, (sparse.br,), name="sums", scope="local")
            for v in range(vectors):
                with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                    sums[v * lanes + lane] = tir.const(0, dtype)
            begin, end = sparse.bounds(ib, indptr, g)
            with ib.for_range(begin, end, "e") as e:
                index = ib.let("index", whole(indices[e]))
                with ib.if_scope(inside(index, sparse.inner)):
                    factor = ib.let("factor", dense[m, index])
                    for v in range(vectors):
                        with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                            sums[v * lanes + lane] += factor * data[e, v * lanes + lane, 0]
            for v in range(vectors):
                with ib.for_range(0, lanes, "lane", kind="serial" if sparse_lhs else "vectorize") as lane:
                    place = (m, g * sparse.br + v * lanes + lane)
                    out[place[::-1] if sparse_lhs else place] = sums[v * lanes + lane]

    return program([shape], [dtype], tensors, body, "sparse_dense")[0]


def along_entries(sparse: Sparse, tensors: list[te.Tensor], sparse_lhs: bool, shape: list[Dim]) -> te.Tensor:
    """The product for one row of the dense matrix, by entries of single elements, in several sums."""
    dtype = tensors[0].dtype

    def body(
        ib: IRBuilder, dense: BufferVar, data: BufferVar, indices: BufferVar, indptr: BufferVar, out: BufferVar
    ) -> None:
        def add(sums: Any, chain: int, e: Any, r: Any) -> None:
            index = ib.let("index", whole(indices[e]))
            with ib.if_scope(inside(index, sparse.inner)):
                sums[chain] += sparse.value(data, e, r, 0) * dense[0, index]

        kind = loop_kind(*shape, sparse.inner)
        with ib.for_range(0, sparse.groups, "g", kind=kind) as g:
            begin, end = sparse.bounds(ib, indptr, g)
            passes = ib.let("passes", (end - begin) // CHAINS)
            with ib.for_range(0, sparse.br, "r") as r:
                sums = ib.allocate(dtype, (CHAINS,), name="sums", scope="local")
                for chain in range(CHAINS):
                    sums[chain] = tir.const(0, dtype)
                with ib.for_range(0, passes, "p") as p:
                    for chain in range(CHAINS):
                        add(sums, chain, begin + p * CHAINS + chain, r)
                with ib.for_range(begin + passes * CHAINS, end, "e") as e:
                    add(sums, 0, e, r)
                row = g * sparse.br + r
                out[(row, 0) if sparse_lhs else (0, row)] = (sums[0] + sums[1]) + (sums[2] + sums[3])

    return program([shape], [dtype], tensors, body, "sparse_dense")[0]
