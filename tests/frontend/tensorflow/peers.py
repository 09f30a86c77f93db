"""The TensorFlow importer beside TensorFlow itself (make test-tensorflow): operators, loops, SavedModels, one model in several formats."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tilewright import relay
from tilewright.relay.frontend.tensorflow import from_tensorflow

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return rng.standard_normal(shape).astype("float32")


def run(mod: Any, params: Any, data: Sequence[Array]) -> list[Array]:
    made = relay.create_executor("vm", mod=mod).evaluate()(*data, **params)
    return [made.numpy()] if hasattr(made, "numpy") else [m.numpy() for m in made]


def same(found: Sequence[Array], wanted: Sequence[Any], rtol: float = 1e-4) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, [np.asarray(w) for w in wanted], strict=True):
        assert (a.dtype.name, a.shape) == (b.dtype.name, b.shape)
        np.testing.assert_allclose(
            a.astype("float64"),
            b.astype("float64"),
            rtol=rtol,
            atol=rtol / 10 * max(1, float(np.abs(b).max(initial=0))),
        )


def graph_def(f: Callable[..., Any], data: Sequence[Array]) -> Any:
    """The frozen graph that TensorFlow writes of a function of tensors."""
    specs = [tf.TensorSpec(x.shape, x.dtype, name=f"x{n}") for n, x in enumerate(data)]
    return convert_variables_to_constants_v2(tf.function(f).get_concrete_function(*specs)).graph.as_graph_def()


def check(
    f: Callable[..., Any],
    *data: Array,
    frozen: bool = False,
    lower: bool = False,
    dynamic_axes: bool = False,
    rtol: float = 1e-4,
) -> None:
    """A function of tensors, as the graph that TensorFlow writes of it."""
    specs = [
        tf.TensorSpec([None if dynamic_axes and k == 0 else d for k, d in enumerate(x.shape)], x.dtype, name=f"x{n}")
        for n, x in enumerate(data)
    ]
    concrete = tf.function(f).get_concrete_function(*specs)
    wanted = tf.nest.flatten(tf.function(f)(*[tf.constant(x) for x in data]))
    if frozen or lower:
        concrete = convert_variables_to_constants_v2(concrete, lower_control_flow=lower)
    outputs = [t.name for t in concrete.outputs]
    mod, params = from_tensorflow(concrete.graph.as_graph_def(), outputs=outputs)
    same(run(mod, params, data), wanted, rtol)


X, Y, P = numbers(3, 4), numbers(3, 4), np.abs(numbers(3, 4)) + 0.1
IMAGE, K = numbers(2, 9, 8, 4), numbers(3, 3, 4, 6)
SEQ = numbers(2, 5, 3)
I4 = np.array([[0, 2], [1, 0]], "int32")
raw = tf.raw_ops

OPERATORS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "unary": (
        lambda x: (
            tf.exp(x)
            + tf.tanh(x)
            + tf.sin(x)
            + tf.math.erf(x)
            + tf.sigmoid(x)
            + tf.floor(x)
            + tf.round(x)
            + tf.sign(x)
            + tf.abs(x)
        ),
        (X,),
    ),
    "roots": (
        lambda x: (
            tf.sqrt(x) + tf.math.rsqrt(x) + tf.math.log(x) + tf.math.log1p(x) + tf.math.reciprocal(x) + tf.math.expm1(x)
        ),
        (P,),
    ),
    "activations": (
        lambda x: (
            tf.nn.relu6(x) + tf.nn.elu(x) + tf.nn.selu(x) + tf.nn.leaky_relu(x) + tf.nn.softplus(x) + tf.nn.softsign(x)
        ),
        (X,),
    ),
    "softmax": (lambda x: tf.nn.softmax(x) + tf.nn.log_softmax(x), (X,)),
    "binary": (
        lambda x, y: (
            x / y + tf.maximum(x, y) * tf.minimum(x, y) - tf.math.squared_difference(x, y) + tf.math.floormod(x, y)
        ),
        (X, P),
    ),
    "integers": (
        lambda x: (x // 2) * 3 + x % 3 - tf.bitwise.bitwise_and(x, 3),
        (np.arange(-6, 6, dtype="int32").reshape(3, 4),),
    ),
    "no_nan": (lambda x, y: tf.math.divide_no_nan(x, tf.floor(y)) + tf.math.xlogy(tf.nn.relu(x), y), (X, P)),
    "atan2": (lambda x, y: tf.atan2(x, y), (X, Y)),
    "compare": (lambda x, y: (x > y, tf.logical_and(x > 0, y <= 0), tf.equal(x, y), tf.math.is_nan(x)), (X, Y)),
    "where": (lambda x, y: tf.where(x > y, x, y) + tf.where(x > 0, 1.0, 0.0), (X, Y)),
    "reduce": (
        lambda x: (
            tf.reduce_sum(x, 1),
            tf.reduce_mean(x, 0, True),
            tf.reduce_max(x),
            tf.reduce_prod(x, [0, 1]),
            tf.reduce_any(x > 0, 1),
            tf.norm(x),
        ),
        (X,),
    ),
    "arg": (lambda x: (tf.argmax(x, 1), tf.argmin(x, 0, output_type=tf.int32)), (X,)),
    "cumsum": (lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True) + tf.math.cumprod(x, 0), (X,)),
    "matmul": (lambda x, y: (tf.matmul(x, y, transpose_b=True), tf.matmul(x, y, transpose_a=True)), (X, Y)),
    "batch_matmul": (lambda x: tf.matmul(x, x, transpose_b=True), (SEQ,)),
    "einsum": (lambda x, y: tf.einsum("bij,bkj->bik", x, y) + tf.einsum("...ij,...kj->...ik", x, y), (SEQ, SEQ)),
    "shapes": (lambda x: tf.squeeze(tf.expand_dims(tf.transpose(tf.reshape(x, [2, 2, 3]), [2, 0, 1]), 1), 1), (X,)),
    "concat": (lambda x, y: tf.concat([x, y], 1) + tf.concat([y, x], -1), (X, Y)),
    "pack": (lambda x, y: tf.stack([x, y, x], 1), (X, Y)),
    "unpack": (lambda x: tf.unstack(x, axis=1), (X,)),
    "split": (lambda x: [*tf.split(x, 2, 1), *tf.split(x, [1, 3], 1)], (X,)),
    "tile": (lambda x: tf.tile(x, [2, 1]) + tf.repeat(x, 2, 0), (X,)),
    "pad": (
        lambda x: (
            tf.pad(x, [[1, 0], [2, 1]]),
            tf.pad(x, [[1, 1], [1, 1]], "REFLECT"),
            tf.pad(x, [[1, 1], [1, 1]], "SYMMETRIC"),
            tf.pad(x, [[1, 0], [0, 1]], constant_values=3.0),
        ),
        (X,),
    ),
    "slices": (
        lambda x: (x[1:, ::2], x[-1], x[..., tf.newaxis, 1:3], x[:, ::-1], x[1, 2], tf.slice(x, [1, 0], [2, -1])),
        (X,),
    ),
    "open_slices": (lambda x, i: x[i[0, 0] : i[0, 1]], (X, I4)),
    "index": (lambda x, i: x[i[0, 1]], (X, I4)),
    "gather": (lambda x, i: (tf.gather(x, i), tf.gather(x, i[0], axis=1), tf.gather_nd(x, i)), (X, I4)),
    "gather_batch": (lambda x, i: tf.gather(x, i, batch_dims=1), (SEQ, I4)),
    "scatter": (
        lambda x, i: (
            tf.scatter_nd(i, x[:2, 0], [3, 4]),
            tf.tensor_scatter_nd_update(x, i, [1.0, 2.0]),
            tf.tensor_scatter_nd_add(x, i, [1.0, 2.0]),
        ),
        (X, I4),
    ),
    "one_hot": (lambda i: tf.one_hot(i, 4) + tf.one_hot(i, 4, 2.0, -1.0), (I4,)),
    "segments": (lambda x: tf.math.unsorted_segment_sum(x, [0, 2, 0], 4), (X,)),
    "nonzero": (lambda x: tf.where(x > 0), (X,)),
    "unique": (lambda i: tf.unique(tf.reshape(i, [-1])), (I4,)),
    "topk": (lambda x: tf.math.top_k(x, 2), (X,)),
    "topk of none": (lambda x: tf.math.top_k(x, 0), (X,)),
    "reverse": (lambda x: tf.reverse(x, [1]) + tf.roll(x, 1, 0), (X,)),
    "reverse_sequence": (lambda x: tf.reverse_sequence(x, [2, 4], 1), (SEQ,)),
    "band": (lambda x: tf.linalg.band_part(x, 0, -1) + tf.linalg.diag(x[0])[:3], (X,)),
    "diag": (lambda x: tf.linalg.diag_part(x) + tf.linalg.set_diag(x, [1.0, 2.0, 3.0])[:, 0], (X,)),
    "cast": (lambda x: (tf.cast(x * 3, tf.int32), tf.cast(x > 0, tf.float32)), (X,)),
    # What no output needs is not an input of the program, so the ones are made of x.
    "range": (lambda x: tf.range(0, 6, 2) + tf.shape(x)[0] * tf.cast(x[:, 0] < 99, tf.int32), (X,)),
    "clip": (lambda x: tf.clip_by_value(x, -0.5, 0.5) + tf.clip_by_norm(x, 1.0), (X,)),
    "conv": (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME") + 1, (IMAGE, K)),
    "conv_strides": (lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"), (IMAGE, K)),
    "conv_explicit": (lambda x, k: tf.nn.conv2d(x, k, 2, [[0, 0], [1, 0], [2, 1], [0, 0]]), (IMAGE, K)),
    "conv_dilated": (lambda x, k: tf.nn.conv2d(x, k, 1, "VALID", dilations=2), (IMAGE, K)),
    "conv_atrous": (lambda x, k: tf.nn.atrous_conv2d(x, k, 2, "SAME"), (IMAGE, K)),
    "conv_1d": (lambda x: tf.nn.conv1d(x, tf.ones([3, 3, 2]), 1, "SAME"), (SEQ,)),
    "conv_3d": (
        lambda x: tf.nn.conv3d(x, tf.ones([2, 2, 2, 2, 3]), [1, 2, 1, 2, 1], "SAME"),
        (numbers(1, 4, 5, 4, 2),),
    ),
    "depthwise": (lambda x: tf.nn.depthwise_conv2d(x, tf.ones([3, 3, 4, 2]), [1, 2, 2, 1], "SAME"), (IMAGE,)),
    "transposed": (
        lambda x, k: tf.nn.conv2d_transpose(x[..., :], tf.transpose(k, [0, 1, 3, 2]), [2, 18, 16, 6], 2, "SAME"),
        (IMAGE, K),
    ),
    "transposed_valid": (
        lambda x, k: tf.nn.conv2d_transpose(x, tf.transpose(k, [0, 1, 3, 2]), [2, 19, 17, 6], 2, "VALID"),
        (IMAGE, K),
    ),
    "pools": (lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME") + tf.nn.avg_pool2d(x, 3, 2, "SAME"), (IMAGE,)),
    "pools_3d": (
        lambda x: tf.nn.avg_pool3d(x, 2, 2, "VALID") + tf.nn.max_pool3d(x, 2, 2, "VALID"),
        (numbers(1, 4, 4, 4, 2),),
    ),
    "batch_norm": (
        lambda x: raw.FusedBatchNormV3(
            x=x, scale=[1.0, 2, 3, 4], offset=[0.0, 1, 2, 3], mean=[0.1] * 4, variance=[0.5] * 4, is_training=False
        )[0],
        (IMAGE,),
    ),
    "batch_norm_training": (
        lambda x: raw.FusedBatchNormV3(
            x=x, scale=[1.0, 2, 3, 4], offset=[0.0, 1, 2, 3], mean=[], variance=[], is_training=True
        )[0],
        (IMAGE,),
    ),
    "lrn": (lambda x: tf.nn.lrn(x, 2, 1.0, 0.1, 0.75), (IMAGE,)),
    "dilation2d": (
        lambda x: raw.Dilation2D(
            input=x, filter=tf.ones([2, 2, 4]), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"
        ),
        (IMAGE,),
    ),
    "bilinear": (lambda x: tf.image.resize(x, [5, 17]), (IMAGE,)),
    "bilinear_align": (lambda x: raw.ResizeBilinear(images=x, size=[5, 17], align_corners=True), (IMAGE,)),
    "area": (lambda x: raw.ResizeArea(images=x, size=[5, 12]), (IMAGE,)),
    "area_align": (lambda x: raw.ResizeArea(images=x, size=[4, 5], align_corners=True), (IMAGE,)),
    "colours": (
        lambda x: tf.concat(
            [
                tf.image.rgb_to_hsv(x),
                tf.image.hsv_to_rgb(x),
                tf.image.adjust_hue(x, 0.2),
                tf.image.adjust_saturation(x, 0.4),
                tf.image.adjust_contrast(x, 1.5),
            ],
            -1,
        ),
        (np.abs(np.sin(IMAGE[..., :3])),),
    ),
    "spectra": (
        lambda x: (
            tf.abs(tf.signal.rfft(x, [10])),
            tf.signal.irfft(tf.signal.rfft(x)),
            tf.math.imag(tf.signal.fft2d(tf.complex(x, x))),
        ),
        (SEQ,),
    ),
    "stft": (lambda x: tf.abs(tf.signal.stft(x, 8, 4)), (numbers(2, 32),)),
    "segment_means": (
        lambda x: (tf.math.segment_mean(x, [0, 0, 2]), tf.sparse.segment_sqrt_n(x, [2, 1, 0], [0, 2, 2])),
        (X,),
    ),
    "counts": (
        lambda x: tf.math.bincount(tf.constant([1, 4, 1]), minlength=5, maxlength=5, dtype=tf.float32) + x[0, 0],
        (X,),
    ),
    "sparse_cross_entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 3], logits=x),
        (X,),
    ),
    "bilinear_old": (lambda x: raw.ResizeBilinear(images=x, size=[18, 16]), (IMAGE,)),
    "nearest": (lambda x: tf.image.resize(x, [5, 17], "nearest"), (IMAGE,)),
    "nearest_old": (lambda x: raw.ResizeNearestNeighbor(images=x, size=[18, 16]), (IMAGE,)),
    "bicubic": (lambda x: tf.image.resize(x, [5, 17], "bicubic"), (IMAGE,)),
    "crop_and_resize": (lambda x: tf.image.crop_and_resize(x, [[0.1, 0.2, 0.8, 0.9]], [1], [4, 4]), (IMAGE,)),
    "depth": (
        lambda x: tf.nn.depth_to_space(x, 2)[:, :8] + 0 * tf.reduce_sum(tf.nn.space_to_depth(x[:, :8], 2)),
        (IMAGE,),
    ),
    "batches": (
        lambda x: tf.batch_to_space(tf.space_to_batch(x, [2, 2], [[0, 1], [0, 0]]), [2, 2], [[0, 0], [0, 0]]),
        (IMAGE,),
    ),
    "patches": (lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), (IMAGE,)),
    "fake_quant": (lambda x: tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.5), (X,)),
    "fake_quant_vars": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 4, [1.0, 2, 3, 0.5]),
        (X,),
    ),
    "nms": (
        lambda b, s: tf.image.non_max_suppression(b, s, 3, 0.4),
        (
            np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3], [0, 0, 0.9, 1]], "float32"),
            np.array([0.5, 0.9, 0.3, 0.8], "float32"),
        ),
    ),
    "block_lstm": (
        lambda x, h: raw.BlockLSTM(
            seq_len_max=4,
            x=x,
            cs_prev=h,
            h_prev=h,
            w=tf.ones([7, 16]) * 0.1,
            wci=tf.zeros([4]),
            wcf=tf.zeros([4]),
            wco=tf.zeros([4]),
            b=tf.zeros([16]),
        )[6],
        (numbers(4, 2, 3), numbers(2, 4)),
    ),
    "gru_cell": (
        lambda x, h: raw.GRUBlockCell(
            x=x, h_prev=h, w_ru=tf.ones([7, 8]) * 0.1, w_c=tf.ones([7, 4]) * 0.2, b_ru=tf.zeros([8]), b_c=tf.zeros([4])
        )[3],
        (numbers(2, 3), numbers(2, 4)),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    f, data = OPERATORS[name]
    # TensorFlow has the bicubic kernel in a table of 1,024 places.
    check(f, *data, rtol=0.3 if name == "bicubic" else 1e-4)


def counted(x: Any) -> Any:
    return tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 2 + tf.cast(i, tf.float32)), [0, x])[1]


def by_data(x: Any) -> Any:
    return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: (v * 1.7,), [tf.abs(x) + 0.1])[0]


def branching(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: tf.nn.relu(-x) + 1)


def nested(x: Any) -> Any:
    def body(i: Any, v: Any) -> Any:
        inner = tf.while_loop(lambda j, w: j < i, lambda j, w: (j + 1, w + 1.0), [0, v])[1]
        return i + 1, tf.cond(tf.reduce_max(inner) > 3.0, lambda: inner * 0.5, lambda: inner)

    return tf.while_loop(lambda i, v: tf.reduce_sum(v) < 50.0, body, [0, x])[1]


def arrays(x: Any) -> Any:
    out = tf.TensorArray(tf.float32, 5)
    rows = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def body(i: Any, h: Any, o: Any) -> Any:
        h = tf.tanh(h + rows.read(i))
        return i + 1, h, o.write(i, h)

    _, h, out = tf.while_loop(lambda i, h, o: i < 5, body, [0, tf.zeros([2, 3]), out])
    return h, out.stack()


def long_arrays(x: Any) -> Any:
    n = tf.shape(x)[0] * 40

    def body(i: Any, h: Any, o: Any) -> Any:
        h = h * 0.5 + x[0, 0] + tf.cast(i, tf.float32)
        return i + 1, h, o.write(i, h)

    return tf.while_loop(lambda i, h, o: i < n, body, [0, tf.zeros([3]), tf.TensorArray(tf.float32, n)])[2].stack()


def counted_arrays(x: Any) -> Any:
    """An array of as many items as the data say, of which a loop writes every other one."""
    n = tf.cast(tf.reduce_max(tf.abs(x)) * 4, tf.int32) + 2
    out = tf.TensorArray(tf.float32, n, element_shape=[3])

    def body(i: Any, o: Any) -> Any:
        return i + 2, o.write(i, x[0, 0] * tf.cast(i, tf.float32))

    out = tf.while_loop(lambda i, o: i < n, body, [0, out])[1]
    return out.stack(), out.size()


def growing(x: Any) -> Any:
    """Items behind the end of an array, as many as the data say."""

    def body(h: Any, i: Any, o: Any) -> Any:
        return h * 1.7, i + 1, o.write(i, h)

    out = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    return tf.while_loop(lambda h, i, o: tf.reduce_sum(h) < 1e9, body, [tf.abs(x) + 0.1, 0, out])[2].stack()


def mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row) * 2, x)


def scanned(x: Any) -> Any:
    return tf.scan(lambda a, b: a * 0.5 + b, x)


def cased(x: Any) -> Any:
    return tf.switch_case(tf.cast(tf.reduce_sum(x) * 0 + 1, tf.int32), [lambda: x + 1, lambda: x * 3, lambda: -x])


LOOPS = {
    f.__name__: (f, SEQ)
    for f in (
        counted,
        by_data,
        branching,
        nested,
        arrays,
        long_arrays,
        counted_arrays,
        growing,
        mapped,
        scanned,
        cased,
    )  # fmt: skip
}


@pytest.mark.parametrize("form", ["functions", "frozen", "lowered"])
@pytest.mark.parametrize("name", LOOPS)
def test_control_flow(name: str, form: str) -> None:
    f, data = LOOPS[name]
    check(f, data, frozen=form != "functions", lower=form == "lowered")


def test_old_graph() -> None:
    """A graph of TensorFlow 1: variables, Switch and Merge, loops with tensor arrays."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        tf.compat.v1.disable_control_flow_v2()
        tf.compat.v1.disable_resource_variables()
        x = tf.compat.v1.placeholder(tf.float32, [2, 5, 3], "x")
        y = tf.identity(
            branching(x) + counted(x) + tf.reduce_sum(arrays(x)[1]) + nested(tf.abs(x)) + growing(x)[-1], "y"
        )
        wanted = session.run(y, {x: SEQ})
        tf.compat.v1.enable_control_flow_v2()
        tf.compat.v1.enable_resource_variables()
    proto = graph.as_graph_def()
    assert {"Switch", "Merge", "TensorArrayV3"} <= {n.op for n in proto.node}
    mod, params = from_tensorflow(proto, outputs=["y"])
    same(run(mod, params, [SEQ]), [wanted])


def small_model() -> Any:
    keras = tf.keras
    x = keras.Input((12, 10, 3), name="image")
    y = keras.layers.Conv2D(8, 3, strides=2, padding="same")(x)
    y = keras.layers.ReLU(6.0)(keras.layers.BatchNormalization()(y))
    y = keras.layers.DepthwiseConv2D(3, padding="same")(y)
    y = keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same")(y)
    z = keras.layers.Reshape((12, 40))(y)
    z = keras.layers.Bidirectional(keras.layers.LSTM(5))(z)
    return keras.Model(x, keras.layers.Dense(4, activation="softmax", name="scores")(z))


@pytest.fixture(scope="module")
def model() -> Any:
    made = small_model()
    for w in made.weights:
        w.assign(
            np.abs(rng.standard_normal(w.shape)) * 0.3 if "variance" in w.name else rng.standard_normal(w.shape) * 0.3
        )
    return made


def test_one_model_in_three_formats(model: Any, tmp_path: Path) -> None:
    data = numbers(2, 12, 10, 3)
    wanted = [model(data).numpy()]
    folder, archive = tmp_path / "saved", tmp_path / "m.keras"
    model.export(str(folder), verbose=False)
    model.save(archive)
    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures["serving_default"]
    name = next(iter(signature.structured_input_signature[1]))
    mod, params = from_tensorflow(folder, shape={name: data.shape})
    same(run(mod, params, [data]), wanted)
    mod, params = relay.frontend.from_keras(archive, shape={"image": data.shape}, layout="NHWC")
    same(run(mod, params, [data]), wanted)
    mod, params = relay.frontend.from_keras(model, shape={"image": data.shape}, layout="NHWC")
    same(run(mod, params, [data]), wanted)
    frozen = convert_variables_to_constants_v2(signature).graph.as_graph_def()
    outputs = [n.name for n in frozen.node if n.op == "Identity"][-1:]
    mod, params = from_tensorflow(
        frozen.SerializeToString(), "NCHW", {n.name: data.shape for n in frozen.node if n.op == "Placeholder"}, outputs
    )
    same(run(mod, params, [data]), wanted)
    try:
        import tf2onnx  # noqa: F401
    except ImportError:
        return
    onnx_path = tmp_path / "m.onnx"
    model.export(str(onnx_path), format="onnx", verbose=False)
    mod, params = relay.frontend.from_onnx(onnx_path)
    same(run(mod, params, [data]), wanted)


def test_saved_module(tmp_path: Path) -> None:
    """A tf.Module with variables of several kinds, two inputs, named outputs, a dynamic batch."""

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = tf.Variable(numbers(4, 30), name="w"), tf.Variable(numbers(30), name="w")
            self.table = tf.Variable(numbers(50, 4))
            self.scale = tf.Variable(2.0)

        @tf.function(
            input_signature=[tf.TensorSpec([None, 4], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "ids")]
        )
        def __call__(self, x: Any, ids: Any) -> Any:
            h = tf.matmul(x + tf.gather(self.table, ids), self.w) + self.b
            return {"sum": tf.reduce_sum(h, 1) * self.scale, "out": tf.reshape(h, [tf.shape(x)[0], 5, 6])}

    net = Net()
    tf.saved_model.save(net, str(tmp_path / "net"))
    x, ids = numbers(3, 4), np.array([1, 7, 2], "int32")
    wanted = net(x, ids)
    mod, params = from_tensorflow(tmp_path / "net")
    assert [v.name_hint for v in mod["main"].params[:2]] == ["ids", "x"]
    same(run(mod, params, [ids, x]), [wanted["out"], wanted["sum"]])
    assert all([isinstance(p.base, np.memmap) or p.size < 32 for p in params.values()])


def test_a_growing_array_of_items_of_dynamic_dimensions() -> None:
    f = tf.function(growing).get_concrete_function(tf.TensorSpec([None, 5, 3], tf.float32))
    mod, params = from_tensorflow(f.graph.as_graph_def(), outputs=[o.name for o in f.outputs])
    for x in (SEQ, SEQ[:1]):
        same(run(mod, params, [x]), [f(tf.constant(x)).numpy()])


def test_dynamic_axes() -> None:
    check(lambda x: tf.reshape(tf.nn.relu(x), [tf.shape(x)[0] * 5, 3]) + 1.0, SEQ, dynamic_axes=True)
    check(
        lambda x: tf.concat([x, tf.zeros([tf.shape(x)[0], 1, 3])], 1) * tf.cast(tf.shape(x)[0], tf.float32),
        SEQ,
        dynamic_axes=True,
    )
