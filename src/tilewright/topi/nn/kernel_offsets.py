"""The kernel offsets of convolutions and pooling that read data. Those that read only padding can be removed (kernels larger than the
image)."""

from __future__ import annotations

from tilewright.topi.utils import window_extent


def offsets_on_data(
    extent: int, kernel: int, before: int, after: int, stride: int, dilation: int
) -> tuple[int, int, int, int] | None:
    """The kernel offsets along one axis that read data: (first, one past the last, padding before and after) of the smallest kernel with
    the same results. None if that is the kernel itself, or if no offset reads data."""
    out = window_extent(extent, kernel, before, after, stride, dilation)
    met = [
        t for t in range(kernel)
        if max(0, -((t * dilation - before) // stride)) <= min(out - 1, (extent - 1 + before - t * dilation) // stride)
    ]  # fmt: skip
    if not met:
        return None
    # The new padding must not be negative.
    first, last = min(met[0], before // dilation), met[-1] + 1
    left = before - first * dilation
    while True:
        right = max(0, (out - 1) * stride + (last - first - 1) * dilation + 1 - extent - left)
        if window_extent(extent, last - first, left, right, stride, dilation) == out:
            break
        last += 1
    return (first, last, left, right) if last - first < kernel else None


__all__ = ["offsets_on_data"]
