"""Converters of matrix products and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, broadcast_shapes, known_equal
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import is_float
from tilewright.relay.frontend.pytorch.value import TorchCall, aten
from tilewright.support.errors import OpNotImplemented


@aten("linear")
def linear(c: TorchCall, x: Value, weight: Value, bias: Value | None = None) -> Value:
    if weight.ndim == 1:
        out = c.call("sum", c.call("multiply", x, weight), axis=(x.ndim - 1,))
    elif x.ndim == 1:
        out = c.reshape(c.call("nn.dense", c.reshape(x, [1, *x.shape]), weight), weight.shape[:1])
    else:
        out = c.call("nn.dense", x, weight)
    return out if bias is None else c.call("add", out, bias)


@aten("matmul", "mm", "bmm", "mv", "dot", "vdot", "linalg_matmul")
def matmul(c: TorchCall, a: Value, b: Value) -> Value:
    if not is_float(a.dtype):
        return _whole_product(c, a, b)
    if a.ndim == 1 and b.ndim == 1:
        return c.call("sum", c.call("multiply", a, b), axis=(0,))
    x = c.call("expand_dims", a, axis=0) if a.ndim == 1 else a
    y = c.call("expand_dims", b, axis=1) if b.ndim == 1 else b
    # A matrix on the right is a layer's weight: all leading axes of the left factor become rows of one product.
    out = c.call("nn.matmul", x, y) if y.ndim == 2 else batches(c, x, y)
    gone = ([-2] if a.ndim == 1 else []) + ([-1] if b.ndim == 1 else [])
    return c.call("squeeze", out, axis=tuple([g % out.ndim for g in gone])) if gone else out


def batches(c: TorchCall, x: Value, y: Value, transpose_b: bool = False) -> Value:
    """Products of batches of matrices. All axes before the last two are merged to one batch axis."""
    if x.ndim < y.ndim:
        x = c.reshape(x, [1] * (y.ndim - x.ndim) + x.shape)
    if y.ndim < x.ndim:
        y = c.reshape(y, [1] * (x.ndim - y.ndim) + y.shape)
    return c.call("nn.batch_matmul", x, y, transpose_b=transpose_b)


def _whole_product(c: TorchCall, a: Value, b: Value) -> Value:
    """A product of integers, as element-wise products and a sum."""
    if b.ndim == 1:
        return c.call("sum", c.call("multiply", a, b), axis=(a.ndim - 1,))
    wide = c.call("multiply", c.call("expand_dims", a, axis=a.ndim), c.call("expand_dims", b, axis=b.ndim - 2))
    return c.call("sum", wide, axis=(wide.ndim - 2,))


def _scaled(c: TorchCall, bias: Value, product: Value, beta: Operand, alpha: Operand) -> Value:
    if alpha != 1:
        product = c.call("multiply", product, alpha)
    if beta == 0:
        return product
    return c.call("add", product, c.call("multiply", bias, beta) if beta != 1 else bias)


@aten("addmm", "addmv", "baddbmm")
def _addmm(c: TorchCall, bias: Value, a: Value, b: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    return _scaled(c, bias, matmul(c, a, b), beta, alpha)


@aten("addbmm")
def _addbmm(c: TorchCall, bias: Value, a: Value, b: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    return _scaled(c, bias, c.call("sum", matmul(c, a, b), axis=(0,)), beta, alpha)


@aten("outer", "ger")
def _outer(c: TorchCall, a: Value, b: Value) -> Value:
    x, y = c.promote(a, b)
    return c.call("multiply", c.call("expand_dims", x, axis=1), c.call("expand_dims", y, axis=0))


@aten("addr")
def _addr(c: TorchCall, bias: Value, a: Value, b: Value, beta: Operand = 1, alpha: Operand = 1) -> Value:
    return _scaled(c, bias, _outer(c, a, b), beta, alpha)


@aten("cross", "linalg_cross")
def _cross(c: TorchCall, a: Value, b: Value, dim: int | None = None) -> Value:
    rank = max(a.ndim, b.ndim)
    axis = c.axis(-1 if dim is None and "linalg" in c.target else dim or 0, rank)
    if dim is None and "linalg" not in c.target:
        axis = next(k for k, d in enumerate(a.shape) if isinstance(d, int) and d == 3)

    def turned(x: Value, by: int) -> Value:
        return c.call("take", x, Value(array=np.array([(k + by) % 3 for k in range(3)])), axis=axis)

    first, second = c.call("multiply", turned(a, 1), turned(b, 2)), c.call("multiply", turned(a, 2), turned(b, 1))
    return c.call("subtract", first, second)


@aten("kron")
def _kron(c: TorchCall, a: Value, b: Value) -> Value:
    rank = max(a.ndim, b.ndim)
    x, y = c.promote(a, b)
    p, q = [1] * (rank - x.ndim) + x.shape, [1] * (rank - y.ndim) + y.shape
    wide = c.call(
        "multiply", c.reshape(x, [v for d in p for v in (d, 1)]), c.reshape(y, [v for d in q for v in (1, d)])
    )
    return c.reshape(wide, [m * n for m, n in zip(p, q, strict=True)])


@aten("inner", "tensordot")
def _tensordot(c: TorchCall, a: Value, b: Value, left: Sequence[int] = (-1,), right: Sequence[int] = (-1,)) -> Value:
    if not a.ndim or not b.ndim:
        return c.call("multiply", a, b)
    i, j = [c.axis(d, a.ndim) for d in left], [c.axis(d, b.ndim) for d in right]
    for p, q in zip(i, j, strict=True):
        # An extent of 1 broadcasts, so the other operand is summed along its axis.
        if known_equal(a.shape[p], 1) and not known_equal(b.shape[q], 1):
            b = c.call("sum", b, axis=(q,), keepdims=True)
        elif known_equal(b.shape[q], 1) and not known_equal(a.shape[p], 1):
            a = c.call("sum", a, axis=(p,), keepdims=True)
    keep_a, keep_b = [k for k in range(a.ndim) if k not in i], [k for k in range(b.ndim) if k not in j]
    count: Any = 1
    for k in i:
        count = count * a.shape[k]
    x = c.reshape(c.transpose(a, [*keep_a, *i]), [-1, count])
    y = c.reshape(c.transpose(b, [*keep_b, *j]), [-1, count])
    return c.reshape(c.call("nn.dense", x, y), [*[a.shape[k] for k in keep_a], *[b.shape[k] for k in keep_b]])


@aten("chain_matmul", "linalg_multi_dot")
def _chain(c: TorchCall, xs: Sequence[Value]) -> Value:
    result = xs[0]
    for x in xs[1:]:
        result = matmul(c, result, x)
    return result


@aten("bilinear")
def _bilinear(c: TorchCall, a: Value, b: Value, weight: Value, bias: Value | None = None) -> Value:
    out, first, second = weight.shape
    flat = c.call("nn.dense", a, c.reshape(c.transpose(weight, [0, 2, 1]), [out * second, first]))
    apart = c.reshape(flat, [*a.shape[:-1], out, second])
    result = c.call("sum", c.call("multiply", apart, c.call("expand_dims", b, axis=b.ndim - 1)), axis=(apart.ndim - 1,))
    return result if bias is None else c.call("add", result, bias)


@aten("einsum")
def einsum(c: TorchCall, equation: str, operands: Sequence[Value], path: Any = None) -> Value:
    text = equation.replace(" ", "")
    terms, _, out = text.partition("->")
    parts = terms.split(",")
    if "->" not in text:
        letters = sorted(set(terms.replace(",", "").replace(".", "")))
        out = ("..." if "..." in terms else "") + "".join([x for x in letters if terms.count(x) == 1])
    if "..." in text:
        parts, out = _without_dots(parts, out, operands)
    xs = c.promote(*operands)
    if len(parts) == 1:
        return _rearranged(c, xs[0], parts[0], out)
    value, letters_of = xs[0], parts[0]
    for k in range(1, len(parts)):
        later = set(out).union(*parts[k + 1 :])
        value, letters_of = _pair(c, value, letters_of, xs[k], parts[k], later)
    return _rearranged(c, value, letters_of, out)


def _without_dots(parts: list[str], out: str, operands: Sequence[Value]) -> tuple[list[str], str]:
    free = [ch for ch in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if ch not in "".join([*parts, out])]
    rank = max(x.ndim - len(p.replace("...", "")) for p, x in zip(parts, operands, strict=True) if "..." in p)
    names = "".join(free[:rank])
    filled = []
    for p, x in zip(parts, operands, strict=True):
        own = x.ndim - len(p.replace("...", ""))
        filled.append(p.replace("...", names[rank - own :] if own else ""))
    return filled, out.replace("...", names)


def _rearranged(c: TorchCall, x: Value, have: str, want: str) -> Value:
    """x with its axes (letters) rearranged to `want`: repeated letters take diagonals, missing ones are summed."""
    while len(set(have)) < len(have):
        letter = next(ch for ch in have if have.count(ch) > 1)
        i = have.index(letter)
        j = have.index(letter, i + 1)
        n = x.shape[i]
        if not isinstance(n, int):
            raise OpNotImplemented("it takes the diagonal of a dynamic dimension; a known one is supported")
        order = [k for k in range(x.ndim) if k not in (i, j)] + [i, j]
        moved = c.transpose(x, order)
        flat = c.reshape(moved, [*moved.shape[:-2], n * n])
        x = c.call("take", flat, Value(array=np.arange(n) * (n + 1)), axis=flat.ndim - 1)
        have = "".join([have[k] for k in order[:-1]])
    gone = tuple([k for k, ch in enumerate(have) if ch not in want])
    if gone:
        x = c.call("sum", x, axis=gone)
        have = "".join([ch for ch in have if ch in want])
    return c.transpose(x, [have.index(ch) for ch in want])


def _pair(c: TorchCall, a: Value, la: str, b: Value, lb: str, later: set[str]) -> tuple[Value, str]:
    """The product of two operands as one matrix product. Letters of both that are kept are its batch axes."""
    a, la = _summed(c, a, la, later | set(lb))
    b, lb = _summed(c, b, lb, later | set(la))
    batch = [ch for ch in la if ch in lb and ch in later]
    inner = [ch for ch in la if ch in lb and ch not in later]
    left, right = [ch for ch in la if ch not in lb], [ch for ch in lb if ch not in la]
    size = dict(zip(la, a.shape, strict=True))
    for ch, d in zip(lb, b.shape, strict=True):
        if ch not in size or isinstance(size[ch], int) and size[ch] == 1:
            size[ch] = d
    x, y = _rearranged(c, a, la, "".join(batch + left + inner)), _rearranged(c, b, lb, "".join(batch + right + inner))
    letters = "".join(batch + left + right)
    if not inner or not is_float(a.dtype):
        x = c.reshape(x, [*x.shape[: len(batch) + len(left)], *[1] * len(right), *x.shape[len(batch) + len(left) :]])
        y = c.reshape(y, [*y.shape[: len(batch)], *[1] * len(left), *y.shape[len(batch) :]])
        product = c.call("multiply", x, y)
        return (c.call("sum", product, axis=tuple(range(len(letters), product.ndim))) if inner else product), letters
    rows, columns, depth = ([size[ch] for ch in part] for part in (left, right, inner))
    lead = [size[ch] for ch in batch]
    x, y = (
        c.reshape(x, [*lead, _product(rows), _product(depth)]),
        c.reshape(y, [*lead, _product(columns), _product(depth)]),
    )
    product = c.call("nn.batch_matmul", x, y) if batch else c.call("nn.dense", x, y)
    return c.reshape(product, [*lead, *rows, *columns]), letters


def _summed(c: TorchCall, x: Value, letters: str, wanted: set[str]) -> tuple[Value, str]:
    kept = "".join(dict.fromkeys([ch for ch in letters if ch in wanted]))
    return (x, letters) if kept == letters else (_rearranged(c, x, letters, kept), kept)


def _product(sizes: Sequence[Dim]) -> Any:
    result: Any = 1
    for d in sizes:
        result = result * d
    return result


@aten("scaled_dot_product_attention")
def attention(
    c: TorchCall, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0, causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    if dropout:
        raise c.refuse("dropout_p", dropout, "0: call model.eval() before exporting")
    (depth,) = c.static(q.shape[-1:], "the depth of its heads")
    heads = (q.shape[-3], k.shape[-3]) if q.ndim > 2 else (1, 1)
    if enable_gqa and not known_equal(*heads):
        k, v = (each_head(c, x, heads[0] // heads[1]) for x in (k, v))
    scores = batches(c, q, k, transpose_b=True) if q.ndim > 2 else c.call("nn.dense", q, k)
    scores = c.call("multiply", scores, float(scale) if scale is not None else 1.0 / float(np.sqrt(depth)))
    if causal:
        mask = _causal(c, q.shape[-2], k.shape[-2])
    if mask is not None and mask.dtype == "bool":
        scores = c.call("where", mask, scores, c.number(-np.inf, scores.dtype))
    elif mask is not None:
        scores = c.call("add", scores, c.cast(mask, scores.dtype))
    shares = c.call("nn.softmax", scores, axis=scores.ndim - 1)
    if mask is not None and mask.dtype == "bool" and not causal and not _sure(mask):
        # A query with all keys masked gets zeros.
        some = c.call("any", mask, axis=(mask.ndim - 1,), keepdims=True)
        shares = c.call("where", some, shares, c.number(0, shares.dtype))
    return batches(c, shares, v) if v.ndim > 2 else c.call("nn.matmul", shares, v)


def _sure(mask: Value) -> bool:
    """Whether every query certainly has an unmasked key."""
    return mask.array is not None and mask.is_number and bool(mask.array.any(-1).all())


def each_head(c: TorchCall, x: Value, times: Any) -> Value:
    """Keys or values with each head repeated for the heads of queries that share it."""
    *lead, heads, length, depth = x.shape
    wide = c.broadcast(c.call("expand_dims", x, axis=x.ndim - 2), [*lead, heads, times, length, depth])
    return c.reshape(wide, [*lead, heads * times, length, depth])


def _causal(c: TorchCall, rows: Any, columns: Any) -> Value:
    if isinstance(rows, int) and isinstance(columns, int):
        return Value(array=np.tril(np.ones((rows, columns), bool)))
    i, j = [c.call("arange", start=0, stop=d, step=1, dtype="int64") for d in (rows, columns)]
    return c.call("less_equal", c.call("expand_dims", j, axis=0), c.call("expand_dims", i, axis=1))


@aten("_scaled_dot_product_flash_attention_for_cpu")
def _flash(
    c: TorchCall, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False, attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:  # fmt: skip
    result = attention(c, q, k, v, attn_mask, dropout, causal, scale)
    return [result, c.full([*q.shape[:-1]], 0, "float32")]


@aten("_scaled_dot_product_attention_math")
def _attention_math(
    c: TorchCall, q: Value, k: Value, v: Value, mask: Value | None = None, dropout: float = 0.0, causal: bool = False,
    dropout_mask: Value | None = None, scale: float | None = None, enable_gqa: bool = False,
) -> list[Value]:  # fmt: skip
    result = attention(c, q, k, v, mask, dropout, causal, scale, enable_gqa)
    shape = list(broadcast_shapes(q.shape[:-2], k.shape[:-2]))
    return [result, c.full([*shape, q.shape[-2], k.shape[-2]], 0, q.dtype)]
