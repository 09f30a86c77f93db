"""Descriptions of processor cores: the numbers that the cost model of schedules works with, as data in `cores/`, one file for each family.

A number is either a fact of the family (its optimisation guide) or was fitted to measurements; each file says which machine it was fitted
on. A family without measurements of its own has those of its nearest relative: its file names it (`relative`), and states only what
differs.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class Core(NamedTuple):
    """One core. Times are in cycles; `registers` are vectors, and a vector is as wide as `CpuFacts.vector_bits` says."""

    family: str
    registers: int
    """Vector registers."""
    multiply_adds: float
    """Multiply-adds of vectors that are issued in a cycle."""
    latency: float
    """From a multiply-add to the next one into the same accumulator."""
    loads: float
    """Loads of vectors or broadcast scalars in a cycle, from the first cache."""
    streamed: float
    """Time for a vector from the second cache."""
    issued: float
    """Instructions that are issued in a cycle, where they are more than what multiply-adds and loads take anyway; 0: they are not."""
    step: int
    """Instructions of each step of a reduction besides multiply-adds (of two each, where they are issued apart) and loads."""
    held_rows: int
    """Whether the broadcast scalars of a step take registers all at once (1), or one after the other (0)."""
    pointers: int
    """Addresses without a constant distance that fit into registers in the loop of a reduction."""
    spilled: float
    """Time for a multiply-add where sums do not fit into registers: each is loaded and stored."""
    tile_start: float
    """Time to start and end a register tile, in multiply-adds of each step of its reduction."""
    long_body: int
    """Multiply-adds in the body of a reduction's only loop, at most."""
    short_body: int
    """The same in the innermost of several loops."""
    window_tile: int
    """Multiply-adds of a tile of windows (depthwise convolutions, pooling), whose kernel offsets are unrolled, at most."""
    window_body: int
    """The same in the body of a loop."""
    padded_share: float
    """Share of the cycles without padded work that those with it may take, at most; also those of rows counted along all leading axes."""
    unpadded: float
    """Largest ratio of cycles at which tiles of a group's filters without padded work, which are simpler to write, are taken."""
    narrow_tile: float
    """Factor for a narrower last tile, which is additional code."""
    dynamic_rows: int
    """Height of tiles over a dynamic number of rows: high enough to keep the multipliers busy, low enough for little padded work in the
    last tile. Tiles of twice the height are used where they compute hardly more rows."""
    dynamic_vectors: int
    """Vectors in a panel of columns whose number is dynamic."""
    interleaved_vectors: int
    """Vectors of a result that are interleaved at once."""
    masked_after: int
    """Vectors of a row from which on its last one may be masked."""
    grouped_rows: int
    """Rows of a first matrix of floats from which on it pays to pack the second in groups."""
    tile_filled: float
    """Part of a tile register's rows or groups from which on no others are computed to fill it."""
    tile_groups: int
    """Groups in a step of the reduction below which tile registers are too empty to pay."""
    attention_rows: int
    """Queries and keys of a head from which on they are read often enough to be packed for it."""
    unrolled_offsets: int
    """Kernel offsets up to which windows are unrolled."""
    unrolled_lanes: int
    """Lanes of a sum up to which they are folded without a loop, at the end of a reduction."""
    unrolled_steps: int
    """Steps of a reduction in vectors up to which they are unrolled."""
    copied: float
    """Time for an element that is copied by vectors."""
    gathered: float
    """The same where neighbours of the copy are not neighbours in memory."""
    folded: float
    """Time to add up the lanes of one sum."""
    far: float
    """Factor for a matrix that is read where it lies although its rows are on pages far apart."""
    far_bytes: int
    """Bytes of such a matrix, at least."""
    far_row: int
    """Bytes of its rows, at least."""
    far_reads: int
    """Rows of the other matrix from which on it pays to copy it, so that tiles read it in one stream."""
    misplaced: int
    """Bytes of an image from which on it pays to copy it if vectors of it cross cache lines."""
    large: int
    """Bytes of an image from which on it pays to copy it in any case."""
    band: int
    """Bytes of a band of rows of a padded image that stays in the first cache."""
    line: int
    """Bytes of a cache line."""
    first_missed: float
    """Time for a cache line of broadcast scalars that the first cache does not hold."""
    second_missed: float
    """The same where the second does not."""
    memory_latency: float
    """Time until a cache line comes from memory."""
    direct: float
    """Share of the peak rate that direct convolutions reach."""
    products: float
    """Share of the peak rate that products of transformed tiles reach."""
    transformed: float
    """Time for a vector that is transformed in Winograd's form."""
    from_memory: float
    """Bytes that a core reads from memory in a cycle."""
    from_last_cache: float
    """Bytes that it reads from the last-level cache in a cycle."""
    halo_bits: int
    """Bits of elements up to which producers write the halo: products of narrow ones take a half to a quarter of the time, so that copies
    count: 0.5 to 2.9 % of models in bfloat16 and bytes. In float32 they are nothing that one could measure, and ResNet-50 took 1.4 to
    2.2 % longer."""
    image_copied: float
    """Time for an element of an image that is copied by vectors into its padding."""
    image_panels: float
    """The same into panels."""
    image_phases: float
    """The same from the steps of a stride."""
    image_narrow: float
    """The same in rows of less than a vector."""
    image_scattered: float
    """The same one by one."""
    image_ends: float
    """Factor for vectors along small images, which are mostly ends of rows."""
    phases: float
    """Factor for a transposed convolution as one for each phase of its stride."""
    added: float
    """Time to add an element of a window to its neighbours' sum in a row, or to interleave one of a phase."""
    added_apart: float
    """The same where elements of the row are a stride apart."""
    added_row: float
    """Time to start such a row."""
    added_offset: float
    """Time to find the window at a kernel offset from an element of the result."""
    added_vector: float
    """Time to add a vector of channels of this window."""
    windows_missed: float
    """Time for a cache line of windows that the second cache does not hold, to write and to read it."""
    picked: float
    """Factor for bytes that a convolution picks at a stride from whole vectors, ..."""
    picked_copy: float
    """... or from a padded copy."""
    relaid_sum: float
    """Time for a sum of bytes that is brought from a block of filters to its place, in multiply-adds of vectors of int32."""
    small_image: int
    """Places of a result below which an image is small."""
    own_groups: int
    """Groups of a convolution from which on each one's padded data is computed where it is read."""
    near: int
    """Largest stride at which lanes are taken from whole vectors."""
    filled_block: float
    """Share of whole blocks that must be channels: below it, rows of pixels as vectors keep more lanes busy."""
    filled_lone_block: float
    """The same for a convolution that stands alone, where both forms are compared."""
    pooled_apart: float
    """The share of the cycles up to which it is worth to pool along one axis first, and then along the others."""
    winograd: float
    """Time of Winograd's form, where it is taken, as a share of the direct form's."""
    winograd_share: float
    """Share of the direct form's cycles that Winograd's may take, at most: it needs workspaces, and rounds more."""
    winograd_alike: float
    """Largest ratio of cycles at which groupings of tiles count as equally fast."""
    winograd_images: int
    """Images in a group of tiles, at most, if their number is dynamic."""
    start: float
    """Time until all threads have started a parallel loop."""
    pieces: int
    """Iterations of a parallel loop for each thread: with several, a late thread delays the others little."""
    shared_elements: int
    """Elements of an element-wise kernel from which on two threads are faster than one."""
    looped_elements: int
    """Elements of a program whose loops are not scheduled (sorting, scattering, sums in order) from which on threads are worth their
    start."""
    copied_window: int
    """Elements of a window along a dynamic line from which on copies of windows, whose products are then tiled, are worth their time."""
    copied_filters: int
    """Filters from which on they are."""
    summed_in_pairs: int
    """Vectors of a row from which on their number is made even, so that two sums are independent."""
    summed_in_fours: int
    """The same for four sums."""
    inserted_line: int
    """Elements of a line up to which it is sorted by insertion, and not by its digits."""
    ranked_elements: int
    """Elements that are put in order by counting, for each, those that come before it, at most."""
    ranked_line: int
    """Elements of a line up to which all of them are; of longer ones, those that are wanted."""
    best_elements: int
    """First elements of a line that are kept in order while it is read once, at most."""
    halved: float
    """Time to find the last element that is wanted, by halving the range of the keys some twenty times."""
    halved_element: float
    """The same for each element of the line."""
    ranked_pair: float
    """Time to compare two keys, in vectors."""
    placed: float
    """Time to write an element to its place."""
    passed: float
    """Time to look at an element, or to move it by one."""
    mispredicted: float
    """Time of a branch that was not foreseen."""
    exchanged: float
    """Time to compare the keys of two vectors, and to exchange them and their places lane by lane."""
    lane_read: float
    """Time to read an element of a line for its lane, and to make its key."""
    lane_written: float
    """Time to write an element of a lane, and its place."""
    adds_of_element: int
    """Multiply-adds that take as long as one of these elements: products of 32,000 to 65,000 multiply-adds took 1.8 to 1.1 times as long in
    two threads as in one, those of 131,000 0.9 times (16 lanes of float32)."""
    joined_product: int
    """Multiply-adds of a product up to which it counts that threads start for it: joined with others, it needs no start of its own.
    Measured with 1 to 512 rows, 16 to 3072 columns, two and three branches: below, two threads take up to 17 % less for all that an
    attention does, and one as long as before; above, be it arithmetic or the reading of weights that bounds the product, joining changes
    nothing."""
    joined_convolution: int
    """The same of a convolution. Measured with kernels of 1x1 and 3x3, 7x7 to 112x112 pixels, 32 to 1024 channels read and 8 to 192
    written, two and three branches: small convolutions take 0.87 to 0.97 of the time joined, on two threads; others, whose tiles are wide
    and long by themselves, 0.97 to 1.09."""
    relaid: float
    """Time for an element that is brought from one layout to another."""
    relaid_parts: float
    """The same where blocks of channels are not full."""
    relaid_lines: float
    """Factor for images of one line, which is long."""
    relayout: float
    """Time for the kernel that does it, beside its elements."""

    @property
    def in_flight(self) -> int:
        """Sums that are enough to keep the multipliers busy while each waits for its last multiply-add."""
        return int(self.multiply_adds * self.latency)


def numbers_of(family: str) -> dict[str, Any]:
    """What the file of a family states; `relative` names another family."""
    text = (files("tilewright.target") / "cores" / f"{family}.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for name, value in tomllib.loads(text).items():
        found.update(value if isinstance(value, dict) else {name: value})
    return found


@lru_cache(maxsize=32)
def core(family: str, registers: int) -> Core:
    """The description of a family, with so many vector registers. Raises KeyError for a file that lacks a number or has one too many."""
    numbers = numbers_of(family)
    while relative := numbers.pop("relative", None):
        numbers = {**numbers_of(relative), **numbers}
    wanted = set(Core._fields) - {"family", "registers"}
    if numbers.keys() != wanted:
        raise KeyError(f"cores/{family}.toml: {sorted(numbers.keys() ^ wanted)}")
    return Core(family=family, registers=registers, **numbers)


__all__ = ["Core", "core", "numbers_of"]
