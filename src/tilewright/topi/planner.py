"""What computes ask about the form in which they are to be written.

A compute knows no machine. Where a form depends on one (vectors along which axis, how many rows to compute so that register tiles are
whole), it asks the planner in force:

    with KernelPlan(target):                # tilewright.scheduling: the cost model, a tuner or a database answers
        topi.nn.batch_matmul(a, b)

Where none is in force, `Planner` itself answers: everything is written plainly.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, Self

from tilewright.topi.problems import Matrices, Windows


class Tiling(NamedTuple):
    """Whole register tiles over rows and vectors of columns: the tile, the numbers of rows and vectors to compute, the cycles of one
    step of the reduction."""

    tile_rows: int
    tile_columns: int
    rows: int
    columns: int
    cycles: float


class Form(NamedTuple):
    """A form of a product or a convolution (its name in `topi.nn.product`, `topi.nn.plain_conv`), the elements of a vector, the tiles."""

    kind: str
    lanes: int
    tiles: Tiling


class GroupedForm(NamedTuple):
    """A product of narrow numbers by instructions that add up `group` products on `lanes` sums at once: steps along the reduction, rows
    and panels of columns to compute, the tile (None: the schedule's own), and whether rows of the first operand are filled up by zeros."""

    group: int
    lanes: int
    steps: int
    rows: int
    panels: int
    tiles: Tiling | None
    filled: bool


class Blocks(NamedTuple):
    """Attention in blocks: register tiles (rows, vectors of columns) of scores and of results, the queries that go through all stages
    together, and the elements of a vector."""

    scores: tuple[int, int]
    results: tuple[int, int]
    rows: int
    lanes: int


class Columns(NamedTuple):
    """Columns of an image to compute: how many, and whether what is computed beyond those that are wanted reads padding (else the last
    column again)."""

    count: Any
    from_padding: bool


class Planner:
    """Answers for no machine in particular."""

    def __enter__(self) -> Self:
        _tokens.setdefault(id(self), []).append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(_tokens[id(self)].pop())
        if not _tokens[id(self)]:
            del _tokens[id(self)]

    def lanes(self, dtype: str) -> int:
        """Elements of a vector; 0 where no machine is known."""
        return 0

    def product(self, p: Matrices, name: str) -> Form | None:
        """The form of a product of matrices of known sizes: columns, panels or dots; None: plain."""
        return None

    def grouped(self, p: Matrices, types: tuple[str, str], name: str) -> GroupedForm | None:
        """The form of a product of narrow numbers; None: not in groups."""
        return None

    def dynamic_product(self, m: Any, n: Any, dtype: str) -> tuple[Any, int] | None:
        """(rows to compute, width of panels) of a product with dynamic dimensions; None: plain."""
        return None

    def packed_rows(self, lead: Sequence[Any], panel: Any, dtype: str) -> Any:
        """How many rows of a product by packed weights to compute instead of lead[-1]; None: just those."""
        return None

    def tiled_rows(self, rows: int, types: tuple[str, str, str], groups: Any) -> int | None:
        """How many rows to compute where registers of tiles take a product of these types with so many groups in the innermost reduction
        axis; None where they do not."""
        return None

    def image_columns(self, width: Any, vectors: int, padded: bool, name: str) -> Columns:
        """The columns to compute of a convolution on channel blocks, of which `vectors` make the filters."""
        return Columns(width, False)

    def windows(self, w: Windows, name: str) -> Form | None:
        """The form of a convolution in plain layouts: rows, flat, panels or dots; None: plain."""
        return None

    def apart(self, w: Windows) -> bool:
        """Whether each group of a convolution pads its own data."""
        return False

    def phase_vector(self, stride: int, out: Any, dtype: str) -> int:
        """Neighbouring places of each phase that are read as a vector and interleaved with the others'; 0: one by one."""
        return 0

    def attention(self, heads: int, queries: int, keys: int, width: int, dtype: str) -> Blocks:
        """The blocks of attention."""
        return Blocks((1, 1), (1, 1), queries, 1)


_current: ContextVar[Planner | None] = ContextVar("planner", default=None)
_tokens: dict[int, list[Token[Planner | None]]] = {}
_PLAIN = Planner()


def planner() -> Planner:
    """The planner in force."""
    return _current.get() or _PLAIN
