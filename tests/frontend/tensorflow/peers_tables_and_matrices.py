"""Rarer operators of TensorFlow beside TensorFlow itself (make test-tensorflow): strings, tables, ragged and sparse data, matrices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tensorflow.peers import Array, numbers, raw, run, same, tf
from tilewright.relay.frontend import decode_strings, encode_strings
from tilewright.relay.frontend.tensorflow import from_tensorflow


def strings(*values: str) -> Array:
    return np.array(values, object)


def compare(f: Callable[..., Any], *data: Array, rtol: float = 1e-4, dynamic_axes: bool = False) -> None:
    """A function of tensors, some of them strings, as the graph that TensorFlow writes of it."""
    given = [tf.constant(x.tolist() if x.dtype == object else x) for x in data]
    specs = [
        tf.TensorSpec([None if dynamic_axes and k == 0 else d for k, d in enumerate(x.shape)], x.dtype, name=f"x{n}")
        for n, x in enumerate(given)
    ]
    concrete = tf.function(f).get_concrete_function(*specs)
    wanted = tf.nest.flatten(tf.function(f)(*given), expand_composites=True)
    mod, params = from_tensorflow(concrete.graph.as_graph_def(), outputs=[t.name for t in concrete.outputs])
    found = run(mod, params, [encode_strings(x) if x.dtype == object else x for x in data])
    assert len(found) == len(wanted)
    for a, w in zip(found, wanted, strict=True):
        if w.dtype == tf.string:
            assert (
                decode_strings(a).tolist()
                == np.vectorize(lambda b: b.decode("utf-8", "surrogateescape"), otypes=[object])(w.numpy()).tolist()
            )
        else:
            same([a], [w], rtol)


T = strings("Hello, World", "", "naïve café 12", "a-b-c", "  padded ")
GRID = T[:4].reshape(2, 2)
WORDS = strings("the cat sat", "on", "", "the  mat ")

TEXTS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "case": (
        lambda x: (
            tf.strings.lower(x),
            tf.strings.upper(x),
            tf.strings.lower(x, "utf-8"),
            tf.strings.upper(x, "utf-8"),
        ),
        (T,),
    ),
    "strip": (tf.strings.strip, (T,)),
    "length": (lambda x: (tf.strings.length(x), tf.strings.length(x, "UTF8_CHAR")), (T,)),
    "join": (lambda x: (tf.strings.join([x, "!", x], " "), tf.strings.join([x, x])), (GRID,)),
    "reduce_join": (
        lambda x: (
            tf.strings.reduce_join(x, 1, separator="+"),
            tf.strings.reduce_join(x),
            tf.strings.reduce_join(x, [0, 1]),
            tf.strings.reduce_join(x, [1, 0], separator=","),
            tf.strings.reduce_join(x, 0, keepdims=True),
        ),
        (GRID,),
    ),
    "segment_join": (lambda x: tf.strings.unsorted_segment_join(x, [0, 2, 0, 1, 2], 4, ":"), (T,)),
    "substr": (
        lambda x: (tf.strings.substr(x, 0, 3), tf.strings.substr(x, -1, 2)),
        (strings("hello", "world!", "caf"),),
    ),
    "substr_chars": (lambda x: tf.strings.substr(x, 2, 3, "UTF8_CHAR"), (strings("naïve", "日本語です"),)),
    "substr_each": (lambda x: tf.strings.substr(x, [1, 2], [2, 1]), (strings("hello", "world"),)),
    "split": (lambda x: tf.strings.split(x), (WORDS,)),
    "split_by": (lambda x: tf.strings.split(x, "-", 1), (T,)),
    "split_old": (lambda x: list(raw.StringSplit(input=x, delimiter=" -", skip_empty=True)), (T,)),
    "split_dense": (lambda x: tf.strings.split(x).to_tensor("?"), (WORDS,)),
    "ngrams": (lambda x: tf.strings.ngrams(tf.strings.split(x), 2, separator="_"), (WORDS,)),
    "ngrams_padded": (
        lambda x: tf.strings.ngrams(tf.strings.split(x), [1, 3], pad_values=("<", ">"), padding_width=1),
        (WORDS,),
    ),
    "replace": (
        lambda x: (
            tf.strings.regex_replace(x, "[[:punct:]]", ""),
            tf.strings.regex_replace(x, r"(\w)-(\w)", r"\2\\\1"),
            tf.strings.regex_replace(x, "l", "L", replace_global=False),
            tf.strings.regex_replace(x, r"\s+$", "."),
        ),
        (T,),
    ),
    "match": (lambda x: (tf.strings.regex_full_match(x, ".*[0-9]+"), tf.strings.regex_full_match(x, r"(\w|-)+")), (T,)),
    "to_number": (
        lambda x: (tf.strings.to_number(x), tf.strings.to_number(x, tf.float64)),
        (strings("1.5", "-2e3", "7"),),
    ),
    "to_integer": (lambda x: tf.strings.to_number(x, tf.int64), (strings("12", "-7"),)),
    "as_string": (
        lambda x: (
            tf.strings.as_string(x),
            tf.strings.as_string(x, precision=2),
            tf.strings.as_string(x, scientific=True),
            tf.strings.as_string(x, shortest=True),
            tf.strings.as_string(x, width=12, fill="0"),
        ),
        (np.array([1.5, -2.25, 1e6], "float32"),),
    ),
    "whole_as_string": (
        lambda x: (tf.strings.as_string(x), tf.strings.as_string(x > 2), tf.strings.as_string(x, width=5)),
        (np.array([1, -20, 300]),),
    ),
    "hash_strong": (lambda x: tf.strings.to_hash_bucket_strong(x, 1000, [1, 2**40 + 3]), (T,)),
    "base64": (
        lambda x: (tf.io.encode_base64(x), tf.io.encode_base64(x, True), tf.io.decode_base64(tf.io.encode_base64(x))),
        (T,),
    ),
    "raw": (
        lambda x: (
            tf.io.decode_raw(x, tf.uint8),
            tf.io.decode_raw(x, tf.int16),
            tf.io.decode_raw(x, tf.int16, little_endian=False),
        ),
        (strings("abcd", "wxyz"),),
    ),
    "raw_padded": (lambda x: tf.io.decode_raw(x, tf.uint8, fixed_length=6), (T,)),
    "unicode": (lambda x: tf.strings.unicode_decode(x, "UTF-8"), (T,)),
    "unicode_offsets": (lambda x: tf.strings.unicode_decode_with_offsets(x, "UTF-8"), (T,)),
    "unicode_encode": (lambda x: tf.strings.unicode_encode(tf.strings.unicode_decode(x, "UTF-8"), "UTF-8"), (T,)),
    "unicode_split": (lambda x: tf.strings.unicode_split(x, "UTF-8"), (T,)),
    "compare": (lambda x, y: (x == y, x != y, tf.where(x == y, x, "no")), (T, T[::-1].copy())),
    "moved": (
        lambda x: (
            tf.reshape(x, [5, 1]),
            tf.concat([x, x[:2]], 0),
            tf.gather(x, [3, 0]),
            tf.stack([x, x], 1),
            tf.reverse(x, [0]),
            tf.expand_dims(x, 0),
            tf.tile(x, [2]),
            x[1:4],
            tf.transpose(tf.reshape(x[:4], [2, 2])),
            tf.fill([2, 2], x[0]),
        ),
        (T,),
    ),
    "unique": (lambda x: tf.unique(x), (strings("b", "a", "b", "c"),)),
    "branches": (
        lambda x: tf.cond(tf.reduce_any(x == "yes"), lambda: tf.strings.upper(x), lambda: x),
        (strings("yes", "no"),),
    ),
    "labels": (lambda x: tf.gather(tf.constant(["cat", "dog", "bird"]), tf.argmax(x, 1)), (numbers(4, 3),)),
    "constants": (
        lambda x: tf.strings.join([tf.constant(["a", "b"]), tf.strings.upper("c")]) + tf.strings.as_string(x),
        (np.array([1, 2]),),
    ),
    "partitions": (lambda x: tf.dynamic_partition(x, [0, 1, 0, 1, 1], 2), (T,)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    f, data = TEXTS[name]
    compare(f, *data)


@pytest.mark.parametrize("name", ["case", "split_dense", "unicode", "ngrams", "replace"])
def test_strings_of_dynamic_shape(name: str) -> None:
    f, data = TEXTS[name]
    compare(f, *data, dynamic_axes=True)


def positive(n: int) -> Array:
    a = numbers(2, n, n)
    return np.asarray(a @ a.transpose(0, 2, 1) + np.eye(n), "float32")


P, S, Q = np.abs(numbers(3, 4)) + 0.2, numbers(2, 3, 3), positive(3)
Q = positive(3)
X, I4 = numbers(3, 4), np.array([3, 0, 2, 0], "int32")
IMAGE = numbers(2, 7, 6, 3)
BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0.6, 1, 1.4], [0.5, 0.5, 0.9, 0.9]], "float32")
SPECIAL = {
    "lgamma": lambda x: tf.math.lgamma(x * 3 - 2.3),
    "digamma": lambda x: tf.math.digamma(x * 3 - 2.3),
    "zeta": lambda x: tf.math.zeta(x + 1.1, x),
    "polygamma": lambda x: tf.math.polygamma(tf.ones_like(x), x),
    "igamma": lambda x: tf.math.igamma(x, x * 2),
    "igammac": lambda x: tf.math.igammac(x, x * 2),
    "betainc": lambda x: tf.math.betainc(x, x + 1, x / 10),
    "ndtri": lambda x: tf.math.ndtri(x / 10),
    "erfinv": lambda x: tf.math.erfinv(tf.sin(x)),
    "expint": lambda x: tf.math.special.expint(x),
    "dawsn": lambda x: tf.math.special.dawsn(x),
    "fresnel": lambda x: tf.math.special.fresnel_sin(x) + tf.math.special.fresnel_cos(x),
    "spence": lambda x: tf.math.special.spence(x),
    "bessel": lambda x: (
        tf.math.special.bessel_j0(x)
        + tf.math.special.bessel_j1(x)
        + tf.math.special.bessel_y0(x)
        + tf.math.special.bessel_y1(x)
        + tf.math.special.bessel_k0(x)
        + tf.math.special.bessel_k1(x)
        + tf.math.special.bessel_k0e(x)
        + tf.math.special.bessel_k1e(x)
    ),
    "bessel_i": lambda x: tf.math.bessel_i0(x) + tf.math.bessel_i1(x) + tf.math.bessel_i0e(x) + tf.math.bessel_i1e(x),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name: str) -> None:
    compare(SPECIAL[name], P)


def rebuilt(x: Any) -> Any:
    s, u, v = tf.linalg.svd(x)
    return tf.matmul(u * s[..., None, :], v, transpose_b=True), s


def recomposed(x: Any) -> Any:
    e, v = tf.linalg.eigh(x)
    return e, tf.matmul(v * e[..., None, :], v, transpose_b=True)


DATA: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "cholesky": (tf.linalg.cholesky, (Q,)),
    "inverse": (lambda x: (tf.linalg.inv(x), tf.linalg.inv(x, adjoint=True)), (Q,)),
    "determinant": (lambda x: (tf.linalg.det(x), *tf.linalg.slogdet(x)), (S,)),
    "solve": (lambda x, y: (tf.linalg.solve(x, y), tf.linalg.solve(x, y, adjoint=True)), (Q, S)),
    "triangular": (
        lambda x, y: (
            tf.linalg.triangular_solve(x, y),
            tf.linalg.triangular_solve(x, y, lower=False),
            tf.linalg.triangular_solve(x, y, adjoint=True),
        ),
        (Q, S),
    ),
    "cholesky_solve": (lambda x, y: tf.linalg.cholesky_solve(tf.linalg.cholesky(x), y), (Q, S)),
    "lstsq": (
        lambda x, y: (tf.linalg.lstsq(x, y), tf.linalg.lstsq(x, y, l2_regularizer=0.5)),
        (numbers(5, 3), numbers(5, 2)),
    ),
    "qr": (lambda x: tf.matmul(*tf.linalg.qr(x)), (numbers(2, 4, 3),)),
    "svd": (rebuilt, (numbers(2, 4, 3),)),
    "eigh": (recomposed, (Q,)),
    "lu": (lambda x: list(tf.linalg.lu(x)), (S,)),
    "exponential": (tf.linalg.expm, (S,)),
    "square_root": (tf.linalg.sqrtm, (Q,)),
    "tridiagonal": (
        lambda d, b: tf.linalg.tridiagonal_solve(d, b, diagonals_format="compact"),
        (numbers(3, 5) + np.array([[0], [4], [0]], "float32"), numbers(5, 2)),
    ),
    "tridiagonal_product": (
        lambda d, b: tf.linalg.tridiagonal_matmul(d, b, diagonals_format="compact"),
        (numbers(3, 5), numbers(5, 2)),
    ),
    "banded": (lambda b, x: tf.linalg.banded_triangular_solve(b, x), (np.abs(numbers(2, 4)) + 1, numbers(4, 2))),
    "stitch": (lambda x: tf.dynamic_stitch([[0, 2], [1]], [x[:2], x[2:]]), (X,)),
    "partition_stitch": (
        lambda x: tf.dynamic_stitch(
            tf.dynamic_partition(tf.range(3), [1, 0, 1], 2), tf.dynamic_partition(x * 2, [1, 0, 1], 2)
        ),
        (X,),
    ),
    "list_diff": (lambda x: list(raw.ListDiff(x=x, y=[0])), (I4,)),
    "ragged_range": (lambda x: tf.ragged.range(x), (I4,)),
    "ragged_dense": (lambda x: tf.RaggedTensor.from_row_lengths(x, [2, 0, 1]).to_tensor(-1.0), (X,)),
    "ragged_wide": (
        lambda x: tf.RaggedTensor.from_row_splits(x, [0, 1, 3]).to_tensor(0.5, shape=[None, 3, None]),
        (X,),
    ),
    "ragged_gather": (lambda x: tf.gather(tf.RaggedTensor.from_row_lengths(x, [2, 0, 1]), [2, 0, 0]), (X,)),
    "ragged_sparse": (lambda x: tf.RaggedTensor.from_row_lengths(x[:, 0], [2, 0, 1]).to_sparse().values, (X,)),
    "ragged_means": (lambda x: tf.reduce_mean(tf.RaggedTensor.from_row_lengths(x[:, 0], [2, 1]), 1), (X,)),
    "sparse_dense": (lambda x: tf.sparse.to_dense(tf.SparseTensor([[0, 1], [2, 0]], x[0, :2], [3, 2]), 7.0), (X,)),
    "sparse_product": (
        lambda x: (
            tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 0]], x[0, :2], [4, 3]), x),
            tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 0]], x[0, :2], [3, 4]), x, adjoint_a=True),
        ),
        (X,),
    ),
    "sparse_rows": (
        lambda x: list(
            raw.SparseFillEmptyRows(
                indices=[[0, 1], [2, 0], [2, 1]], values=x[0, :3], dense_shape=[4, 2], default_value=9.0
            )
        ),
        (X,),
    ),
    "sparse_reshape": (
        lambda x: list(raw.SparseReshape(input_indices=[[0, 1], [2, 0]], input_shape=[3, 2], new_shape=[2, -1])) + [x],
        (X,),
    ),
    "sparse_reorder": (
        lambda x: list(raw.SparseReorder(input_indices=[[2, 0], [0, 1]], input_values=x[0, :2], input_shape=[3, 2])),
        (X,),
    ),
    "embedding_sparse": (
        lambda x: tf.nn.embedding_lookup_sparse(
            x, tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 0], tf.int64), [2, 2]), None, "mean"
        ),
        (X,),
    ),
    "safe_embedding": (
        lambda x: tf.nn.safe_embedding_lookup_sparse(
            x, tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 2, 0], tf.int64), [3, 2])
        ),
        (X,),
    ),
    "edit_distance": (
        lambda x: (
            tf.edit_distance(
                tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 2, 3], [2, 2]),
                tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [1, 3, 4], [2, 2]),
            )
            + x[0, 0]
        ),
        (X,),
    ),
    "segments_sorted": (
        lambda x: (
            tf.math.segment_max(x, [0, 0, 2]),
            tf.math.segment_min(x, [0, 0, 2]),
            tf.math.segment_prod(x, [0, 0, 2]),
        ),
        (X,),
    ),
    "segments_negative": (lambda x: tf.math.unsorted_segment_max(x, [1, -1, 1], 2), (X,)),
    "segments_computed": (
        lambda x, i: (tf.math.segment_sum(x, tf.sort(i)[:3]), tf.math.unsorted_segment_mean(x, i[:3], 5)),
        (X, I4),
    ),
    "bincount": (
        lambda i: (
            tf.math.bincount(i),
            tf.math.bincount(i, maxlength=3),
            tf.math.bincount(i, weights=[1.0, 2, 3, 4]),
            tf.math.bincount(i, binary_output=True),
        ),
        (I4,),
    ),
    "bincount_rows": (lambda i: tf.math.bincount(i, axis=-1, minlength=4, maxlength=4), (I4.reshape(2, 2),)),
    "unravel": (lambda i: tf.unravel_index(i, [2, 3]), (I4,)),
    "nth": (lambda x: (raw.NthElement(input=x, n=1), raw.NthElement(input=x, n=1, reverse=True)), (X,)),
    "log_sums": (
        lambda x: (tf.math.cumulative_logsumexp(x, 1), tf.math.cumulative_logsumexp(x, 0, reverse=True)),
        (X,),
    ),
    "histogram": (lambda x: tf.histogram_fixed_width(x, [-1.0, 1.0], 5), (X,)),
    "bits": (lambda i: raw.PopulationCount(x=i), (np.array([-1, 7, 255], "int32"),)),
    "next_after": (lambda x: tf.math.nextafter(x, x * 2), (X,)),
    "formats": (lambda x: (raw.DataFormatVecPermute(x=[1, 2, 3, 4]), raw.DataFormatDimMap(x=[1, -1]), x), (X,)),
    "inplace": (
        lambda x: (
            raw.InplaceUpdate(x=x + 0, i=[1], v=x[:1]),
            raw.InplaceAdd(x=x + 1, i=[0, 2], v=x[:2]),
            raw.InplaceSub(x=x + 2, i=[0], v=x[2:]),
        ),
        (X,),
    ),
    "old_space": (
        lambda x: raw.BatchToSpace(
            input=raw.SpaceToBatch(input=x[:, :6], paddings=[[1, 1], [0, 0]], block_size=2),
            crops=[[0, 0], [0, 0]],
            block_size=2,
        ),
        (IMAGE,),
    ),
    "fused_pad": (
        lambda x: raw.FusedPadConv2D(
            input=x[:1],
            paddings=[[0, 0], [1, 2], [0, 1], [0, 0]],
            filter=tf.ones([2, 2, 3, 2]),
            mode="REFLECT",
            strides=[1, 1, 1, 1],
            padding="VALID",
        ),
        (IMAGE,),
    ),
    "fused_resize": (
        lambda x: raw.FusedResizeAndPadConv2D(
            input=x[:1],
            size=[9, 8],
            paddings=[[0, 0], [1, 2], [0, 1], [0, 0]],
            filter=tf.ones([2, 2, 3, 2]),
            mode="SYMMETRIC",
            strides=[1, 1, 1, 1],
            padding="VALID",
        ),
        (IMAGE,),
    ),
    "pool_places": (
        lambda x: [
            *tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"),
            *tf.nn.max_pool_with_argmax(x, 3, 2, "VALID", include_batch_in_index=True),
        ],
        (IMAGE,),
    ),
    "fake_quantised": (
        lambda x: (
            tf.quantization.quantize_and_dequantize_v2(x, -1.0, 1.5, range_given=True),
            tf.quantization.quantize_and_dequantize_v2(x, 0.0, 0.0),
            tf.quantization.quantize_and_dequantize_v2(
                x, -2.0, 1.0, range_given=True, round_mode="HALF_UP", narrow_range=True
            ),
        ),
        (X,),
    ),
    "quantised": (
        lambda x: [
            tf.cast(v, tf.float32)
            for v in (
                *tf.quantization.quantize(x, -1.0, 1.5, tf.quint8),
                *tf.quantization.quantize(x, -1.0, 1.5, tf.qint8, mode="SCALED"),
            )
        ],
        (X,),
    ),
    "dequantised": (
        lambda x: (
            tf.quantization.dequantize(tf.quantization.quantize(x, -1.0, 1.5, tf.quint8).output, -1.0, 1.5),
            tf.quantization.dequantize(
                tf.quantization.quantize(x, -1.0, 1.5, tf.qint8, mode="SCALED").output, -1.0, 1.5, mode="SCALED"
            ),
        ),
        (X,),
    ),
    "ctc_greedy": (
        lambda x: [*tf.nn.ctc_greedy_decoder(x, [6, 4])[0], tf.nn.ctc_greedy_decoder(x, [6, 4])[1]],
        (numbers(6, 2, 4),),
    ),
    "ctc_beams": (
        lambda x: [
            *tf.nn.ctc_beam_search_decoder(x, [6, 4], 8, 2)[0],
            tf.nn.ctc_beam_search_decoder(x, [6, 4], 8, 2)[1],
        ],
        (numbers(6, 2, 4),),
    ),
    "old_suppression": (
        lambda b, s: raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=3, iou_threshold=0.4),
        (BOXES, np.array([0.5, 0.9, 0.3, 0.8], "float32")),
    ),
    "overlaps": (
        lambda s: raw.NonMaxSuppressionWithOverlaps(
            overlaps=tf.ones([4, 4]) * 0.3 + tf.eye(4),
            scores=s,
            max_output_size=3,
            overlap_threshold=0.5,
            score_threshold=0.35,
        ),
        (np.array([0.5, 0.9, 0.3, 0.8], "float32"),),
    ),
    "combined": (
        lambda b, s: list(tf.image.combined_non_max_suppression(b, s, 2, 5, 0.5, 0.1)),
        (BOXES.reshape(1, 4, 1, 4), np.abs(np.sin(numbers(1, 4, 3)))),
    ),
    "antialias": (
        lambda x: (
            tf.image.resize(x, [4, 3], antialias=True),
            tf.image.resize(x, [9, 4], "lanczos3", antialias=True),
            tf.image.resize(x, [5, 11], "gaussian", antialias=True),
            tf.image.resize(x, [4, 8], "mitchellcubic"),
            tf.image.resize(x, [4, 3], "bicubic", antialias=True),
            tf.image.resize(x, [4, 3], "lanczos5"),
        ),
        (IMAGE,),
    ),
    "angle": (lambda x: tf.math.angle(tf.complex(x, x[::-1])), (X,)),
    "eig": (lambda x: tf.sort(tf.math.real(tf.linalg.eigvals(x))), (Q,)),
}
DATA["projective"] = (
    lambda x: [
        raw.ImageProjectiveTransformV3(
            images=x,
            transforms=[[0.9, 0.2, 0.5, -0.2, 1.1, 0.3, 0.0, 0.0]],
            output_shape=[7, 6],
            fill_value=0.5,
            interpolation=how,
            fill_mode=mode,
        )
        for how in ("NEAREST", "BILINEAR")
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
    ],
    (IMAGE,),
)


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    f, data = DATA[name]
    compare(f, *data, rtol=1e-3 if name in ("lstsq", "square_root", "antialias") else 1e-4)


def test_random_numbers() -> None:
    """Shapes, kinds and bounds; the numbers are not TensorFlow's."""

    def f(x: Any) -> Any:
        return (
            tf.random.uniform([500]) + 0 * x[0, 0],
            tf.random.normal([500]),
            tf.random.truncated_normal([500]),
            tf.random.uniform([500], 2, 9, tf.int32),
            tf.random.stateless_uniform([500], [1, 2]),
            tf.random.stateless_normal([500], [1, 2]),
            tf.random.stateless_uniform([500], [1, 2], 2, 9, tf.int64),
            tf.random.categorical(x, 50),
            tf.random.gamma([100], [2.0, 3.0]),
            tf.random.poisson([100], [4.0]),
            tf.random.shuffle(x),
            tf.image.random_crop(x, [2, 2]),
            tf.random.stateless_truncated_normal([500], [1, 2]),
        )

    # A graph of its own has no seed, whatever other tests gave the process.
    with tf.Graph().as_default() as graph:
        outputs = f(tf.compat.v1.placeholder(tf.float32, [3, 4]))
    mod, params = from_tensorflow(graph.as_graph_def(), outputs=[t.name for t in outputs])
    found = run(mod, params, [X])
    for a, t in zip(found, outputs, strict=True):
        assert (a.shape, a.dtype.name) == (tuple(t.shape), t.dtype.name)
    for k in (0, 4):
        assert found[k].min() >= 0 and found[k].max() < 1 and abs(found[k].mean() - 0.5) < 0.1
    for k in (1, 5):
        assert abs(found[k].mean()) < 0.3 and abs(found[k].std() - 1) < 0.2
    for k in (2, 12):
        assert np.abs(found[k]).max() <= 2
    for k in (3, 6):
        assert set(found[k].tolist()) == set(range(2, 9))
    assert sorted(found[10].reshape(-1).tolist()) == sorted(X.reshape(-1).tolist())
    again = run(mod, params, [X])
    assert not np.array_equal(found[0], again[0]) and np.array_equal(found[4], again[4])


def test_tables(tmp_path: Path) -> None:
    """Tables of a SavedModel: filled from tensors, and from a file."""
    (tmp_path / "words.txt").write_text("zero\none\ntwo\n")
    keys = tf.constant(["a", "b", "naïve"])

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(keys, tf.constant([5, 6, 7])), -1
            )
            self.names = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(tf.constant([5, 6], tf.int64), tf.constant(["five", "six"])), "?"
            )
            self.file = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    str(tmp_path / "words.txt"),
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                ),
                -1,
            )
            self.words = tf.lookup.StaticVocabularyTable(
                tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0, 1, 2], tf.int64)), 1
            )

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "x"), tf.TensorSpec([None], tf.int64, "k")])
        def __call__(self, x: Any, k: Any) -> Any:
            return {
                "a": self.numbers.lookup(x),
                "b": self.names.lookup(k),
                "c": self.file.lookup(x),
                "d": self.file.size(),
            }

    net = Net()
    tf.saved_model.save(net, str(tmp_path / "net"))
    x, k = strings("b", "two", "naïve", ""), np.array([6, 7], np.int64)
    wanted = net(tf.constant(x.tolist()), tf.constant(k))
    mod, params = from_tensorflow(tmp_path / "net")
    assert mod["main"].attrs["string_inputs"] == ("x",) and mod["main"].attrs["string_outputs"] == ("b",)
    found = run(mod, params, [k, encode_strings(x)])
    assert decode_strings(found[1]).tolist() == ["six", "?"]
    same([found[0], found[2], found[3]], [wanted["a"], wanted["c"], wanted["d"]])


def test_text_vectorization(tmp_path: Path) -> None:
    """A Keras model that begins with strings, exported."""
    keras = tf.keras
    given = keras.Input((), dtype="string", name="text")
    layer = keras.layers.TextVectorization(
        max_tokens=20, output_sequence_length=6, vocabulary=["the", "cat", "sat", "on", "mat"]
    )
    y = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(layer(given)))
    model = keras.Model(given, keras.layers.Dense(3)(y))
    model.export(str(tmp_path / "m"), verbose=False)
    x = strings("The cat, sat!", "on the mat", "")
    mod, params = from_tensorflow(tmp_path / "m")
    same(run(mod, params, [encode_strings(x)]), [model(tf.constant(x.tolist()))])
