"""Attention as one operator."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OUT_ELEMWISE, OpCard, need
from tilewright.relay.cards.relations import broadcast_shapes, dims, is_static, tensor, tensor_type


class attention(OpCard, key="nn.contrib_attention"):
    """softmax(query key^T * scale + mask) value: (.., N, D), (.., M, D), (.., M, E) -> (.., N, E). The last of the leading axes may be a
    multiple of that of keys and values: groups of heads of queries then share these. mask, if given, broadcasts to the scores (.., N, M).
    transpose_key: False if keys are already transposed, (.., D, M). zero_rows: rows whose weights are NaN, as where all scores are -inf,
    give 0. causal: query i sees the keys 0 .. past + i only. Scores and sums of 16-bit floats are in float32, and so may be the result
    (out_dtype)."""

    scale: float = 1.0
    transpose_key: bool = True
    zero_rows: bool = False
    causal: bool = False
    past: int = 0
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        (((2, 5, 4), (2, 7, 4), (2, 7, 3)), {"scale": 0.5}),
        (((1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 5, 4), (1, 1, 1, 5)), {"transpose_key": False}),
        (((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)), {"causal": True, "past": 1}),
    ]

    def infer(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> Type:
        q, k, v = tensor(query, 0), tensor(key, 1), tensor(value, 2)
        for place, one in enumerate([q, k, v]):
            need(
                len(one.shape) >= 2
                and str(one.dtype) in ("float16", "bfloat16", "float32", "float64")
                and one.dtype == q.dtype,
                "queries, keys and values must be matrices of floats of one type",
                f"argument {place} is {one}",
                place,
            )
            need(is_static(one), "all extents must be known", f"argument {place} is {one}", place)
        *lead, n, d = dims(q)
        *kept, m, width = dims(v)
        groups = kept[-1] if kept else 1
        need(
            dims(k) == ([*kept, m, d] if self.transpose_key else [*kept, d, m])
            and kept[:-1] == lead[:-1]
            and len(kept) == len(lead)
            and (not lead or (groups > 0 and lead[-1] % groups == 0)),
            "the heads of queries must be as many as those of keys and values, or a multiple in the last leading axis, keys as long"
            " as queries, and one value for each key",
            f"they are {q}, {k} and {v}",
            1,
        )
        need(
            self.past >= 0,
            "past, the number of keys before the first query, must not be negative",
            f"it is {self.past}",
        )
        scores = [*lead, n, m]
        need(
            mask is None or list(broadcast_shapes(dims(tensor(mask, 3)), scores)) == scores,
            "the mask must broadcast to the scores",
            f"it is {mask}, and they are {tuple(scores)}",
            3,
        )
        return tensor_type((*lead, n, width), self.out_dtype or str(q.dtype))

    def compute(self, query: te.Tensor, key: te.Tensor, value: te.Tensor, mask: te.Tensor | None = None) -> te.Tensor:
        return topi.nn.attention(
            query,
            key,
            value,
            mask,
            self.scale,
            self.transpose_key,
            self.zero_rows,
            self.causal,
            self.past,
            self.out_dtype,
        )

    def ref(self, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | float = 0.0) -> np.ndarray:
        dtype = np.dtype("float32") if query.dtype.itemsize == 2 else query.dtype
        q, k, v = [x.astype(dtype) for x in (query, key, value)]
        if q.ndim > 2:
            k, v = [np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v)]
        with np.errstate(invalid="ignore"):
            scores = q @ (k.swapaxes(-1, -2) if self.transpose_key else k) * dtype.type(self.scale) + mask
            if self.causal:
                seen = np.tri(scores.shape[-2], scores.shape[-1], self.past, dtype=bool)
                scores = np.where(seen, scores, dtype.type(-np.inf))
            e = np.exp(scores - scores.max(-1, keepdims=True))
            weights = e / e.sum(-1, keepdims=True)
        weights = np.where(np.isnan(weights), dtype.type(0), weights) if self.zero_rows else weights
        return np.asarray(weights @ v, self.out_dtype or query.dtype)
