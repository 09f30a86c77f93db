"""The generator of DCGAN (A. Radford, L. Metz, S. Chintala, 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def deconv2d(
    data: Expr,
    ishape: Sequence[int],
    oshape: Sequence[int],
    kshape: Sequence[int],
    layout: str,
    name: str,
    stride: Sequence[int] = (2, 2),
) -> Expr:
    """The adjoint of a convolution, from an image to one of shape `oshape` (channels, rows, columns). kshape: rows and columns of the
    weights `name`."""
    del ishape
    pads = [(k - 1) // 2 for k in kshape]
    extra = [(o + 2 * p - k) % s for o, p, k, s in zip(oshape[-2:], pads, kshape, stride, strict=True)]
    kernel_layout = "IOHW" if layout == "NCHW" else "HWOI"
    made: Expr = layers.conv2d_transpose(
        data, channels=oshape[0], kernel_size=tuple(kshape), strides=tuple(stride), padding=(*pads, *pads), output_padding=tuple(extra),
        data_layout=layout, kernel_layout=kernel_layout, name=name,
    )  # fmt: skip
    return made


def deconv2d_bn_relu(data: Expr, prefix: str, **kwargs: Any) -> Expr:
    """`deconv2d`, normalised and rectified; weights and statistics have names that begin with `prefix`."""
    net = deconv2d(data, name=f"{prefix}_deconv", **kwargs)
    axis = str(kwargs["layout"]).index("C")
    made: Expr = op.nn.relu(layers.batch_norm_infer(net, epsilon=1e-5, scale=False, axis=axis, name=f"{prefix}_batch"))
    return made


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """From `random_len` numbers to an image of 64 x 64."""
    if oshape[-1] != 64 or oshape[-2] != 64:
        raise ValueError(f"dcgan makes images of 64 x 64, but oshape is {oshape}")
    x: Expr = var("data", dtype=dtype, shape=(batch_size, random_len)) if code is None else code
    weight = var("dense_weight", shape=(4 * 4 * ngf * 8, random_len), dtype=dtype)
    x = op.nn.relu(op.nn.dense(x, weight, units=4 * 4 * ngf * 8))
    shape = (-1, ngf * 8, 4, 4) if layout == "NCHW" else (-1, 4, 4, ngf * 8)
    x = op.reshape(x, shape)
    ishape = (ngf * 8, 4, 4)
    for i, channels in enumerate((ngf * 4, ngf * 2, ngf), 2):
        larger = (channels, 2 * ishape[1], 2 * ishape[2])
        x = deconv2d_bn_relu(x, f"g{i}", ishape=ishape, oshape=larger, kshape=(4, 4), layout=layout)
        ishape = larger
    x = op.tanh(deconv2d(x, ishape, oshape[-3:], (4, 4), layout, "g5_deconv"))
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype))
