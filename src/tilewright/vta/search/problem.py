"""What is tiled, and how: a convolution or a dense layer in elements of the accelerator, and the tiles that its loops are cut into."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.vta.configuration import Configuration


def groups_of(out_blocks: int, per_group: int) -> int:
    """The most groups of `per_group` output blocks (0: there is one group) that so many blocks are of, from a multiple of so many on."""
    if per_group == 0 or per_group % out_blocks == 0:
        return 1
    return out_blocks // per_group if out_blocks % per_group == 0 else out_blocks // per_group + 2


class Problem(NamedTuple):
    """A convolution: blocks of batch, of output channels and of input channels; rows and columns of the result; kernel and strides; rows
    and columns of the data, and of padding before them. pool, pool_strides: a pool that follows on the chip, whose results are the rows
    and columns; (1, 1): none. sampled: only each stride-th row and column is copied to the chip. dense: a dense
    layer, whose rows are blocks of batch, and lie behind each other with all their input blocks. per_group: output blocks of a group, each
    of which has in_blocks of its own; 0: there is one group.

    passes: for each instruction of the ALU behind the product, cycles of a result, 1 with a constant and 2 with an array. copied: for each
    array that these read, whether it has an element for each sum (not with a pool), or one for each output block. extra: accumulators
    beside each sum that hold results in between."""

    batch: int
    out_blocks: int
    in_blocks: int
    rows: int
    columns: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    size: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    sampled: bool = False
    dense: bool = False
    passes: tuple[int, ...] = (1, 1)
    copied: tuple[bool, ...] = ()
    extra: int = 0
    per_group: int = 0
    pool: tuple[int, int] = (1, 1)
    pool_strides: tuple[int, int] = (1, 1)

    def sums(self, rows: int, columns: int) -> tuple[int, int]:
        """The rows and columns of sums that so many rows and columns of results are made of."""
        (y, x), (sy, sx) = self.pool, self.pool_strides
        return (rows - 1) * sy + y, (columns - 1) * sx + x

    @property
    def pooled(self) -> bool:
        return self.pool != (1, 1)

    @property
    def pool_passes(self) -> tuple[int, ...]:
        """For each instruction of a pool, cycles of a result: the smallest number, in three, and the larger one of each place."""
        return (1, 1, 1, *(2,) * (self.pool[0] * self.pool[1])) if self.pooled else ()

    @property
    def offsets(self) -> int:
        """Steps of a product for one result and one input block."""
        return self.kernel[0] * self.kernel[1]

    @property
    def steps(self) -> int:
        """Steps of the array in the whole problem."""
        rows, columns = self.sums(self.rows, self.columns)
        return self.batch * self.out_blocks * self.in_blocks * rows * columns * self.offsets

    def groups(self, out_blocks: int) -> int:
        """The most groups that so many output blocks are of, from a multiple of so many on."""
        return groups_of(out_blocks, self.per_group)

    @property
    def on_chip(self) -> tuple[int, int]:
        """The strides between results, in elements of inp on the chip."""
        return (1, 1) if self.sampled else self.strides


def square(
    size: int,
    in_blocks: int,
    out_blocks: int,
    kernel: int,
    stride: int,
    passes: tuple[int, ...] = (1, 1),
    copied: tuple[bool, ...] = (),
) -> Problem:
    """A square convolution with even padding. Of one of 1 x 1 with a stride, only what it reads is copied."""
    pad = kernel // 2
    result = (size + 2 * pad - kernel) // stride + 1
    return Problem(
        1, out_blocks, in_blocks, result, result, (kernel,) * 2, (stride,) * 2, (size,) * 2, (pad, pad), kernel == 1 and stride > 1,
        passes=passes, copied=copied,
    )  # fmt: skip


class Tiling(NamedTuple):
    """Rows, columns, output blocks and input blocks of a tile; virtual threads over output blocks, and over rows. spatial_outer: whether
    tiles of rows and columns are the outer loops and those of output blocks the inner one, or the other way round."""

    rows: int
    columns: int
    out_blocks: int
    in_blocks: int
    out_threads: int = 1
    row_threads: int = 1
    spatial_outer: bool = False

    @property
    def threads(self) -> int:
        return self.out_threads * self.row_threads

    def window(self, p: Problem) -> tuple[int, int]:
        """Rows and columns of inp that a tile reads."""
        (sy, sx), (rows, columns) = p.on_chip, p.sums(self.rows, self.columns)
        return (rows - 1) * sy + p.kernel[0], (columns - 1) * sx + p.kernel[1]

    def accumulators(self, p: Problem) -> int:
        """Sums of a tile, of one thread."""
        rows, columns = p.sums(self.rows, self.columns)
        return self.out_blocks * rows * columns

    def results(self) -> int:
        """Results of a tile, of one thread."""
        return self.out_blocks * self.rows * self.columns

    def uses(self, p: Problem) -> dict[str, int]:
        """Elements of each memory."""
        height, width = self.window(p)
        sums = self.accumulators(p)
        beside = (
            sum([sums if whole else self.out_blocks for whole in p.copied]) + p.extra * sums + p.pooled * self.results()
        )
        return {
            "inp": self.threads * p.groups(self.out_blocks) * self.in_blocks * height * width,
            "wgt": self.threads * self.out_blocks * self.in_blocks * p.offsets,
            "acc": self.threads * (sums + beside),
        }

    def fits(self, p: Problem, config: Configuration) -> bool:
        return all([n <= config.depth(m) for m, n in self.uses(p).items()])


__all__ = ["Problem", "Tiling", "groups_of", "square"]
