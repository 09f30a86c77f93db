"""Annotations by which computes mark the purpose of a stage, for schedules."""

from __future__ import annotations

MATERIALIZE = "tilewright.materialize"
"""Marks a stage that is computed into memory once (a packed operand), and not inlined into its readers."""

INTERLEAVED = "tilewright.interleaved"
"""Marks vectors of several places, whose elements the reader interleaves. Value: the stride of the axis before the last."""

TILE_ROWS, TILE_COLUMNS = "tilewright.tile_rows", "tilewright.tile_columns"
"""The register tile, in rows and in vectors of columns, for which the computed rows and columns were chosen."""

LANE_SUMS = "tilewright.lane_sums"
"""Marks a stage whose vectors run along the reduction. Later stages add up the lanes of each sum."""

IN_TILES = "tilewright.in_tiles"
"""Marks a stage that is computed in whole tiles but reads only existing rows, so tiles can be higher."""

OWN_DATA = "tilewright.own_data"
"""Marks a stage in which each index of the axis that all operands share (the group) has its own data."""

BLOCK_ROWS = "tilewright.block_rows"
"""Marks the weighted sums of attention. Value: the number of queries in a block, for which all stages run together."""

CAUSAL = "tilewright.causal"
"""Marks scores of attention, of which those of row i are -inf from some key on. Value: the number of keys before those, less i."""

WINOGRAD_TILE = "tilewright.winograd_tile"
"""Marks the products in Winograd's form. Value: the side of a tile of results."""

STRASSEN, MATRIX, CHANNEL_BLOCKS = "tilewright.strassen", "matrix", "channel blocks"
"""Marks the products of Strassen's algorithm. Value: how the result is stored."""

LINES = "tilewright.lines"
"""Marks the sums of a convolution of images that are computed in bands of lines, in order, from data that is copied before them, of all
channels at once or of some after others. Value: the stride of lines, the lines of padding above, the most lines in a band. A schedule may
choose bands of any number of lines up to that which divides the number of all."""

PAIRED = "tilewright.paired"
"""Marks sums of products of pairs of 16-bit numbers. Value: the number of adjacent places whose sums are in registers."""

WIDENED_APART = "tilewright.widened_apart"
"""Marks sums of products of pairs whose data is widened anew for each tile of filters, in registers, and not once for all in memory."""

BYTE_DOTS = "tilewright.byte_dots"
"""Marks sums of products of vectors of bytes, which an instruction adds up. Value: the number of adjacent places whose sums are in
registers."""

PAIRED_CHANNELS = "tilewright.paired_channels"
"""Marks sums of each channel on its own, four channels from two registers. Value: the number of adjacent places whose sums are in
registers."""
