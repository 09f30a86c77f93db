"""Operators of ONNX's reference evaluator that say so where their answers are not what ONNX's text asks for."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from onnx.reference.ops import op_loop, op_one_hot, op_resize

NEAR = 1e-5
"""How near to a border between two rows float32 may be on its other side."""


class Departure(Exception):
    """What the reference does otherwise, or nobody says."""


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
    """It finds the nearest row in float64, others in float32; ONNX's text does not say."""

    op_domain = ""

    def _run(self, *args: Any, **attributes: Any) -> Any:
        def sure(ratio: float, mode: str = "round_prefer_floor") -> Any:
            border = 0.5 if mode.startswith("round") else round(ratio)
            if 0 < abs(ratio - border) < NEAR:
                raise Departure("the nearest row is a matter of rounding")
            return coefficients(ratio, mode)

        coefficients = op_resize._nearest_coeffs
        with mock.patch.object(op_resize, "_nearest_coeffs", sure):
            return super()._run(*args, **attributes)


CAREFUL = [OneHot, Loop, Resize]
