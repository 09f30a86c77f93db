"""Adjoints, sparse arithmetic, counts and serialised examples beside TensorFlow itself (make test-tensorflow)."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.common.test_operator_tables import NOT_YET
from tests.frontend.tensorflow.peers import IMAGE, Array, check, numbers, raw, tf
from tests.frontend.tensorflow.peers_tables_and_matrices import compare, strings
from tilewright.relay.frontend.tensorflow import supported_operators
from tilewright.relay.frontend.tensorflow.outputs import COUNTS, OUTPUTS
from tilewright.relay.frontend.tensorflow.unsupported import reason

X, G = numbers(3, 4), numbers(3, 4)


def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """What TensorFlow makes of a function's adjoint, for a sum of squares of what it returns."""

    def whole(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            for x in xs:
                tape.watch(x)
            y = f(*xs)
            total = tf.reduce_sum(y * y)
        return tape.gradient(total, list(xs))

    return whole


ADJOINTS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "activations": (
        lambda x: (
            gradient(lambda v: tf.nn.relu(v) + tf.nn.relu6(v * 5))(x), gradient(tf.nn.elu)(x), gradient(tf.nn.selu)(x),
            gradient(lambda v: tf.nn.leaky_relu(v, 0.3))(x), gradient(tf.nn.softplus)(x), gradient(tf.nn.softsign)(x),
            gradient(tf.sigmoid)(x), gradient(tf.tanh)(x), gradient(lambda v: tf.sqrt(v * v + 1))(x),
            gradient(lambda v: tf.math.rsqrt(v * v + 1))(x), gradient(lambda v: tf.math.reciprocal(v * v + 1))(x),
        ), (X,),
    ),
    "inverses": (lambda y, g: (raw.InvGrad(y=y, dy=g), raw.ReciprocalGrad(y=y, dy=g)), (X, G)),
    "dense": (gradient(lambda x, w, b: tf.nn.bias_add(x @ w, b)), (X, numbers(4, 2), numbers(2))),
    "energy_and_forces": (
        gradient(lambda x: tf.reduce_sum(tf.sin(x)[:, None] / (tf.reduce_sum((x[:, None] - x[None]) ** 2, 2)[..., None] + 1), 1)), (X,),
    ),
    "slices": (gradient(lambda x: x[1:, ::2] + x[:2, 1::2] * x[-1, 0]), (X,)),
    "broadcast": (gradient(lambda x, y: x * y + x[:, :1]), (X, numbers(4))),
    "max_pool": (gradient(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME")), (IMAGE,)),
    "max_pool_valid": (gradient(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")), (IMAGE,)),
    "avg_pool": (gradient(lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME")), (IMAGE,)),
    "conv": (gradient(lambda x, k: tf.nn.conv2d(x, k, 2, "SAME")), (IMAGE, numbers(3, 3, 4, 5))),
    "norm_training": (
        gradient(lambda x, a, b: tf.compat.v1.nn.fused_batch_norm(x, a, b, is_training=True)[0] * tf.sin(x)),
        (IMAGE, numbers(4), numbers(4)),
    ),
    "norm": (
        gradient(lambda x, a, b: tf.compat.v1.nn.fused_batch_norm(x, a, b, tf.zeros(4), tf.ones(4) * 2, is_training=False)[0]),
        (IMAGE, numbers(4), numbers(4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoints(name: str) -> None:
    f, data = ADJOINTS[name]
    check(f, *data)


A = np.where(numbers(4, 5) > 0.3, numbers(4, 5), 0).astype("float32")
B = np.where(numbers(4, 5) > 0.3, numbers(4, 5), 0).astype("float32")


def sparse(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: f(*[tf.sparse.from_dense(x) for x in xs])


SPARSE: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "add": (sparse(tf.sparse.add), (A, B)),
    "add_threshold": (sparse(lambda a, b: tf.sparse.add(a, b, 0.5)), (A, B)),
    "maximum": (sparse(tf.sparse.maximum), (A, B)),
    "minimum": (sparse(tf.sparse.minimum), (A, B)),
    "concat": (sparse(lambda a, b: tf.sparse.concat(1, [a, b])), (A, B)),
    "concat_rows": (sparse(lambda a, b: tf.sparse.concat(0, [a, b, a])), (A, B)),
    "slice": (sparse(lambda a: tf.sparse.slice(a, [1, 1], [2, 9])), (A,)),
    "split": (sparse(lambda a: tf.sparse.split(a, 2, 1)), (A,)),
    "sum": (sparse(lambda a: (tf.sparse.reduce_sum(a, 1), tf.sparse.reduce_sum(a, 0, keepdims=True), tf.sparse.reduce_sum(a))), (A,)),
    "max": (sparse(lambda a: (tf.sparse.reduce_max(a, 1), tf.sparse.reduce_max(a, -2))), (A,)),
    "sum_sparse": (sparse(lambda a: tf.sparse.reduce_sum(a, 1, output_is_sparse=True)), (A,)),
    "softmax": (sparse(tf.sparse.softmax), (A,)),
    "with_dense": (
        lambda a, b: (tf.sparse.from_dense(a) * b, tf.sparse.from_dense(a) / (b + 3), tf.sparse.from_dense(a) * b[:1],
                      tf.sparse.add(tf.sparse.from_dense(a), b)), (A, B),
    ),
    "bincount": (
        lambda x: (
            tf.math.bincount(tf.sparse.from_dense(x), minlength=6, maxlength=6, axis=-1),
            tf.math.bincount(tf.sparse.from_dense(x), minlength=6, maxlength=6, axis=-1, binary_output=True),
        ), (np.array([[1, 0, 5, 5], [9, 2, 0, 2]]),),
    ),
    "bincount_ragged": (
        lambda x: tf.math.bincount(
            tf.RaggedTensor.from_row_lengths(x, tf.constant([3, 0, 2], tf.int64)), minlength=7, maxlength=7, axis=-1
        ), (np.array([1, 5, 5, 2, 0]),),
    ),
    "counts": (
        lambda x: (
            tf.sparse.bincount(x), tf.sparse.bincount(x, axis=-1), tf.sparse.bincount(x, axis=-1, maxlength=4, minlength=3),
            tf.sparse.bincount(x, axis=-1, binary_output=True), tf.sparse.bincount(tf.sparse.from_dense(x), axis=-1),
        ), (np.array([[1, 0, 5, 5], [9, 2, 0, 2]]),),
    ),
    "counts_weighted": (lambda x, w: tf.sparse.bincount(x, w, axis=-1), (np.array([[1, 1, 5], [2, 2, 0]]), numbers(2, 3))),
    "counts_ragged": (
        lambda x: tf.sparse.bincount(tf.RaggedTensor.from_row_lengths(x, tf.constant([3, 0, 2], tf.int64)), axis=-1),
        (np.array([1, 5, 5, 2, 0]),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSE)
def test_sparse(name: str) -> None:
    f, data = SPARSE[name]
    compare(f, *data)


MORE: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "approximate": (lambda x: tf.math.approx_max_k(x, 2, reduction_dimension=-1), (X,)),
    "slice_update": (
        lambda x, y: tf.tensor_scatter_nd_update(x, [[0]], [[1.0, 2, 3, 4]]) + raw.TensorStridedSliceUpdate(
            input=x, begin=[1, 0], end=[3, 4], strides=[1, 2], value=y), (X, numbers(2, 2)),
    ),
    "sets": (
        lambda a, b: [
            f(x, y) for x, y in ((a, b), (a, tf.sparse.from_dense(b)), (tf.sparse.from_dense(a), tf.sparse.from_dense(b)))
            for f in (tf.sets.difference, tf.sets.intersection, tf.sets.union)
        ], (np.array([[1, 5, 5, 2], [9, 2, 3, 2]]), np.array([[5, 7, 7, 8], [2, 4, 9, 1]])),
    ),
    "sets_of_texts": (
        lambda a, b: (tf.sets.difference(a, b, aminusb=False), tf.sets.union(a, b)),
        (strings("b", "a", "é", "z").reshape(2, 2), strings("a", "c", "Z", "z").reshape(2, 2)),
    ),
    "set_size": (lambda a: tf.sets.size(tf.sparse.from_dense(a)), (np.array([[1, 5, 5, 2], [9, 2, 2, 0]]),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more(name: str) -> None:
    f, data = MORE[name]
    compare(f, *data)


def example(**features: Any) -> bytes:
    made = {}
    for key, values in features.items():
        if isinstance(values[0], str):
            made[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in values]))
        elif isinstance(values[0], float):
            made[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()  # type: ignore[no-any-return]


EXAMPLES = np.array(
    [
        example(x=[1.5, -2.0], n=[3, 4], words=["one", "two"], k=[7]),
        example(x=[0.25, 9.0], words=["three"], k=[8]),
    ],
    object,
)
DENSE = {
    "x": tf.io.FixedLenFeature([2], tf.float32),
    "k": tf.io.FixedLenFeature([], tf.int64),
    "missing": tf.io.FixedLenFeature([1], tf.string, default_value="none"),
}
LONG = {"n": tf.io.VarLenFeature(tf.int64), "words": tf.io.VarLenFeature(tf.string)}


def parsed(v1: bool) -> Callable[[Any], Any]:
    def whole(x: Any) -> Any:
        made = (tf.compat.v1.io.parse_example if v1 else tf.io.parse_example)(x, DENSE | LONG)
        return [made[k] for k in sorted(made)]

    return whole


SERIALISED: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "examples": (parsed(False), (EXAMPLES,)),
    "examples_v1": (parsed(True), (EXAMPLES,)),
    "one_example": (
        lambda x: [v for _, v in sorted(tf.io.parse_single_example(x[0], DENSE | LONG).items())], (EXAMPLES,),
    ),
    "tensor": (lambda x: tf.io.serialize_tensor(x), (X,)),
    "csv": (
        lambda x: tf.io.decode_csv(x, [[0.5], ["-"], [3]]), (strings('1.5,"a,b",7', "2,c,", ",,9"),),
    ),
    "csv_columns": (
        lambda x: tf.io.decode_csv(x, [["-"], [3]], field_delim=";", na_value="NA", select_cols=[1, 2]), (strings("1;a;7", "2;NA;NA"),),
    ),
    "compressed": (
        lambda x: tf.io.decode_compressed(x, "GZIP"), (np.array([gzip.compress(b"hello")], object),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SERIALISED)
def test_serialised(name: str) -> None:
    f, data = SERIALISED[name]
    compare(f, *data)


def test_names_of_results() -> None:
    """Functions refer to results by their names: those of every operator that has several, as TensorFlow registers them."""
    from tensorflow.python.framework import op_def_registry

    wrong = {}
    for op in supported_operators():
        known = op_def_registry.get(op)
        if known is None or len(known.output_arg) < 2:
            continue
        names = tuple([a.name for a in known.output_arg])
        counts = {
            a.name: a.number_attr or a.type_list_attr for a in known.output_arg if a.number_attr or a.type_list_attr
        }
        if OUTPUTS.get(op) != names or COUNTS.get(op, {}) != counts:
            wrong[op] = (names, counts)
    assert not wrong


def test_every_operator_is_placed() -> None:
    """All of tf.raw_ops are imported, refused for a reason that the message says, or listed as not imported yet."""
    names = {n for n in dir(raw) if n[0].isupper()}
    placed = {n for n in names if n in supported_operators() or reason(n)}
    assert names - placed == NOT_YET
