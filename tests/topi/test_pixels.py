"""Resizes that programs write with parts of topi.image, beside the resize operators."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.values import results
from tilewright import te, topi

P = topi.image


@pytest.mark.parametrize(
    "layout, shape, axes",
    [("NCHW", (1, 2, 4, 5), (2, 3)), ("NHWC", (1, 4, 5, 2), (1, 2)), ("NCHW2c", (1, 2, 4, 5, 2), (2, 3))],
)
@pytest.mark.parametrize(
    "mode, rounding",
    [("asymmetric", "floor"), ("align_corners", "round_prefer_ceil"), ("half_pixel", "round_prefer_floor")],
)
def test_nearest(layout: str, shape: tuple[int, ...], axes: tuple[int, int], mode: str, rounding: str) -> None:
    a = np.random.default_rng(0).random(shape, "float32")
    height, width = shape[axes[0]], shape[axes[1]]
    out = list(shape)
    out[axes[0]], out[axes[1]] = 2 * height, 3 * width

    def mine(x: te.Tensor) -> te.Tensor:
        def element(*i: object) -> object:
            n, c, y, w, cc, ib, ic = P.get_2d_indices(i, layout)
            places = [
                P.get_closest_index(P.get_inx(p, e, t, mode), rounding, None)
                for p, e, t in ((y, height, 2 * height), (w, width, 3 * width))
            ]
            return P.get_2d_pixel(x, layout, height, width, n, c, *places, cc, ib, ic)

        return te.compute(tuple(out), element)

    (found,) = results(mine, a)
    (wanted,) = results(
        lambda x: P.resize2d(x, None, (2 * height, 3 * width), layout, "nearest_neighbor", mode, rounding), a
    )
    np.testing.assert_array_equal(found, wanted)


def test_divisions_of_integers() -> None:
    assert P.can_convert_multiply_to_intdiv(4, 8) and not P.can_convert_multiply_to_intdiv(4, 6)
    assert not P.can_convert_multiply_to_intdiv(te.var("n"), 6)
    i = te.var("i")
    assert str(P.get_inx(i, 4, 8, "asymmetric", use_int_div=True)) == str(i // 2)


def test_indices_by_layout() -> None:
    assert P.get_1d_indices((1, 2, 3), "NWC") == (1, 3, 2, 0, 0, 0)
    assert P.get_1d_indices((1, 2, 3, 4, 5), "NCW1n16c") == (1, 2, 3, 0, 4, 5)
    assert P.get_2d_indices((1, 2, 3, 4, 5), "NCHW16c") == (1, 2, 3, 4, 5, 0, 0)
    assert P.get_3d_indices((1, 2, 3, 4, 5), "NDHWC") == (1, 5, 2, 3, 4, 0)


def test_other_dimensions() -> None:
    a, b = np.arange(6, dtype="float32").reshape(1, 1, 6), np.arange(8, dtype="float32").reshape(1, 1, 2, 2, 2)
    (row,) = results(lambda x: te.compute((6,), lambda i: P.get_1d_pixel(x, "NCW", 6, 0, 0, i + 3, 0, 0, 0)), a)
    assert row.tolist() == [3, 4, 5, 5, 5, 5]
    (volume,) = results(lambda x: te.compute((2,), lambda i: P.get_3d_pixel(x, "NCDHW", 2, 2, 2, 0, 0, 1, i, i, 0)), b)
    assert volume.tolist() == [4, 7]


def test_unknown_rounding() -> None:
    with pytest.raises(ValueError, match="rounding_method must be round"):
        P.get_closest_index(te.var("x", "float32"), "up", None)
