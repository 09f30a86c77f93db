"""Operators of ONNX's reference evaluator that say so where their answers are not what ONNX's text asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
from onnx.reference.ops import op_gru, op_loop, op_lp_normalization, op_lstm, op_one_hot, op_resize, op_rnn
from onnx.reference.ops.aionnxml import op_tree_ensemble

NEAR = 1e-5
"""How near to a border between two rows float32 may be on its other side."""


class Departure(Exception):
    """What the reference does otherwise, or nobody says."""


class Unsaid(Departure):
    """What ONNX's text leaves open, so that no framework's answer decides."""


class OneHot(op_one_hot.OneHot):
    """It rounds a depth up, which by ONNX's text is cast to an integer."""

    op_domain = ""

    def _run(self, indices: Any, depth: Any, *rest: Any, **attributes: Any) -> Any:
        if not np.array_equal(depth, np.trunc(depth)):
            raise Departure("ONNX's reference rounds a depth up")
        return super()._run(indices, depth, *rest, **attributes)


class Loop(op_loop.Loop):
    """It joins what rounds give as rows of a matrix; by ONNX's text along a new axis."""

    op_domain = ""

    def _run(self, *args: Any, **attributes: Any) -> Any:
        def round_of(*args: Any, **kwargs: Any) -> Any:
            found = body(*args, **kwargs)
            if self.K and any([np.ndim(v) != 1 for v in found[-self.K :]]):
                raise Departure("ONNX's reference makes rows of what a loop's rounds give")
            return found

        body = self._run_body
        with mock.patch.object(self, "_run_body", round_of):
            return super()._run(*args, **attributes)


class Resize(op_resize.Resize):
    """It finds the nearest row in float64, others in float32; ONNX's text does not say. Nor does it whether the length that
    pytorch_half_pixel asks for is that of the result or the length times the scale, which the reference takes. By ONNX's text this
    mode's only row is row 0; the reference's lies half a row before, which cubic filters see."""

    op_domain = ""

    def _run(self, *args: Any, **attributes: Any) -> Any:
        x, _, scales = [*args, None, None][:3]
        if x.dtype.kind in "iu" and attributes.get("mode", "nearest") != "nearest":
            raise Unsaid("whether fractions between integers are rounded or cut off")
        half = attributes.get("coordinate_transformation_mode") == "pytorch_half_pixel"
        if half and scales is not None and len(scales):
            axes = attributes.get("axes")
            scaled = [x.shape[a] for a in axes] * scales if axes else x.shape[-len(scales) :] * scales
            if np.any((np.floor(scaled) == 1) & (scaled != 1)):
                raise Unsaid("whether one row of a fraction more is one row")

        def sure(ratio: float, mode: str = "round_prefer_floor") -> Any:
            # Beside a whole row it looks for the nearest among neighbours that it has found by rounding, too.
            borders = (0.5, round(ratio)) if mode.startswith("round") else (round(ratio),)
            if any([0 < abs(ratio - border) < NEAR for border in borders]):
                raise Departure("the nearest row is a matter of rounding")
            return coefficients(ratio, mode)

        coefficients = op_resize._nearest_coeffs
        with mock.patch.object(op_resize, "_nearest_coeffs", sure):
            found = super()._run(*args, **attributes)
        pairs = zip(x.shape, found[0].shape, strict=True)
        if half and attributes.get("mode") == "cubic" and any([new == 1 != old for old, new in pairs]):
            raise Departure("ONNX's reference takes the only row from half a row before the first")
        return found


class WholeSequences:
    """A recurrent operator: it runs all steps, whatever lengths it is given."""

    op_domain = ""
    overlooked: Sequence[str] = ("clip", "input_forget", "activations", "activation_alpha", "activation_beta")

    def _run(self, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any, **attributes: Any) -> Any:
        for name in self.overlooked:
            if attributes.get(name):
                raise Departure(f"ONNX's reference overlooks {name}")
        if lengths is not None and np.any(lengths == 0):
            raise Unsaid("the last state of a sequence without steps")
        if lengths is not None and np.any(lengths != x.shape[1 if attributes.get("layout") else 0]):
            raise Departure("ONNX's reference takes all sequences to be whole")
        return super()._run(x, w, r, b, lengths, *rest, **attributes)  # type: ignore[misc]


class LSTM(WholeSequences, op_lstm.LSTM):
    pass


class GRU(WholeSequences, op_gru.GRU):
    pass


class RNN(WholeSequences, op_rnn.RNN_14):
    overlooked = ("clip",)


class TreeEnsemble(op_tree_ensemble.TreeEnsemble):
    """It leaves scores as they are."""

    op_domain = "ai.onnx.ml"

    def _run(self, *args: Any, **attributes: Any) -> Any:
        if attributes.get("post_transform"):
            raise Departure("ONNX's reference overlooks post_transform")
        return super()._run(*args, **attributes)


class LpNormalization(op_lp_normalization.LpNormalization):
    """It raises numbers to a power, rather than their magnitudes."""

    op_domain = ""

    def _run(self, x: Any, *, axis: int | None = None, p: int | None = None) -> Any:
        if (p or self.p) % 2 and np.any(x < 0):
            raise Departure("ONNX's reference sums up no magnitudes")
        return super()._run(x, axis=axis, p=p)


CAREFUL = [OneHot, Loop, Resize, LSTM, GRU, RNN, TreeEnsemble, LpNormalization]
