"""Annotations by which computes mark the purpose of a stage, for schedules."""

from __future__ import annotations

MATERIALIZE = "tilewright.materialize"
"""A stage that is computed once into memory (a packed operand), not inlined into its readers."""

INTERLEAVED = "tilewright.interleaved"
"""Vectors of several places, whose elements the reader interleaves; the stride of the axis before the last."""

TILE_ROWS, TILE_COLUMNS = "tilewright.tile_rows", "tilewright.tile_columns"
"""The register tile for which the computed rows and columns were chosen: rows, and vectors of columns."""

LANE_SUMS = "tilewright.lane_sums"
"""Vectors run along the reduction; the following stages add up the lanes of each sum."""

IN_TILES = "tilewright.in_tiles"
"""Rows are computed in whole tiles, of which only existing rows are read, so tiles can be higher."""

OWN_DATA = "tilewright.own_data"
"""Each index of the axis that all operands share (the group) has data of its own."""

BLOCK_ROWS = "tilewright.block_rows"
"""The stage of weighted sums of attention; the number of queries that go through all of its stages together."""

WINOGRAD_TILE = "tilewright.winograd_tile"
"""The stage of products in Winograd's form; the side of its tiles of results."""
