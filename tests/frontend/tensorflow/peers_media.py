"""Hashes, crossed features, pictures and sounds beside TensorFlow itself (make test-tensorflow)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.frontend.tensorflow.peers import Array, numbers, raw, run, tf
from tests.frontend.tensorflow.peers_tables_and_matrices import compare, strings
from tilewright.relay.frontend import encode_strings
from tilewright.relay.frontend.tensorflow import from_tensorflow
from tilewright.runtime.host_functions.hashing import fingerprint64, murmur64, siphash

rng = np.random.default_rng(3)
PICTURE = (np.add.outer(np.arange(33) * 5, np.arange(41) * 2)[..., None] + np.array([0, 40, 90])).astype("uint8")
NOISE = rng.integers(0, 256, (33, 41, 4)).astype("uint8")


def test_hashes() -> None:
    """Every length up to some blocks, and one of many."""
    most = (1 << 63) - 1
    for n in (*range(200), 255, 256, 257, 4097):
        data = rng.integers(0, 256, n).astype("uint8").tobytes()
        assert fingerprint64(data) % most == int(raw.StringToHashBucketFast(input=data, num_buckets=most))
        assert murmur64(data) % most == int(raw.StringToHashBucket(string_tensor=data, num_buckets=most))
        assert siphash(data, (3, 5)) % most == int(
            raw.StringToHashBucketStrong(input=data, num_buckets=most, key=[3, 5])
        )


T = strings("Hello, World", "", "naïve café 12", "a-b-c", "x" * 70)
GRID = T[:4].reshape(2, 2)


def _sparse(rows: list[list[str]]) -> Any:
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([t for r in rows for t in r]), [len(r) for r in rows]
    ).to_sparse()


def _crossed(f: Callable[..., Any]) -> Callable[..., Any]:
    def whole(x: Any, y: Any) -> Any:
        return f([tf.sparse.from_dense(x), y])

    return whole


CASES: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "fast": (lambda x: tf.strings.to_hash_bucket_fast(x, 1000), (T,)),
    "old": (lambda x: tf.strings.to_hash_bucket(x, 1000), (T,)),
    "strong": (lambda x: tf.strings.to_hash_bucket_strong(x, 1000, [7, -9]), (T,)),
    "fingerprint_texts": (lambda x: tf.fingerprint(x), (T,)),
    "fingerprint_rows": (lambda x: tf.fingerprint(x), (GRID,)),
    "fingerprint_row_of_one": (lambda x: tf.fingerprint(x[:, :1]), (GRID,)),
    "fingerprint_numbers": (lambda x: tf.fingerprint(x), (numbers(3, 4, 2),)),
    "cross": (_crossed(tf.sparse.cross), (GRID, strings("p", "q", "r", "s").reshape(2, 2))),
    "cross_numbers": (_crossed(tf.sparse.cross), (np.array([[1, 0, 5], [0, 2, 3]]), GRID)),
    "cross_hashed": (
        _crossed(lambda v: tf.sparse.cross_hashed(v, 97)), (np.array([[1, 0, -5], [0, 2, 3]]), GRID),
    ),
    "cross_hashed_key": (
        _crossed(lambda v: tf.sparse.cross_hashed(v, hash_key=12)), (np.array([[1, 0, 5], [0, 2, 3]]), GRID),
    ),
    "cross_joined": (
        lambda x, y: raw.SparseCrossV2(indices=[], values=[], shapes=[], dense_inputs=[x, y], sep="-"), (GRID, GRID[::-1]),
    ),
    "cross_v2_hashed": (
        lambda x, y: raw.SparseCrossHashed(
            indices=[], values=[], shapes=[], dense_inputs=[x, y], num_buckets=1009, strong_hash=False, salt=[3, 4]
        ), (GRID, np.array([[1, 2], [-3, 4]])),
    ),
    "cross_v2_strong": (
        lambda x, y: raw.SparseCrossHashed(
            indices=[], values=[], shapes=[], dense_inputs=[x, y], num_buckets=1009, strong_hash=True, salt=[3, 4]
        ), (GRID, GRID[::-1]),
    ),
    "transcode": (
        lambda x: (
            tf.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE"),
            tf.strings.unicode_transcode(x, "UTF-8", "UTF-8", replace_control_characters=True),
            tf.strings.unicode_transcode(x, "ISO-8859-1", "UTF-8"),
        ), (strings("naïve", "a\tb\x01c\nd", "", "日本語"),),
    ),
    "format": (
        lambda x, y, t: (
            tf.strings.format("x is {} and y {}", (x, y)), tf.strings.format("{}", x, summarize=-1),
            tf.strings.format("<%>{} {}", [t, tf.constant([[1e-7, 1 / 3]], tf.float64)]),
        ), (np.arange(24.0, dtype="float32").reshape(8, 3) / 7, np.array(5), strings("p", "q")),
    ),
    "encode_wav": (
        lambda x: tf.audio.encode_wav(x, 16000), (np.clip(numbers(50, 2), -1.2, 1.2),),
    ),
    "spectrogram": (lambda x: raw.AudioSpectrogram(input=x, window_size=50, stride=20), (numbers(300, 2),)),
    "spectrogram_squared": (
        lambda x: raw.AudioSpectrogram(input=x, window_size=64, stride=16, magnitude_squared=True), (numbers(200, 1),),
    ),
    "mfcc": (
        lambda x: raw.Mfcc(
            spectrogram=raw.AudioSpectrogram(input=x, window_size=640, stride=320, magnitude_squared=True), sample_rate=16000
        ),
        (numbers(16000, 1),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_texts_and_sounds(name: str) -> None:
    f, data = CASES[name]
    compare(f, *data)


def file_of(pixels: Array, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


def decoded(f: Callable[[Any], Any], data: bytes) -> Array:
    """An image by the program that decodes a string; TensorFlow's is compared."""
    concrete = tf.function(f).get_concrete_function(tf.TensorSpec([], tf.string, name="data"))
    mod, params = from_tensorflow(concrete.graph.as_graph_def(), outputs=[t.name for t in concrete.outputs])
    (found,) = run(mod, params, [encode_strings(data)])
    wanted = f(tf.constant(data)).numpy()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return np.abs(found.astype("float64") - wanted)


def moving() -> bytes:
    out = io.BytesIO()
    frames = [Image.fromarray(np.roll(PICTURE, 3 * k, 0)) for k in range(3)]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    return out.getvalue()


def palette(transparent: bool) -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(PICTURE).quantize(16)
    image.save(out, "PNG", **({"transparency": 3} if transparent else {}))
    return out.getvalue()


FILES = {
    "rgb.png": file_of(NOISE[..., :3], "PNG"), "rgba.png": file_of(NOISE, "PNG"), "grey.png": file_of(NOISE[..., 0], "PNG"),
    "grey_alpha.png": file_of(NOISE[..., :2], "PNG"), "grey16.png": file_of(NOISE[..., 0].astype("uint16") * 200 + 77, "PNG"),
    "palette.png": palette(False), "palette_transparent.png": palette(True), "one_bit.png": file_of(NOISE[..., 0] > 99, "PNG"),
    "rgb.jpg": file_of(PICTURE, "JPEG", quality=90), "smooth.jpg": file_of(PICTURE, "JPEG", quality=95, subsampling=0),
    "noise.jpg": file_of(NOISE[..., :3], "JPEG"), "grey.jpg": file_of(PICTURE[..., 0], "JPEG"), "still.gif": file_of(PICTURE, "GIF"),
    "progressive.jpg": file_of(PICTURE, "JPEG", progressive=True),
}  # fmt: skip


FORMS = {"png": (0, 1, 3, 4), "jpg": (0, 1, 3), "gif": (0, 3)}
"""The channels that TensorFlow gives of each format."""


@pytest.mark.parametrize("name, channels", [(name, k) for name in FILES for k in FORMS[name[-3:]]])
def test_pictures(name: str, channels: int) -> None:
    apart = decoded(lambda x: tf.io.decode_image(x, channels, expand_animations=False), FILES[name])
    # TensorFlow's quick transform of blocks is not that of libjpeg's default.
    assert apart.max() <= (16 if name.endswith("jpg") else 0), f"by {apart.max()}, {np.mean(apart > 0):.2%} differ"
    if name.endswith("jpg"):
        assert decoded(lambda x: tf.io.decode_jpeg(x, channels, dct_method="INTEGER_ACCURATE"), FILES[name]).max() == 0


PICTURES: dict[str, tuple[Callable[[Any], Any], bytes]] = {
    "png": (tf.io.decode_png, FILES["rgba.png"]),
    "jpeg": (tf.io.decode_jpeg, FILES["rgb.jpg"]),
    "jpeg_as_png": (tf.io.decode_png, FILES["rgb.jpg"]),
    "half": (lambda x: tf.io.decode_jpeg(x, ratio=2, dct_method="INTEGER_ACCURATE"), FILES["rgb.jpg"]),
    "eighth": (lambda x: tf.io.decode_jpeg(x, ratio=8, dct_method="INTEGER_ACCURATE"), FILES["rgb.jpg"]),
    "accurate": (lambda x: tf.io.decode_jpeg(x, dct_method="INTEGER_ACCURATE"), FILES["noise.jpg"]),
    "cropped": (lambda x: tf.io.decode_and_crop_jpeg(x, [3, 5, 20, 17]), FILES["smooth.jpg"]),
    "gif": (tf.io.decode_gif, moving()),
    "gif_by_image": (lambda x: tf.io.decode_image(x, expand_animations=False), moving()),
    "bmp": (tf.io.decode_bmp, file_of(PICTURE, "BMP")),
    "bmp_alpha": (lambda x: tf.io.decode_bmp(x, 0), file_of(NOISE, "BMP")),
    "floats": (lambda x: tf.io.decode_image(x, dtype=tf.float32, expand_animations=False), FILES["rgb.png"]),
    "extents": (lambda x: tf.io.extract_jpeg_shape(x), FILES["rgb.jpg"]),
    "png_again": (lambda x: tf.io.decode_png(tf.io.encode_png(tf.io.decode_png(x))), FILES["rgba.png"]),
    "jpeg_again": (lambda x: tf.io.decode_jpeg(tf.io.encode_jpeg(tf.io.decode_png(x, channels=3))), FILES["rgb.png"]),
    "resized": (
        lambda x: tf.image.resize(tf.io.decode_jpeg(x, channels=3), [16, 16]) / 255.0,
        FILES["smooth.jpg"],
    ),
    "sound": (lambda x: tf.audio.decode_wav(x)[0], tf.audio.encode_wav(numbers(50, 2), 8000).numpy()),
    "sound_of_size": (
        lambda x: tf.audio.decode_wav(x, 1, 70)[0],
        tf.audio.encode_wav(numbers(50, 2), 8000).numpy(),
    ),
    "rate": (lambda x: tf.audio.decode_wav(x)[1], tf.audio.encode_wav(numbers(50, 2), 8000).numpy()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_files(name: str) -> None:
    apart = decoded(*PICTURES[name])
    near = {"jpeg": 6, "jpeg_as_png": 6, "cropped": 6, "jpeg_again": 12, "resized": 8 / 255}
    assert apart.max() <= near.get(name, 1e-6), f"by {apart.max()}, {np.mean(apart > 0):.2%} differ"
