"""Regions that reach far beyond their image, whose length decides how many samples they have: only those inside are visited."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi

HEIGHT, WIDTH, BINS = 5, 7, 2
IMAGE = np.random.default_rng(3).uniform(-1, 1, (1, 2, HEIGHT, WIDTH)).astype("float32")
FAR = [
    (0, -3, -2, 4, 6),
    (0, -40.25, -20.5, 9.75, 60.5),
    (0, -1000.3, 2.2, 1000.7, 3.1),
    (0, -30000.3, -20000.2, 30000.6, 20000.4),
    (0, 20000.0, 1.0, 50000.0, 2.0),
    (0, 6.0, 4.0, -50.0, -60.0),
]
NOWHERE = [(0, -1e9, -1e9, 1e9, 1e9), (0, -np.inf, 0, np.inf, 4), (0, np.nan, 0, 3e38, np.nan), (0, -3e38, -3e38, 3, 3)]


def align(rois: np.ndarray, mode: str, aligned: bool) -> np.ndarray:
    data, regions = te.placeholder(IMAGE.shape, name="data"), te.placeholder(rois.shape, name="rois")
    made = topi.vision.roi_align_nchw(data, regions, (BINS, BINS), 1.0, mode, -1, aligned)
    out = tvm.nd.empty((len(rois), 2, BINS, BINS))
    tvm.build(te.create_prim_func([data, regions, made]), target="llvm")(tvm.nd.array(IMAGE), tvm.nd.array(rois), out)
    return out.numpy()


def samples(low: float, high: float, size: int, aligned: bool) -> list[tuple[np.ndarray, int]]:
    """For each bin the weights of its samples along an axis, a row for each in the image and one for all outside; and how many."""
    length = (high - low if aligned else max(high - low, 1)) / BINS
    first = low - 0.5 if aligned else low
    n = max(int(np.ceil(length)), 1)
    found = []
    for o in range(BINS):
        at = first + (o + (np.arange(n) + 0.5) / n) * length
        inside = (at >= -1) & (at <= size)
        at = np.clip(at[inside], 0, size - 1)
        a = at.astype(int)
        rows = np.zeros((len(at), size))
        np.add.at(rows, (np.arange(len(at)), a), 1 - (at - a))
        np.add.at(rows, (np.arange(len(at)), np.minimum(a + 1, size - 1)), at - a)
        found.append((np.concatenate([rows, np.zeros((min(n - len(at), 1), size))]), n))
    return found


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_far_corners(mode: str, aligned: bool) -> None:
    got = align(np.array(FAR, "float32"), mode, aligned)
    for region, values in zip(FAR, got, strict=True):
        rows, columns = [samples(region[k], region[k + 2], s, aligned) for k, s in ((2, HEIGHT), (1, WIDTH))]
        for oy, ox in np.ndindex(BINS, BINS):
            (y, ny), (x, nx) = rows[oy], columns[ox]
            each = np.einsum("sh,chw,tw->cst", y, IMAGE[0].astype("float64"), x)
            want = each.sum((1, 2)) / (ny * nx) if mode == "avg" else each.max((1, 2))
            # Places are rounded to float32, the more the farther the region begins.
            np.testing.assert_allclose(values[:, oy, ox], want, rtol=1e-4, atol=np.abs(region).max() * 2.0**-22)


@pytest.mark.parametrize("mode", ["avg", "max", "max_term"])
def test_corners_nowhere(mode: str) -> None:
    """What is beyond all places is taken to be the last of them, rather than visited for years; what is not a number gives none."""
    got = align(np.array(NOWHERE, "float32"), mode, False)
    assert [bool(np.isnan(of).any()) for of in got] == [bool(np.isnan(of).any()) for of in NOWHERE]
    assert np.nanmax(np.abs(got)) <= 1
