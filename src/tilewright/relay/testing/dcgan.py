"""The generator of DCGAN (A. Radford, L. Metz, S. Chintala, 2015)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


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
    kernel_layout = "IOHW" if layout == "NCHW" else "HWOI"
    for i, channels in enumerate((ngf * 4, ngf * 2, ngf, oshape[-3]), 2):
        x = layers.conv2d_transpose(
            x, channels=channels, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1, 1, 1), data_layout=layout,
            kernel_layout=kernel_layout, name=f"g{i}_deconv" if i < 5 else "g5_deconv",
        )  # fmt: skip
        if i < 5:
            x = op.nn.relu(
                layers.batch_norm_infer(x, epsilon=1e-5, scale=False, axis=layout.index("C"), name=f"g{i}_batch")
            )
    x = op.tanh(x)
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
