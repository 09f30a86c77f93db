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

WINOGRAD_TILE = "tilewright.winograd_tile"
"""Marks the products in Winograd's form. Value: the side of a tile of results."""

STRASSEN, MATRIX, CHANNEL_BLOCKS = "tilewright.strassen", "matrix", "channel blocks"
"""Marks the products of Strassen's algorithm. Value: how the result is stored."""
