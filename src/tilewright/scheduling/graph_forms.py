"""What passes ask about operators before there are kernels, and the plain answers: operators stay as they are.

Each family of rules answers for its devices (`cpu/graph_forms.py`, `gpu/graph_forms.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from tilewright.scheduling.batches import BatchSplit, Traffic
from tilewright.scheduling.convolutions import GroupedBytes
from tilewright.scheduling.decisions import Decisions
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.product_places import Place, Step
from tilewright.scheduling.transposed import Transposed
from tilewright.scheduling.winograd import WinogradPlan
from tilewright.topi.problems import Windows


class AttentionProblem(NamedTuple):
    """An attention: heads of queries, queries and keys of each, elements of a query and of a value, the type of these. plain: each head has
    keys of its own, all of which its queries see."""

    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    dtype: str
    plain: bool


class GraphForms:
    """The plain form of every operator. plan: takes the decisions."""

    def __init__(self, plan: Decisions) -> None:
        self.plan = plan

    def block(self, problem: str, model: int, widest: int, divides: int | None = None) -> int:
        """Channels in a block of a convolution's result: whole vectors or halves of them. divides: what a block has to divide."""
        return model

    def tile_block(self, problem: str, fits: Sequence[int]) -> int:
        """Channels in a block of the result of a convolution by tile registers. fits: what may be, the model's first."""
        return fits[0]

    def filled_filters(self, problem: str, p: GroupedBytes, found: Sequence[DotProduct]) -> int:
        """Filters of each group of a convolution of bytes, of which some are padded, so that one of the instructions computes them; 0: the
        plain form."""
        return 0

    def transposed_form(self, problem: str, t: Transposed) -> str:
        """phases, planes or rows: see `scheduling/transposed.py`."""
        return "phases"

    def in_blocks(self, problem: str, w: Windows | None, block_in: int, block_out: int, have: bool) -> bool:
        """Whether a convolution runs on channel blocks. w: what is priced in both forms; None: blocks it is. have: whether its data
        comes in blocks."""
        return False

    def channels_last(self, factors: str, sums: str) -> bool:
        """Whether convolutions of images, with factors and sums of these types, have their channels last."""
        return False

    def winograd(self, channels: int, filters: int, pixels: tuple[int, int, int]) -> WinogradPlan | None:
        """Winograd's form of a 3 x 3 convolution whose result has the (images, rows, columns) `pixels`; None: direct."""
        return None

    def panel(self, rows: int | None, inner: int, columns: int, bytes_of_element: int, along: bool) -> int:
        """Columns in a panel of packed weights; 0: none, but weights along the reduction, which `along` allows."""
        return 0

    def by_strassen(self, rows: int, inner: int, columns: int) -> int:
        """Columns in a panel of weights for a product of float32 by Strassen's algorithm; 0: the plain product."""
        return 0

    def copies_windows(self, window: int, filters: int) -> bool:
        """Whether a convolution of one channel along a dynamic line is a product of copied windows. window: elements of one."""
        return False

    def together(self, lead: Sequence[int], columns: int, lanes: int, constant: bool) -> bool:
        """Whether rows are counted along all leading axes of a product: where they then fill register tiles better, or no worse if the
        second matrix is not `constant`."""
        return False

    def attention_in_blocks(self, p: AttentionProblem) -> bool:
        """Whether attention is computed in blocks of queries, whose scores stay in a cache or in registers."""
        return False

    def joins_product(self, rows: int, inner: int, columns: int, bits: int) -> bool:
        """Whether a product by constant weights is joined with others of the same data: where starting threads for it counts."""
        return False

    def joins_convolutions(self, problem: str, filters: Sequence[int], work: Sequence[int]) -> bool:
        """Whether convolutions of the same data become one. problem: the first one; filters, work: of each, in multiply-adds."""
        return False

    def product_place(
        self, channels: int, filters: int, size: int, steps: Sequence[Step], choices: Sequence[Place], summed: bool
    ) -> Place:
        """Where a product over channels is computed, of the places `choices` among the operators before it. size: elements of each channel
        in its result; summed: whether its result is added to others at any place but the first."""
        return choices[0]

    def batch_split(
        self, inputs: Sequence[Sequence[int]], layers: Sequence[Traffic], ends: Collection[int]
    ) -> BatchSplit | None:
        """How many images of a batch go through how many first layers at a time; None: all of them. inputs: the shapes of what holds
        the images; ends: numbers of layers after which one value goes on."""
        return None

    def halo_by_producer(self, problem: str, bits: int) -> bool:
        """Whether the producer of a convolution's data writes it with its halo around it."""
        return False


def times(extents: Iterable[Any]) -> str:
    """Extents as names of problems have them; "?" for dynamic ones."""
    return "x".join([str(d) if isinstance(d, int) else "?" for d in extents])


__all__ = ["AttentionProblem", "GraphForms", "times"]
