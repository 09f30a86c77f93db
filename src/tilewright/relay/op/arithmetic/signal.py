"""Fourier transforms."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import COMM_REDUCE, Made, OpCard, Operand, need, several
from tilewright.relay.cards.relations import dims, is_any, may_equal, same_dtype, tensor, tensor_type
from tilewright.relay.expr import Expr, TupleGetItem, const
from tilewright.relay.op.adjoint import field, op
from tilewright.tir import Any as AnyDim


class stft(OpCard, key="stft"):
    """Fourier transforms of windows that are `hop_length` apart: (batch, frequencies, windows, 2), with real and imaginary parts
    last. data: (length,) or (batch, length). `window` (win_length,) is centred in `n_fft` elements."""

    n_fft: int
    hop_length: int
    win_length: int
    normalized: bool = False
    onesided: bool = True
    fuse = COMM_REDUCE
    tolerance = 1e-4
    samples = [
        (((2, 12), (6,)), {"n_fft": 6, "hop_length": 2, "win_length": 6}),
        (((10,), (3,)), {"n_fft": 5, "hop_length": 1, "win_length": 3, "normalized": True, "onesided": False}),
    ]

    @classmethod
    def make(
        cls,
        data: Operand,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Operand | None = None,
        normalized: bool = False,
        onesided: bool = True,
        span: BaseSpan | None = None,
    ) -> Made:
        """hop_length: default n_fft // 4. win_length: default n_fft. window: default ones."""
        width = win_length or n_fft
        if window is None:
            window = const(np.ones(width, np.float32))
        attrs = {"n_fft": n_fft, "hop_length": hop_length or n_fft // 4, "win_length": width}
        return cls.call([data, window], {**attrs, "normalized": normalized, "onesided": onesided}, span)

    def infer(self, data: TensorType, window: TensorType) -> Type:
        d, w = tensor(data, 0), tensor(window, 1, 1)
        dtype = same_dtype(d, w)
        need(len(d.shape) in (1, 2), "data must be (length,) or (batch, length)", f"it is {d}", 0)
        need(
            may_equal(dims(w)[0], self.win_length), "the window must have win_length places", f"it has {dims(w)[0]}", 1
        )
        need(
            0 < self.win_length <= self.n_fft and self.hop_length > 0,
            "win_length must lie between 1 and n_fft, and hop_length be positive",
            f"they are {self.win_length} of {self.n_fft} and {self.hop_length}",
        )
        *batch, length = dims(d)
        need(
            not isinstance(length, int) or length >= self.n_fft, "data must hold a window", f"it has {length} places", 0
        )
        frames = AnyDim() if is_any(length) else (length - self.n_fft) // self.hop_length + 1
        bins = self.n_fft // 2 + 1 if self.onesided else self.n_fft
        return tensor_type((*batch, bins, frames, 2), dtype)

    def compute(self, data: te.Tensor, window: te.Tensor) -> te.Tensor:
        return topi.stft(data, self.n_fft, self.hop_length, self.win_length, window, self.normalized, self.onesided)

    def ref(self, data: np.ndarray, window: np.ndarray) -> np.ndarray:
        offset = (self.n_fft - self.win_length) // 2
        whole = np.zeros(self.n_fft, window.dtype)
        whole[offset : offset + self.win_length] = window
        frames = np.lib.stride_tricks.sliding_window_view(data, self.n_fft, -1)[..., :: self.hop_length, :] * whole
        found = np.fft.fft(frames, axis=-1).swapaxes(-1, -2)
        if self.onesided:
            found = found[..., : self.n_fft // 2 + 1, :]
        if self.normalized:
            found = found / np.sqrt(self.n_fft)
        return np.stack([found.real, found.imag], -1).astype(data.dtype)


class dft(OpCard, key="dft"):
    """(real, imaginary) parts of the Fourier transform of the last axis, or of its inverse."""

    inverse: bool = False
    outputs = 2
    fuse = COMM_REDUCE
    tolerance = 1e-4
    samples = [(((2, 5), (2, 5)), {}), (((6,), (6,)), {"inverse": True})]

    def infer(self, re_data: TensorType, im_data: TensorType) -> Type:
        re, im = tensor(re_data, 0), tensor(im_data, 1)
        same_dtype(re, im)
        alike = len(re.shape) == len(im.shape) > 0 and all(map(may_equal, dims(re), dims(im)))
        need(alike, "both parts must have one shape", f"they are {re} and {im}", 1)
        return TupleType((re, re))

    def compute(self, re_data: te.Tensor, im_data: te.Tensor) -> list[te.Tensor]:
        return topi.dft(re_data, im_data, self.inverse)

    def ref(self, re_data: np.ndarray, im_data: np.ndarray) -> tuple[np.ndarray, ...]:
        whole = re_data + 1j * im_data
        found = np.fft.ifft(whole) if self.inverse else np.fft.fft(whole)
        return found.real.astype(re_data.dtype), found.imag.astype(re_data.dtype)

    def grad(self, re_data: Expr, im_data: Expr, result: Expr, dy: Expr) -> list[Expr]:
        """The transform is symmetric, so its adjoint is the other transform of the conjugate, except for the scale."""
        t = tensor(re_data.checked_type)
        back = several("dft")(field(dy, 0), field(dy, 1), inverse=not self.inverse).tuple_value
        size = op("cast")(
            op("take")(op("shape_of")(re_data, dtype="int64"), const(len(t.shape) - 1, "int64")), str(t.dtype)
        )
        parts = [TupleGetItem(back, i) for i in range(2)]
        return [op("divide")(p, size) if self.inverse else op("multiply")(p, size) for p in parts]
