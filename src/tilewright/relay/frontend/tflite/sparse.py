"""Sparse tensors: conversion to dense form from a traversal order, a block map and a format for each dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.flatbuffer import Record

SPARSE_CSR = 1


def dense_array(sparsity: Record, shape: tuple[int, ...], values: np.ndarray[Any, Any]) -> np.ndarray:
    """The dense tensor. Raises IndexError or ValueError for inconsistent descriptions.

    Dimensions are in traversal order: those of the tensor, then those of the blocks that `block_map` divides some of them into.
    """
    order = [int(d) for d in sparsity.traversal_order]
    blocks = [int(d) for d in sparsity.block_map]
    levels = list(sparsity.dim_metadata)
    rank = len(shape)
    if len(levels) != len(order) or sorted(order) != list(range(rank + len(blocks))):
        raise ValueError(f"its traversal order {order} does not fit its {rank} axes and {len(blocks)} blocks")
    places, extents = np.zeros((1, 0), np.int64), []
    spans = np.zeros(1, np.int64)  # the index of each partial position among those of its level
    for level in levels:
        if level.format != SPARSE_CSR:
            size = int(level.dense_size)
            if size < 0 or len(spans) * max(size, 1) > 1 << 28:
                raise ValueError(f"a dimension claims {size} elements")
            inner = np.tile(np.arange(size, dtype=np.int64), len(spans))
            spans = np.repeat(spans, size) * size + inner
            places = np.concatenate([np.repeat(places, size, 0), inner[:, None]], 1)
            extents.append(size)
            continue
        if level.array_segments is None or level.array_indices is None:
            raise ValueError("a sparse dimension has no segments or indices")
        segments = level.array_segments.values.astype(np.int64)
        indices = level.array_indices.values.astype(np.int64)
        begin, end = segments[spans], segments[spans + 1]
        if (begin > end).any() or (begin < 0).any() or (end > len(indices)).any():
            raise ValueError("the segments of a sparse dimension do not ascend")
        counts = end - begin
        if counts.sum() > len(indices):
            raise ValueError("the segments of a sparse dimension overlap")
        spans = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        places = np.concatenate([np.repeat(places, counts, 0), indices[spans][:, None]], 1)
        extents.append(int(indices.max(initial=-1)) + 1)
    if len(spans) > len(values) or (len(spans) and spans.max() >= len(values)):
        raise ValueError(f"it has {len(values)} values for {len(spans)} places")
    full = np.zeros((len(spans), rank), np.int64)
    for column, axis in enumerate(order):
        if axis < rank:
            size = 1
            if axis in blocks:
                size = extents[order.index(rank + blocks.index(axis))]
            full[:, axis] += places[:, column] * size
        else:
            full[:, blocks[axis - rank]] += places[:, column]
    if len(full) and ((full < 0).any() or (full >= np.array(shape)).any()):
        raise ValueError(f"it has elements outside its shape {shape}")
    dense = np.zeros(shape, values.dtype)
    dense[tuple(full.T)] = values[spans]
    return dense
