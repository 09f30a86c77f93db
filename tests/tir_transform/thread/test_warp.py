"""LowerWarpMemory: what a warp shares becomes registers and shuffles; checked by running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.thread.test_threads import allocate, barriers, module, nodes, outputs, shared, thread
from tilewright import tir
from tilewright.support.errors import TVMError
from tilewright.tir import transform as T


def exchange(threads: int, part: int, size: int, read: Any, write: Any = None) -> Any:
    """Each thread writes `part` elements of its warp's storage; then B[t] = what `read` gives of it."""
    a, b = tir.decl_buffer((threads * part,), name="A"), tir.decl_buffer((threads,), name="B")
    w = shared("W", size, scope="warp")

    def body(tx: Any) -> Any:
        index = write or (lambda t: t * part)
        own = [tir.BufferStore(w, a[tx * part + x], [index(tx) + x]) for x in range(part)]
        return allocate(w, tir.stmt_seq(*own, tir.BufferStore(b, read(w, tx), [tx])))

    return T.ThreadSync("warp")(module(thread("threadIdx.x", threads, body), a, b))


@pytest.mark.parametrize("part", [1, 2, 3])
@pytest.mark.parametrize(
    "read",
    [
        lambda w, tx, part: w[(31 - tx) * part],
        lambda w, tx, part: w[tx * part] + w[(tx + 5) % 32 * part + part - 1],
        lambda w, tx, part: w[tx * part + part - 1],
    ],
)
def test_warp_memory(part: int, read: Any) -> None:
    mod = exchange(32, part, 32 * part, lambda w, tx: read(w, tx, part))
    data = np.random.rand(32 * part).astype("float32")
    expected = outputs(mod, data, np.zeros(32, "float32"))
    new = T.LowerWarpMemory()(mod)
    assert [int(x.extents[0]) for x in nodes(new, tir.Allocate)] == [part]
    assert barriers(new) == 0 and '"warp"' not in str(new)
    np.testing.assert_array_equal(outputs(new, data, np.zeros(32, "float32")), expected)


def test_small_warp() -> None:
    mod = exchange(8, 1, 8, lambda w, tx: w[7 - tx])
    data = np.arange(8, dtype="float32")
    new = T.LowerWarpMemory()(mod)
    assert "tvm_warp_shuffle" in str(new)
    np.testing.assert_array_equal(outputs(new, data, np.zeros(8, "float32")), data[::-1])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: exchange(32, 1, 40, lambda w, tx: w[tx]), "the size of W must be a multiple of 32"),
        (lambda: exchange(32, 1, 32, lambda w, tx: w[tx], lambda tx: 31 - tx), "must be written in one pattern"),
        (
            lambda: exchange(32, 1, 64, lambda w, tx: w[tx + 1], lambda tx: tx + 1),
            "written by a thread that does not own it",
        ),
        (lambda: exchange(24, 1, 24, lambda w, tx: w[tx]), "must divide one another"),
        (lambda: exchange(32, 2, 64, lambda w, tx: w[tx]), "register .* which differs between"),
    ],
)
def test_refused(make: Any, text: str) -> None:
    with pytest.raises(TVMError, match="LowerWarpMemory: .*" + text):
        T.LowerWarpMemory()(make())
