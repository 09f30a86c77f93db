"""Lists of tensors: TensorList* of TensorFlow 2, and TensorArrayV3, with a flow that is such a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, is_any
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import Handle, NodeCall, Result, TensorList, tensor, tf_op
from tilewright.support.errors import OpNotImplemented

MOST_APART = 4096
"""The largest length of lists that keep their items as separate tensors."""


def list_like(like: TensorList, value: Value) -> TensorList:
    """A list with the same kind of items, all in one tensor."""
    return TensorList(like.dtype, like.shape, stacked=value)


def _item_zeros(c: Builder, x: TensorList) -> Value:
    shape = x.item_shape()
    if shape is None or any([isinstance(d, int) and d < 0 for d in shape]):
        raise OpNotImplemented(
            "it reads items of a list that were not written, and their shape is not known. Give element_shape"
        )
    return c.full(shape, 0, x.dtype)


def stacked(c: Builder, x: TensorList) -> Value:
    """All items along a new first axis; unwritten items are zeros."""
    if x.stacked is not None:
        return x.stacked
    if x.items is not None:
        if not x.items:
            shape = x.item_shape()
            if shape is None or any([isinstance(d, int) and d < 0 for d in shape]):
                raise OpNotImplemented("it is an empty list of items of unknown shape. Give element_shape")
            return c.full([0, *shape], 0, x.dtype)
        if any([i is None for i in x.items]):
            zeros = _item_zeros(c, x)
            return c.call("stack", [zeros if i is None else i for i in x.items], axis=0)
        if all([i is not None and i.is_number for i in x.items]):
            return Value(array=np.stack([i.array for i in x.items if i is not None and i.array is not None]))
        return c.call("stack", list(x.items), axis=0)
    zeros = _item_zeros(c, x)
    if isinstance(x.length, Value):
        return _rows_of(c, zeros, x.length)
    return c.full([x.length, *zeros.shape], 0, x.dtype)


def _rows_of(c: Builder, item: Value, count: Value) -> Value:
    """An item repeated by a number that an input of the program gives at run time."""
    rows = c.call("expand_dims", item, axis=0)
    return c.call("take", rows, c.call("multiply", c.iota(count), 0), axis=0)


def pushed_apart(c: Builder, x: TensorList) -> TensorList:
    """A list for the first round of a loop, with only its length and kind known."""
    if x.stacked is not None:
        return TensorList(x.dtype, x.shape, stacked=Value(x.stacked.expr))
    items = x.items or []
    if items and all([i is not None for i in items]):
        return TensorList(x.dtype, x.shape, stacked=stacked(c, x))
    return TensorList(x.dtype, x.item_shape(), length=x.length)


def empty_stack(c: Builder, x: TensorList, after: Any) -> TensorList:
    """A list before a loop, in the form that it has after a round."""
    if not isinstance(after, TensorList):
        raise OpNotImplemented("it replaces a list by a value that is not a list")
    shape = after.item_shape() or x.item_shape()
    if shape is None:
        raise OpNotImplemented("the shape of the list's items is not known before its loop")
    known = TensorList(x.dtype, shape, items=x.items, length=x.length)
    return list_like(x, stacked(c, known))


def reserved(dtype: str, shape: Any, length: Any) -> TensorList:
    """A list of unwritten items."""
    if isinstance(length, int) and length <= MOST_APART:
        return TensorList(dtype, shape, items=[None] * length)
    return TensorList(dtype, shape, length=length)


def read(c: Builder, x: TensorList, index: Value) -> Value:
    """The item at an index."""
    if x.items is not None and index.is_number and index.array is not None:
        place = int(index.array.reshape(-1)[0])
        if not 0 <= place < len(x.items):
            raise OpNotImplemented(f"it reads item {place} of a list of {len(x.items)}")
        item = x.items[place]
        return item if item is not None else _item_zeros(c, x)
    return c.call("take", stacked(c, x), c.reshape(index, []), axis=0)


def written(c: Builder, x: TensorList, index: Value, item: Value, grows: bool = False) -> TensorList:
    """A list with the item at an index replaced. With `grows` the index may be past the end."""
    if x.items is not None and index.is_number and index.array is not None:
        items, place = list(x.items), int(index.array.reshape(-1)[0])
        if not 0 <= place < MOST_APART:
            raise OpNotImplemented(f"it writes item {place} of a list of {len(items)}")
        items += [None] * (place + 1 - len(items))
        items[place] = item
        return TensorList(x.dtype, x.shape, items=items)
    base = stacked(c, TensorList(x.dtype, item.shape, items=x.items, stacked=x.stacked, length=x.length))
    if grows:
        base = _long_enough(c, base, index, item)
    at = c.reshape(c.cast(index, "int64"), [1, 1])
    rows = c.call("scatter_nd", base, at, c.call("expand_dims", item, axis=0), mode="update")
    return list_like(x, rows)


def _long_enough(c: Builder, rows: Value, index: Value, item: Value) -> Value:
    """Items extended by zeros, so that an index exists."""
    needed = c.call("add", c.reshape(c.cast(index, "int64"), []), 1)
    missing = c.call("maximum", c.call("subtract", needed, c.extent(rows, 0)), 0)
    return c.call("concatenate", [rows, _rows_of(c, c.call("zeros_like", item), missing)], axis=0)


def _list(x: Result) -> TensorList:
    if not isinstance(x, TensorList):
        raise OpNotImplemented("its input is not a list of tensors that the model makes")
    return x


def _element_shape(c: NodeCall, x: Value) -> list[Dim] | None:
    if not x.ndim:
        return None
    return c.ints(x, "element_shape") if c.is_known(x) else None


def _length(c: NodeCall, x: Value) -> Any:
    """The number of items: a number, an expression over sizes, or a computed tensor."""
    return c.ints(x, "number of items")[0] if c.is_known(x) else c.reshape(c.cast(x, "int64"), [])


@tf_op("TensorListReserve")
def _reserve(c: NodeCall, shape: Value, count: Value) -> TensorList:
    return reserved(c.attr("element_dtype", "float32"), _element_shape(c, shape), _length(c, count))


@tf_op("EmptyTensorList")
def _empty(c: NodeCall, shape: Value, most: Value) -> TensorList:
    return TensorList(c.attr("element_dtype", "float32"), _element_shape(c, shape), items=[])


@tf_op("TensorListFromTensor")
def _from_tensor(c: NodeCall, x: Value, shape: Value) -> TensorList:
    return unstacked(c, x)


def unstacked(c: Builder, x: Value) -> TensorList:
    """The slices of a tensor along its first axis."""
    if x.is_number and isinstance(x.shape[0], int) and x.array is not None:
        return TensorList(x.dtype, x.shape[1:], items=[Value(array=np.asarray(part)) for part in x.array])
    return TensorList(x.dtype, x.shape[1:], stacked=x)


@tf_op("TensorListSetItem")
def _set_item(c: NodeCall, x: Result, index: Value, item: Value) -> TensorList:
    return written(c, _list(x), index, tensor(item), c.attr("resize_if_index_out_of_bounds", False))


@tf_op("TensorListGetItem")
def _get_item(c: NodeCall, x: Result, index: Value, shape: Value) -> Value:
    return read(c, _list(x), index)


@tf_op("TensorListStack")
def _stack(c: NodeCall, x: Result, shape: Value) -> Value:
    found = _list(x)
    if found.item_shape() is None:
        found = TensorList(found.dtype, _element_shape(c, shape), found.items, found.stacked, found.length)
    return stacked(c, found)


@tf_op("TensorListLength")
def _list_length(c: NodeCall, x: Result) -> Value:
    from tilewright.relay.frontend.tensorflow.value import sizes_value

    found = _list(x)
    if found.stacked is not None and is_any(found.length):
        return c.cast(c.extent(found.stacked, 0), "int32")
    if isinstance(found.length, Value):
        return c.cast(found.length, "int32")
    return sizes_value(c, np.array(found.length, object), "int32")


@tf_op("TensorListPushBack")
def _push(c: NodeCall, x: Result, item: Value) -> TensorList:
    found = _list(x)
    if found.items is not None:
        return TensorList(found.dtype, found.shape, items=[*found.items, item])
    if found.stacked is None:
        found = TensorList(found.dtype, item.shape, length=found.length)
    rows = c.call("concatenate", [stacked(c, found), c.call("expand_dims", item, axis=0)], axis=0)
    return list_like(found, rows)


@tf_op("TensorListPopBack")
def _pop(c: NodeCall, x: Result, shape: Value) -> Sequence[Result]:
    found = _list(x)
    if found.items:
        last = found.items[-1]
        return [
            TensorList(found.dtype, found.shape, items=found.items[:-1]),
            last if last is not None else _item_zeros(c, found),
        ]
    rows = stacked(c, found)
    (length,) = c.static([rows.shape[0]], "the number of items in its list")
    return [list_like(found, c.cut(rows, 0, 0, length - 1)), c.at(rows, 0, length - 1)]


@tf_op("TensorListGather")
def _gather(c: NodeCall, x: Result, indices: Value, shape: Value) -> Value:
    return c.call("take", stacked(c, _list(x)), indices, axis=0)


@tf_op("TensorListScatter", "TensorListScatterV2", "TensorListScatterIntoExistingList")
def _scatter(c: NodeCall, *inputs: Any) -> TensorList:
    if c.op == "TensorListScatterIntoExistingList":
        x, rows, indices = inputs
        base = _list(x)
    else:
        rows, indices, shape = inputs[:3]
        places = c.known(indices, "indices")
        count = int(places.max()) + 1 if places.size else 0
        if len(inputs) > 3:
            count = max(count, int(c.ints(inputs[3], "number of items")[0]))
        base = TensorList(rows.dtype, rows.shape[1:], items=[None] * count)
    for k, place in enumerate(c.known(indices, "indices").reshape(-1)):
        base = written(c, base, Value(array=np.array(place, np.int64)), c.at(rows, 0, k))
    return base


@tf_op("TensorListConcat", "TensorListConcatV2")
def _concat(c: NodeCall, x: Result, *rest: object) -> list[Value]:
    found = _list(x)
    if found.items is not None and all([i is not None for i in found.items]):
        lengths = [i.shape[0] for i in found.items if i is not None]
        whole = c.concatenate([i for i in found.items if i is not None], 0)
    else:
        rows = stacked(c, found)
        count, each = c.static(rows.shape[:2], "the extents of its list")
        whole, lengths = c.reshape(rows, [-1, *rows.shape[2:]]), [each] * count
    return [whole, Value(array=np.array(c.static(lengths, "the lengths of its items"), np.int64))]


@tf_op("TensorListSplit")
def _list_split(c: NodeCall, x: Value, shape: Value, lengths: Value) -> TensorList:
    ends = np.cumsum(c.known(lengths, "lengths")).tolist()
    parts = [c.cut(x, 0, a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return TensorList(x.dtype, None, items=parts)


@tf_op("TensorListElementShape")
def _list_shape(c: NodeCall, x: Result) -> Value:
    shape = _list(x).item_shape()
    return Value(
        array=np.array(
            -1 if shape is None else c.static(shape, "the shape of its items"), c.attr("shape_type", "int32")
        )
    )


@tf_op("TensorListResize")
def _resize(c: NodeCall, x: Result, size: Value) -> TensorList:
    found, count = _list(x), c.ints(size, "size")[0]
    if found.items is None or not isinstance(count, int):
        raise OpNotImplemented("it changes the size of a list that is only known at run time")
    items = list(found.items)[:count]
    return TensorList(found.dtype, found.shape, items=items + [None] * (count - len(items)))


# ---- TensorArrayV3: the handle has the flag for growth, the flow is the list


@tf_op("TensorArrayV3")
def _tensor_array(c: NodeCall, size: Value) -> Sequence[Result]:
    dtype, shape = c.attr("dtype", "float32"), c.attr("element_shape")
    return [
        Handle("tensor array", c.name, c.attr("dynamic_size", False)),
        reserved(dtype, shape, _length(c, size)),
    ]


@tf_op("TensorArrayWriteV3")
def _array_write(c: NodeCall, handle: Any, index: Value, item: Value, flow: Any) -> TensorList:
    return written(c, _list(flow), index, tensor(item), handle.details)


@tf_op("TensorArrayReadV3")
def _array_read(c: NodeCall, handle: Result, index: Value, flow: Result) -> Value:
    return read(c, _list(flow), index)


@tf_op("TensorArrayGatherV3")
def _array_gather(c: NodeCall, handle: Result, indices: Value, flow: Result) -> Value:
    found = _list(flow)
    rows = stacked(c, found)
    if indices.is_number and indices.array is not None and isinstance(rows.shape[0], int):
        if np.array_equal(indices.array.reshape(-1), np.arange(rows.shape[0])):
            return rows
    elif not indices.is_number and found.items is None:
        # Operators that gather all items count them at run time.
        return rows
    return c.call("take", rows, indices, axis=0)


@tf_op("TensorArrayScatterV3")
def _array_scatter(c: NodeCall, handle: Result, indices: Value, rows: Value, flow: Result) -> TensorList:
    found = _list(flow)
    if indices.is_number and indices.array is not None and isinstance(rows.shape[0], int):
        if not np.array_equal(indices.array.reshape(-1), np.arange(rows.shape[0])):
            for k, place in enumerate(indices.array.reshape(-1)):
                found = written(c, found, Value(array=np.array(place, np.int64)), c.at(rows, 0, k))
            return found
    return unstacked(c, rows)


@tf_op("TensorArraySizeV3")
def _array_size(c: NodeCall, handle: Result, flow: Result) -> Value:
    return _list_length(c, flow)


@tf_op("TensorArrayConcatV3")
def _array_concat(c: NodeCall, handle: Result, flow: Result) -> list[Value]:
    return _concat(c, flow)


@tf_op("TensorArraySplitV3")
def _array_split(c: NodeCall, handle: Result, x: Value, lengths: Value, flow: Result) -> TensorList:
    return _list_split(c, x, lengths, lengths)
