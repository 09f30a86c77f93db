"""Every layer of Keras, by itself and in small models, beside Keras on its torch backend."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.keras.models import data_for, interpreted_outputs, keras, keras_outputs, shuffled
from tilewright.relay.frontend.keras import from_keras, supported_layers

L = keras.layers
LayerScale = import_module("keras.src.applications.convnext").LayerScale

IMAGE, LINE, VOLUME, ROW, STEPS = (9, 8, 4), (10, 4), (5, 6, 5, 2), (7,), (5, 6)
Made = Callable[[], Any]


def one(make: Callable[[], Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Made:
    """A model of one layer."""

    def build() -> Any:
        inputs = [keras.Input(s, dtype=dtype) for s in shapes]
        return keras.Model(inputs, make()(inputs if len(inputs) > 1 else inputs[0]))

    return build


def functional(f: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Made:
    """A model of a function of its inputs."""

    def build() -> Any:
        inputs = [keras.Input(s, dtype=dtype) for s in shapes]
        return keras.Model(inputs, f(*inputs))

    return build


MODELS: dict[str, Made] = {
    "dense": one(lambda: L.Dense(5, activation="relu"), ROW),
    "dense_plain": one(lambda: L.Dense(5, use_bias=False), STEPS),
    "layer_scale": functional(lambda x: LayerScale(0.2, 7)(LayerScale(0.1, 7)(x)), ROW),
    "einsum_dense": one(lambda: L.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), STEPS),
    "einsum_dense_heads": one(lambda: L.EinsumDense("...x,xhd->...hd", (2, 3), activation="relu"), STEPS),
    "embedding": one(lambda: L.Embedding(7, 3), (6,), dtype="int32"),
    "reshape": one(lambda: L.Reshape((3, -1)), STEPS),
    "permute": one(lambda: L.Permute((2, 1)), STEPS),
    "flatten": one(lambda: L.Flatten(), IMAGE),
    "flatten_first": one(lambda: L.Flatten(data_format="channels_first"), IMAGE),
    "repeat_vector": one(lambda: L.RepeatVector(3), ROW),
    "dot": one(lambda: L.Dot(axes=(2, 2)), STEPS, STEPS),
    "dot_rows": one(lambda: L.Dot(axes=1, normalize=True), ROW, ROW),
    "concatenate": one(lambda: L.Concatenate(axis=1), STEPS, STEPS),
    "masking": one(lambda: L.Masking(), STEPS),
    "unit_normalization": one(lambda: L.UnitNormalization(), STEPS),
    "batch_norm": one(lambda: L.BatchNormalization(scale=False), IMAGE),
    "batch_norm_axis": one(lambda: L.BatchNormalization(axis=1, epsilon=0.1), STEPS),
    "layer_norm": one(lambda: L.LayerNormalization(), STEPS),
    "layer_norm_axes": one(lambda: L.LayerNormalization(axis=[1, 2], center=False), STEPS),
    "rms_norm": one(lambda: L.RMSNormalization(), STEPS),
    "group_norm": one(lambda: L.GroupNormalization(2), IMAGE),
    "spectral": one(lambda: L.SpectralNormalization(L.Dense(4)), ROW),
    "rescaling": one(lambda: L.Rescaling(1 / 127.5, offset=-1.0), IMAGE),
    "normalization": one(lambda: L.Normalization(mean=[1.0, 2, 3, 4], variance=[1.0, 4, 9, 16]), IMAGE),
    "resizing": one(lambda: L.Resizing(5, 12), IMAGE),
    "resizing_nearest": one(lambda: L.Resizing(18, 4, interpolation="nearest"), IMAGE),
    "resizing_crop": one(lambda: L.Resizing(4, 4, crop_to_aspect_ratio=True), IMAGE),
    "center_crop": one(lambda: L.CenterCrop(4, 5), IMAGE),
    "category_multi": one(lambda: L.CategoryEncoding(6), (4,), dtype="int32"),
    "category_one": one(lambda: L.CategoryEncoding(6, output_mode="one_hot"), (1,), dtype="int32"),
    "category_count": one(lambda: L.CategoryEncoding(6, output_mode="count"), (4,), dtype="int32"),
    "discretization": one(lambda: L.Discretization([-0.5, 0.0, 0.7]), ROW),
    "softmax": one(lambda: L.Softmax(axis=1), STEPS),
    "softmax_axes": one(lambda: L.Softmax(axis=(1, 2)), STEPS),
    "prelu": one(lambda: L.PReLU(shared_axes=[1, 2]), IMAGE),
    "relu": one(lambda: L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2), STEPS),
    "leaky": one(lambda: L.LeakyReLU(0.2), STEPS),
    "elu": one(lambda: L.ELU(0.7), STEPS),
    "time_distributed": one(lambda: L.TimeDistributed(L.Conv2D(3, 3)), (4, *IMAGE)),
    "lstm": one(lambda: L.LSTM(3), STEPS),
    "lstm_without_activations": one(lambda: L.LSTM(3, activation=None, recurrent_activation=None), STEPS),
    "gru_without_activations": one(lambda: L.GRU(3, activation=None, recurrent_activation=None), STEPS),
    "lstm_all": one(lambda: L.LSTM(3, return_sequences=True, return_state=True, go_backwards=True), STEPS),
    "gru": one(lambda: L.GRU(3), STEPS),
    "gru_before": one(lambda: L.GRU(3, reset_after=False, return_sequences=True), STEPS),
    "simple_rnn": one(lambda: L.SimpleRNN(3, activation="relu", use_bias=False), STEPS),
    "rnn_stack": one(lambda: L.RNN([L.LSTMCell(3), L.GRUCell(2)], return_state=True), STEPS),
    "rnn_cell": one(lambda: L.RNN(L.SimpleRNNCell(3), return_sequences=True), STEPS),
    "bidirectional": one(lambda: L.Bidirectional(L.LSTM(3, return_sequences=True)), STEPS),
    "bidirectional_sum": one(lambda: L.Bidirectional(L.GRU(3), merge_mode="sum"), STEPS),
    "bidirectional_state": one(lambda: L.Bidirectional(L.LSTM(3, return_state=True), merge_mode="ave"), STEPS),
    "initial_state": functional(lambda x, h, m: L.LSTM(3)(x, initial_state=[h, m]), STEPS, (3,), (3,)),
    "masked_lstm": functional(
        lambda x: L.LSTM(3)(L.Embedding(5, 4, mask_zero=True)(x)), (6,), dtype="int32"
    ),
    "masked_bidirectional": functional(
        lambda x: L.Bidirectional(L.GRU(3, return_sequences=True))(L.Embedding(5, 4, mask_zero=True)(x)), (6,), dtype="int32"
    ),
    "masked_mean": functional(
        lambda x: L.GlobalAveragePooling1D()(L.Embedding(5, 4, mask_zero=True)(x)), (6,), dtype="int32"
    ),
    "conv_lstm_1d": one(lambda: L.ConvLSTM1D(3, 3, padding="same"), (4, 7, 2)),
    "conv_lstm_2d": one(lambda: L.ConvLSTM2D(2, 3, return_sequences=True), (3, 6, 5, 2)),
    "multi_head": functional(lambda x, y: L.MultiHeadAttention(2, 3)(x, y), STEPS, (4, 6)),
    "multi_head_causal": functional(
        lambda x: L.MultiHeadAttention(2, 3, value_dim=4, use_bias=False)(x, x, use_causal_mask=True), STEPS
    ),
    "multi_head_2d": functional(
        lambda x: L.MultiHeadAttention(2, 3, attention_axes=(1, 2), output_shape=5)(x, x), (4, 3, 6)
    ),
    "multi_head_scores": functional(lambda x: L.MultiHeadAttention(2, 3)(x, x, return_attention_scores=True), STEPS),
    "grouped_attention": functional(lambda x: L.GroupQueryAttention(3, 4, 2)(x, x), STEPS),
    "attention": functional(lambda x, y: L.Attention(use_scale=True)([x, y]), STEPS, (4, 6)),
    "attention_concat": functional(lambda x, y: L.Attention(score_mode="concat")([x, y]), STEPS, (4, 6)),
    "additive_attention": functional(lambda x, y: L.AdditiveAttention()([x, y]), STEPS, (4, 6)),
}  # fmt: skip

for _name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"):
    MODELS[_name.lower()] = one(lambda name=_name: getattr(L, name)(), STEPS, STEPS)
for _n, _shape in ((1, LINE), (2, IMAGE), (3, VOLUME)):
    for _padding in ("valid", "same"):
        MODELS[f"conv{_n}d_{_padding}"] = one(
            lambda n=_n, p=_padding: getattr(L, f"Conv{n}D")(6, 3, padding=p, activation="tanh"), _shape
        )
        MODELS[f"conv{_n}d_strides_{_padding}"] = one(
            lambda n=_n, p=_padding: getattr(L, f"Conv{n}D")(6, 3, 2, padding=p, groups=2), _shape
        )
        MODELS[f"conv{_n}d_transpose_{_padding}"] = one(
            lambda n=_n, p=_padding: getattr(L, f"Conv{n}DTranspose")(3, 3, 2, padding=p), _shape
        )
        for _key in ("Max", "Average") if _padding == "valid" else ("Max",):
            MODELS[f"{_key.lower()}_pool{_n}d_{_padding}"] = one(
                lambda n=_n, p=_padding, k=_key: getattr(L, f"{k}Pooling{n}D")(3, 2, padding=p), _shape
            )
    for _key in ("Max", "Average"):
        MODELS[f"global_{_key.lower()}{_n}d"] = one(
            lambda n=_n, k=_key: getattr(L, f"Global{k}Pooling{n}D")(keepdims=n == 2), _shape
        )
        MODELS[f"adaptive_{_key.lower()}{_n}d"] = one(
            lambda n=_n, k=_key: getattr(L, f"Adaptive{k}Pooling{n}D")(2), _shape
        )
    MODELS[f"zero_padding{_n}d"] = one(
        lambda n=_n: getattr(L, f"ZeroPadding{n}D")(((1, 2),) * n if n > 1 else (1, 2)), _shape
    )
    MODELS[f"cropping{_n}d"] = one(lambda n=_n: getattr(L, f"Cropping{n}D")(1), _shape)
    MODELS[f"upsampling{_n}d"] = one(lambda n=_n: getattr(L, f"UpSampling{n}D")(2), _shape)
MODELS |= {
    "conv1d_causal": one(lambda: L.Conv1D(6, 3, padding="causal", dilation_rate=2), LINE),
    "conv2d_dilated": one(lambda: L.Conv2D(6, 3, padding="same", dilation_rate=2), IMAGE),
    "conv2d_window": one(lambda: L.Conv2D(6, (3, 2), (2, 1), padding="same", use_bias=False), IMAGE),
    "transpose_output": one(lambda: L.Conv2DTranspose(3, 4, 2, padding="same", use_bias=False), IMAGE),
    "depthwise1d": one(lambda: L.DepthwiseConv1D(3, depth_multiplier=2), LINE),
    "depthwise2d": one(lambda: L.DepthwiseConv2D(3, 2, padding="same", depth_multiplier=2), IMAGE),
    "separable1d": one(lambda: L.SeparableConv1D(5, 3), LINE),
    "separable2d": one(lambda: L.SeparableConv2D(5, 3, padding="same", activation="relu"), IMAGE),
    "upsampling_bilinear": one(lambda: L.UpSampling2D((2, 3), interpolation="bilinear"), IMAGE),
}
for _name in (
    "linear", "relu", "relu6", "elu", "selu", "gelu", "softmax", "log_softmax", "sigmoid", "tanh", "exponential", "softplus",
    "softsign", "silu", "hard_sigmoid", "hard_silu", "hard_tanh", "tanh_shrink", "soft_shrink", "hard_shrink", "leaky_relu", "mish",
    "celu", "glu", "log_sigmoid", "squareplus", "sparse_plus", "threshold", "sparse_sigmoid",
):  # fmt: skip
    if hasattr(keras.activations, _name):
        MODELS[f"activation_{_name}"] = one(
            lambda name=_name: L.Activation(getattr(keras.activations, name) if name != "threshold" else "relu"), STEPS
        )
for _name in ("Dropout", "GaussianNoise", "SpatialDropout2D", "RandomFlip"):
    MODELS[_name.lower()] = one(lambda name=_name: getattr(L, name)(*([0.3] if "Random" not in name else [])), IMAGE)


def check(model: Any, source: Any = None, batch: int = 2, pinned: bool = True, rtol: float = 1e-4) -> None:
    """The importer's program computes what Keras does."""
    data = data_for(model, batch)
    names = [x._keras_history.operation.name for x in model.inputs]
    shape = {n: x.shape for n, x in zip(names, data, strict=True)} if pinned else None
    mod, params = from_keras(source if source is not None else model, shape=shape, layout="NHWC")
    wanted = keras_outputs(model, data)
    found = interpreted_outputs(mod, params, data)
    assert len(found) == len(wanted)
    for made, want in zip(found, wanted, strict=True):
        assert made.shape == want.shape
        np.testing.assert_allclose(
            made.astype("float64"), want.astype("float64"), rtol=rtol, atol=1e-4 * max(1, np.abs(want).max()) / 10
        )


@pytest.mark.parametrize("name", MODELS)
def test_layer(name: str) -> None:
    model = MODELS[name]()
    shuffled(model)
    check(model)


def test_means_leave_out_padding() -> None:
    """As on TensorFlow and JAX; Keras on torch repeats the last row instead."""
    model = one(lambda: L.AveragePooling1D(3, 2, padding="same"), (4, 1))()
    mod, params = from_keras(model, layout="NHWC")
    data = np.array([1.0, 2, 4, 8], "float32").reshape(1, 4, 1)
    (made,) = interpreted_outputs(mod, params, [data])
    np.testing.assert_allclose(made.reshape(-1), [7 / 3, 6])


def test_sparsemax() -> None:
    """By its definition: what is left of x - t above 0 sums to 1."""
    model = one(lambda: L.Activation("sparsemax"), (6,))()
    mod, params = from_keras(model, layout="NHWC")
    (data,) = data_for(model, 4)
    (made,) = interpreted_outputs(mod, params, [data])
    np.testing.assert_allclose(made.sum(-1), 1, rtol=1e-5)
    shift = np.where(made > 0, data - made, np.nan)
    np.testing.assert_allclose(np.nanmax(shift, -1), np.nanmin(shift, -1), rtol=1e-4, atol=1e-6)


def test_all_layers_are_known() -> None:
    """Every layer of this Keras is imported, but those that docs/keras.md names."""
    others = {
        "TFSMLayer", "FlaxLayer", "JaxLayer", "TorchModuleWrapper", "Layer", "Wrapper", "InputSpec", "Pipeline", "MelSpectrogram",
        "STFTSpectrogram", "AutoContrast", "Equalization", "ContrastLimitedAdaptiveHistogramEqualization", "MaxNumBoundingBoxes",
        "Solarization", "Lambda",
    }  # fmt: skip
    import inspect

    names = {v.__name__ for v in vars(L).values() if inspect.isclass(v)}
    assert names - others - set(supported_layers()) == set()
    page = (Path(__file__).parents[3] / "docs" / "keras.md").read_text()
    limits = page[page.index("## Limits") :]
    assert {n for n in others - {"Layer", "Wrapper", "InputSpec"} if f"`{n}`" not in limits} == set()
