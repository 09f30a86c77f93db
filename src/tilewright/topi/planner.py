"""Questions that computes ask about their form.

A compute does not know the machine. If its form depends on the machine (the axis of vectors, the number of rows that fills whole
register tiles), it asks the current planner:

    with KernelPlan(target):                # tilewright.scheduling: the cost model, a tuner or a database decides
        topi.nn.batch_matmul(a, b)

Without one, `Planner` chooses the plain form.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, Self

from tilewright.topi.problems import Matrices, Windows


class Tiling(NamedTuple):
    """Whole register tiles over rows and vectors of columns: the tile, the numbers of rows and vectors to compute, and the cycles
    of one step of the reduction."""

    tile_rows: int
    tile_columns: int
    rows: int
    columns: int
    cycles: float


class Form(NamedTuple):
    """The form of a product or a convolution: its name in `topi.nn.product` or `topi.nn.plain_conv`, the lanes of a vector, the
    tiles."""

    kind: str
    lanes: int
    tiles: Tiling


class GroupedForm(NamedTuple):
    """The form of a product of narrow numbers, for instructions that add up `group` products to each of `lanes` sums: the steps
    along the reduction, the rows and panels of columns to compute, the tile (None: the schedule decides), and whether rows of
    the first operand are padded with zeros."""

    group: int
    lanes: int
    steps: int
    rows: int
    panels: int
    tiles: Tiling | None
    filled: bool


class Blocks(NamedTuple):
    """Blocks of attention: register tiles (rows, vectors of columns) of scores and of results, the number of queries that go
    through all stages together, and the lanes of a vector. staged: queries and values are brought to whole tiles, too. depth: what the
    computed elements of a query and of a value are a multiple of. parts: in which the keys are computed apart, and then combined."""

    scores: tuple[int, int]
    results: tuple[int, int]
    rows: int
    lanes: int
    staged: bool = False
    depth: int = 1
    parts: int = 1
    binary: bool = False


class Columns(NamedTuple):
    """The number of columns of an image to compute, and whether columns beyond the result read padding (else they repeat the last
    column)."""

    count: Any
    from_padding: bool


class Planner:
    """The planner for no particular machine: every compute uses its plain form."""

    def __enter__(self) -> Self:
        _tokens.setdefault(id(self), []).append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(_tokens[id(self)].pop())
        if not _tokens[id(self)]:
            del _tokens[id(self)]

    def lanes(self, dtype: str) -> int:
        """The lanes of a vector; 0 if no machine is known."""
        return 0

    def threads(self) -> int:
        """The threads of a block of a device on which loops that no rule schedules are bound to threads (a GPU); 0 elsewhere."""
        return 0

    def in_threads(self, elements: int) -> bool:
        """Whether threads share a loop over `elements` elements that no rule schedules. Without a machine: as on the measured ones."""
        return elements >= 1 << 14

    def product(self, p: Matrices, name: str) -> Form | None:
        """The form of a matrix product of known sizes: columns, panels or dots. None: the plain form."""
        return None

    def grouped(self, p: Matrices, types: tuple[str, str], name: str) -> GroupedForm | None:
        """The form of a product of narrow numbers. None: no instruction that adds up groups."""
        return None

    def dynamic_product(self, m: Any, n: Any, dtype: str) -> tuple[Any, int] | None:
        """(rows to compute, width of panels) of a product with dynamic dimensions. None: the plain form."""
        return None

    def packed_rows(self, lead: Sequence[Any], panel: Any, dtype: str) -> Any:
        """The number of rows of a product with packed weights to compute instead of lead[-1]. None: exactly lead[-1]."""
        return None

    def tiled_rows(self, rows: int, types: tuple[str, str, str], groups: Any, name: str) -> int | None:
        """The number of rows to compute if tile registers multiply these types, with `groups` groups in the innermost reduction
        axis. None: no tile registers for them. name: the name of the decision."""
        return None

    def image_columns(self, width: Any, vectors: int, padded: bool, name: str) -> Columns:
        """The columns to compute of a convolution on channel blocks, whose filters are `vectors` vectors."""
        return Columns(width, False)

    def depthwise_columns(self, width: Any, offsets: int, dilation: int, padded: bool, name: str) -> Columns:
        """The columns to compute of a depthwise convolution on channel blocks, by kernels of so many offsets."""
        return Columns(width, False)

    def paired_places(self, places: int, filters: int, name: str) -> int:
        """The number of adjacent places of a row whose sums of products of pairs are in registers. filters: the sums of a place."""
        return 1

    def paired_channels(self, places: int, name: str) -> int:
        """The same for sums of four channels, each on its own."""
        return 1

    def windows(self, w: Windows, name: str) -> Form | None:
        """The form of a convolution in plain layouts: rows, flat, panels or dots. None: the plain form."""
        return None

    def apart(self, w: Windows, name: str) -> bool:
        """Whether each group of a convolution pads its own data."""
        return False

    def in_vectors(self, stride: int) -> bool:
        """Whether elements at a stride are picked from whole vectors. Otherwise each phase of the stride is copied."""
        return False

    def pooled_apart(self, first: int, rest: int, behind: float, stride: int, bytes_between: int) -> bool:
        """Whether windows are pooled along one axis first, then along the others. first, rest: their elements along that axis, and along
        the others; behind: what is pooled in the second step, for each element of the result; stride: along the axis of vectors;
        bytes_between: what the first step writes."""
        return False

    def phase_vector(self, stride: int, out: Any, dtype: str) -> int:
        """The number of adjacent elements of each phase that are read as a vector and interleaved with those of other phases. 0:
        single elements."""
        return 0

    def one_row(self, last: int, elements: int, dtype: str) -> bool:
        """Whether a reduction along several last axes runs along one row of all their elements. last: those of the last axis."""
        return False

    def first_apart(self, steps: int, elements: int, dtype: str) -> bool:
        """Whether a reduction along two groups of axes does the first one apart: it adds up `steps` rows of `elements` elements. The last
        axis is kept."""
        return False

    def reduced(self, extent: int, dtype: str) -> int:
        """The elements of a row to reduce: as many as there are, or more, which are neutral, so that they fill whole vectors."""
        return extent

    def pooled_columns(self, count: int, dtype: str) -> int:
        """The columns of windows along the last axis to compute: as many as are wanted, or more, so that they fill whole vectors."""
        return count

    def order(self, n: int, number: int, lines: int, wide: bool) -> str:
        """The form in which each of `lines` lines (0 if that is not known) of n elements is put in order, of which the first `number` are
        wanted: inserted, radix, best, ranked, halved, side by side, bitonic or merged (topi/sort.py). wide: keys of 64 bits.
        If no machine is known: the one with the fewest steps."""
        return "best" if 0 < number * number <= n else "radix" if n > 1 else "inserted"

    def sorted_run(self, n: int, wide: bool) -> int:
        """The elements of a line of n that a block of threads sorts at once: a power of two. wide: keys of 64 bits."""
        return 1 << 10

    def attention(self, heads: int, queries: int, keys: int, depth: int, width: int, dtype: str) -> Blocks:
        """The blocks of attention. depth, width: elements of a query and of a value."""
        return Blocks((1, 1), (1, 1), queries, 1)


_current: ContextVar[Planner | None] = ContextVar("planner", default=None)
_tokens: dict[int, list[Token[Planner | None]]] = {}
_PLAIN = Planner()


def planner() -> Planner:
    """The current planner."""
    return _current.get() or _PLAIN
