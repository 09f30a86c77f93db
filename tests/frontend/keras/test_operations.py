"""Operations of keras.ops in functional models beside Keras on torch; which of them are imported, and which are named as missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.keras.models import data_for, interpreted_outputs, keras, keras_outputs
from tilewright.relay.frontend.keras import from_keras, supported_operations
from tilewright.support.errors import OpNotImplemented

k: Any = keras.ops


def square(x: Any) -> Any:
    """Positive matrices."""
    return x[:, :4] @ k.transpose(x[:, :4], (0, 2, 1)) + k.eye(4)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: (
        k.layer_normalization(x) + k.layer_normalization(x, np.arange(4.0, dtype="float32"), np.ones(4, "float32"))
    ),
    "layer_norm_of_axes": lambda x: k.layer_normalization(x, axis=[1, 2], epsilon=1e-3),
    "rms_norm": lambda x: (
        k.rms_normalization(x) + k.rms_normalization(x, np.arange(4.0, dtype="float32"), epsilon=1e-3)
    ),
    "batch_norm": lambda x: k.batch_normalization(
        x,
        np.ones(4, "float32"),
        np.full(4, 2.0, "float32"),
        -1,
        offset=np.arange(4.0, dtype="float32"),
        scale=np.full(4, 3.0, "float32"),
    ),
    "attention": lambda x: k.dot_product_attention(x[:, :, None], x[:, :, None], x[:, :, None]),
    "causal": lambda x: k.dot_product_attention(x[:, :, None], x[:, :, None], x[:, :, None], is_causal=True, scale=0.3),
    "depthwise": lambda x: k.depthwise_conv(x, np.ones((3, 4, 2), "float32"), padding="same"),
    "separable": lambda x: k.separable_conv(x, np.ones((3, 4, 2), "float32"), np.ones((1, 8, 3), "float32")),
    "depths": lambda x: k.depth_to_space(k.reshape(x, (-1, 1, 5, 4)), 2),
    "spaces": lambda x: k.space_to_depth(k.reshape(x[:, :4], (-1, 4, 2, 2)), 2),
    "degrees": lambda x: k.deg2rad(x) + k.rad2deg(x) + k.cbrt(x) + k.sinc(x) + k.hypot(x, x + 1) + k.fabs(x),
    "tests": lambda x: [
        k.cast(v, "int32") for v in (k.signbit(x), k.isclose(x, x + 1e-9), k.isposinf(x), k.isneginf(x))
    ],
    "logaddexp": lambda x: k.logaddexp(x, x * 2) + k.fmax(x, 0.1) + k.fmin(x, -0.1) + k.nan_to_num(x) + k.fmod(x, 0.7),
    "erfinv": lambda x: k.erfinv(k.tanh(x)),
    "select": lambda x: k.select([x > 0, x < -1], [x, x * 2], 0.5),
    "diff": lambda x: k.diff(x, axis=1) + k.diff(k.concatenate([x, x[:, :1]], 1), n=2, axis=1),
    "averages": lambda x: (
        k.average(x, axis=1)
        + k.average(x, axis=2, weights=np.arange(1.0, 5, dtype="float32"))[:, :4]
        + k.ptp(x, axis=1)
    ),
    "quantiles": lambda x: [
        k.median(x, axis=1),
        k.quantile(x, 0.3, axis=1, keepdims=True),
        k.quantile(x, np.array([0.2, 0.9], "float32"), axis=2),
    ],
    "norms": lambda x: k.norm(x, axis=1) + k.norm(x, 1, axis=1) + k.norm(x, 3, axis=1) + k.norm(x, np.inf, axis=1),
    "nans": lambda x: (
        k.nansum(x, axis=1) + k.nanmax(x, axis=1) + k.nanmin(x, axis=1) + k.nanmean(x, axis=1) + k.nanprod(x, axis=1)
    ),
    "trapezoid": lambda x: k.trapezoid(x, dx=0.5, axis=1),
    "segments": lambda x: k.segment_sum(x, np.array([0, 2]), 3) + k.max(k.segment_max(x, np.array([0, 0]), 1)),
    "stacks": lambda x: [k.hstack([x, x]), k.vstack([x, x]), k.dstack([x, x]), k.append(x, x, axis=1)],
    "splits": lambda x: [*k.array_split(x, 2, axis=1), *k.hsplit(x, [2]), *k.dsplit(x, 2)],
    "turns": lambda x: [k.flipud(x), k.fliplr(x), k.rot90(x, 1, (1, 2)), k.rot90(x, 3, (1, 2)), k.rot90(x, 2, (1, 2))],
    "diagonals": lambda x: [
        k.diagonal(x, 1, 1, 2),
        k.diagonal(x, -2, 1, 2),
        k.trace(x, 0, 1, 2),
        k.diag(x[0, 0]),
        k.diag(x[0], -1),
    ],
    "meshgrid": lambda x: k.meshgrid(x[0, 0], x[0, :, 0]),
    "products": lambda x: [
        k.outer(x[:, 0, 0], x[0, 0]),
        k.inner(x, x[0, 0]),
        k.vdot(x[0, 0], x[0, 1]),
        k.cross(x[..., :3], x[..., 1:]),
    ],
    "matrices": lambda x: [
        k.inv(square(x)),
        k.det(x[:, :4]),
        k.cholesky(square(x)),
        k.logdet(square(x)),
        k.solve(square(x), x[:, :4]),
    ],
    "losses": lambda x: [
        k.categorical_crossentropy(k.softmax(x), k.softmax(x * 2)),
        k.categorical_crossentropy(k.softmax(x), x, from_logits=True),
        k.binary_crossentropy(k.sigmoid(x), k.sigmoid(x * 2)),
        k.sparse_categorical_crossentropy(k.argmax(x, -1), k.softmax(x)),
    ],
    "multi_hot": lambda x: k.multi_hot(k.cast(x[:, :, 0] > 0, "int32"), 3),
    "images": lambda x: [
        k.image.rgb_to_grayscale(k.reshape(x[..., :3], (-1, 5, 1, 3))),
        k.image.crop_images(k.reshape(x, (-1, 5, 4, 1)), 1, 1, target_height=2, target_width=2),
        k.image.pad_images(k.reshape(x, (-1, 5, 4, 1)), 1, 1, target_height=8, target_width=8),
    ],
    "bits": lambda x: k.bitwise_not(k.cast(x * 4, "int32")) + k.bitwise_left_shift(k.cast(x * 4, "int32"), 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    x = keras.Input((5, 4))
    model = keras.Model(x, OPERATIONS[name](x))
    data = data_for(model)
    mod, params = from_keras(model, layout="NHWC", shape={model.layers[0].name: data[0].shape})
    for made, want in zip(interpreted_outputs(mod, params, data), keras_outputs(model, data), strict=True):
        assert made.shape == want.shape
        np.testing.assert_allclose(made.astype("float64"), want.astype("float64"), rtol=1e-3, atol=1e-4)


MISSING = {
    # complex numbers and transforms
    "Angle",
    "Conj",
    "Conjugate",
    "Imag",
    "Real",
    "Isreal",
    "FFT",
    "FFT2",
    "IFFT2",
    "RFFT",
    "IRFFT",
    "STFT",
    "ISTFT",
    "ViewAsComplex",
    "ViewAsReal",
    "Polar",
    "Eig",
    "View",
    # results as large as the data say
    "Nonzero",
    "Unique",
    "Bincount",
    "Histogram",
    # pictures resampled, and losses of pictures and sequences
    "AffineTransform",
    "ElasticTransform",
    "ExtractPatches",
    "GaussianBlur",
    "HSVToRGB",
    "RGBToHSV",
    "MapCoordinates",
    "PerspectiveTransform",
    "ScaleAndTranslate",
    "SobelEdges",
    "SSIM",
    "PSNR",
    "CTCLoss",
    "CTCDecode",
    # rare ones
    "AdaptiveAveragePool",
    "AdaptiveMaxPool",
    "AllClose",
    "Arange",
    "Argpartition",
    "Array",
    "CDist",
    "ConvTranspose",
    "Corrcoef",
    "Correlate",
    "EmptyLike",
    "ExtractSequences",
    "Fold",
    "Full",
    "Gcd",
    "Geomspace",
    "IsIn",
    "JVP",
    "Lcm",
    "Ldexp",
    "Linspace",
    "Logspace",
    "Lstsq",
    "LuFactor",
    "MatrixRank",
    "Nanargmax",
    "Nanargmin",
    "Nancumprod",
    "Nancumsum",
    "Nanmedian",
    "Nanpercentile",
    "Nanquantile",
    "Nanstd",
    "Nanvar",
    "Ndim",
    "Nextafter",
    "SegmentReduction",
    "Size",
    "Unfold",
    "UnravelIndex",
    "Vander",
}


def test_every_operation_is_known_or_named() -> None:
    """All operations of this Keras are imported, or stand in the list of those that are not."""
    from keras.src.ops import image, linalg, math, nn, numpy
    from keras.src.ops.operation import Operation

    found = {
        n
        for m in (image, linalg, math, nn, numpy)
        for n, v in vars(m).items()
        if inspect.isclass(v) and issubclass(v, Operation) and v is not Operation
    }
    assert found - set(supported_operations()) <= MISSING
    assert not MISSING & set(supported_operations())


def test_layers_of_the_authors_own_say_so() -> None:
    class Doubled(keras.layers.Layer):  # type: ignore[misc,name-defined]
        def call(self, x: Any) -> Any:
            return x * 2

    x = keras.Input((3,))
    with pytest.raises(
        OpNotImplemented,
        match=r"Doubled \(1 layer: 'mine'\): a class of the model's author, whose call\(\) .* keras.ops",
    ):
        from_keras(keras.Model(x, Doubled(name="mine")(x)))
