"""Hashes, crossed features, pictures and sounds of TensorFlow without TensorFlow: known answers."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.frontend.tensorflow.test_operators import constant, fill, graph_of, run
from tests.frontend.tensorflow.test_tables_and_matrices import answers, text_graph
from tilewright import relay
from tilewright.relay.frontend import encode_strings
from tilewright.relay.frontend.tensorflow import from_tensorflow
from tilewright.runtime.host_functions.hashing import fingerprint64, murmur64, siphash
from tilewright.support.errors import TVMError

NOISE = np.random.default_rng(0).integers(0, 256, (5, 7, 4)).astype("uint8")


def test_hashes() -> None:
    # As TensorFlow's StringToHashBucketFast and StringToHashBucket have them, in a bucket for each number of 63 bits.
    text = b"0123456789abcdef" * 9
    most = (1 << 63) - 1
    found = [
        (fingerprint64(text[:n]) % most, murmur64(text[:n]) % most)
        for n in (0, 1, 3, 4, 8, 16, 17, 32, 33, 64, 65, 128, 144)
    ]
    assert found == [
        (1936946117179621456, 105434511174508092), (5975597238397796928, 8357918037751616966), (8347415407982900060, 2945020211433724939),
        (259744646550992520, 9004145170353540655), (7926118692302350582, 9103262942426772641), (6105018409752412263, 1490712428580208487),
        (7920484519069722889, 7656034281554594448), (1958373538681310840, 8780848659588840444), (4799579869226630476, 4426621153458994850),
        (9143507982152263937, 3543007803084303737), (1551549064416070298, 6328169761187068226), (2403258503118408510, 8005970937046240863),
        (5045761122176202211, 2989207787085028808),
    ]  # fmt: skip
    # The example of its authors.
    assert siphash(bytes(range(15)), [0x0706050403020100, 0x0F0E0D0C0B0A0908]) == 0xA129CA6149BE45E5


def test_buckets() -> None:
    graph = text_graph(
        ("StringToHashBucketFast", "fast", ("x",), {"num_buckets": 1000}),
        ("StringToHashBucket", "old", ("x",), {"num_buckets": 1000}),
    )
    strings = ["Hello, World", "", "naïve"]
    assert answers(graph, strings, outputs=["fast", "old"]) == [
        [fingerprint64(t.encode()) % 1000 for t in strings],
        [murmur64(t.encode()) % 1000 for t in strings],
    ]


def test_crossed_features() -> None:
    graph = text_graph(
        ("SparseCrossV2", "cross", ("x", "x", "space"), {"N": 0}),
        shape=(2, 2),
    )
    graph.node[-1].attr["dense_types"].list.type.extend([7, 7])
    places, made, size = answers(graph, [["a", "b"], ["c", "d"]], outputs=["cross", "cross:1", "cross:2"])
    assert made == ["a a", "a b", "b a", "b b", "c c", "c d", "d c", "d d"]
    assert (places[5], size) == ([1, 1], [2, 4])


def decoded(op: str, data: bytes, **attrs: Any) -> np.ndarray:
    graph = text_graph((op, "picture", ("x",), attrs), shape=())
    mod, params = from_tensorflow(graph)
    return relay.create_executor("vm", mod=mod).evaluate()(encode_strings(data), **params).numpy()  # type: ignore[no-any-return]


def file_of(pixels: np.ndarray, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


@pytest.mark.parametrize("name", ["x", "data"])
def test_a_decoded_picture_in_place_of_a_file(name: str) -> None:
    """Three extents for the contents of a file: the program is given the picture. Programs may have another name for the only file."""
    picture = NOISE[..., :3]
    graph = text_graph(("DecodeJpeg", "picture", ("x",), {"channels": 3}), shape=())
    mod, _ = from_tensorflow(graph, shape={name: picture.shape})
    (data,) = mod["main"].params
    assert data.name_hint == "x" and data.type_annotation.dtype == "uint8"
    assert np.array_equal(relay.create_executor("graph", mod=mod).evaluate()(picture).numpy(), picture)
    with pytest.raises(TVMError, match="shape names 'data', but the model's inputs are 'x'"):
        from_tensorflow(graph, shape={"data": (1, 5, 7, 3)})


def test_pictures() -> None:
    png = file_of(NOISE, "PNG")
    assert np.array_equal(decoded("DecodePng", png), NOISE)
    assert np.array_equal(decoded("DecodeImage", png, channels=3, expand_animations=False), NOISE[..., :3])
    assert np.array_equal(decoded("DecodeBmp", file_of(NOISE[..., :3], "BMP")), NOISE[..., :3])
    floats = decoded("DecodeImage", file_of(NOISE[..., 0], "PNG"), dtype="float32", expand_animations=False)
    np.testing.assert_allclose(floats[..., 0], NOISE[..., 0] / np.float32(255), rtol=1e-6)
    still = file_of(NOISE[..., :3], "JPEG", quality=95)
    assert decoded("DecodeJpeg", still, ratio=2).shape == (3, 4, 3)
    assert decoded("DecodeGif", file_of(NOISE[..., 0], "GIF")).shape == (1, 5, 7, 3)


@pytest.mark.parametrize(
    "op, data, message",
    [
        ("DecodePng", b"no picture", "DecodeP?ng|image 'picture': the string is not an image in a known format: PNG, JPEG, GIF"),
        ("DecodeWebP", file_of(NOISE, "PNG"), "the string is an image in the format PNG; it reads WebP"),
        ("DecodePng", file_of(NOISE, "PNG")[:60], "the picture cannot be read"),
        ("DecodeBmp", file_of(NOISE[..., :3], "BMP")[:80], "the file has 80 bytes, but a picture of 7 x 5 needs 174"),
        ("DecodeImage", file_of(NOISE[..., 0], "GIF"), "decode it with expand_animations=False"),
    ],
)  # fmt: skip
def test_bad_pictures(op: str, data: bytes, message: str) -> None:
    with pytest.raises(TVMError, match=message):
        decoded(op, data)


def test_written_pictures() -> None:
    graph = graph_of(("Cast", "bytes", ("x",)), ("EncodePng", "file", ("bytes",)), shape=(5, 7, 4))
    fill(graph.node[-2].attr["DstT"], "uint8")
    add_decoding(graph)
    assert np.array_equal(run(graph, NOISE.astype("float32"))[0], NOISE)


def add_decoding(graph: Any) -> None:
    graph.node.add(op="DecodePng", name="again", input=["file"])


def test_sounds() -> None:
    graph = graph_of(
        constant("rate", 8000), ("EncodeWav", "file", ("x", "rate")), ("DecodeWav", "sound", ("file",)), shape=(4, 2)
    )
    samples = np.array([[0, 0.5], [-1, 1], [-3, 3], [0.25, -0.125]], "float32")
    sound, rate = run(graph, samples, outputs=["sound", "sound:1"])
    np.testing.assert_allclose(sound, np.clip(samples, -1, 1), atol=1 / 32768)
    assert rate == 8000


def test_spectra_of_sounds() -> None:
    graph = graph_of(
        ("AudioSpectrogram", "s", ("x",), {"window_size": 8, "stride": 4, "magnitude_squared": True}), shape=(32, 1)
    )
    wave = np.sin(np.arange(32) * np.pi / 2).astype("float32")[:, None]
    (found,) = run(graph, wave)
    assert found.shape == (1, 7, 5)
    # A wave of four samples is in the middle of five frequencies.
    assert np.all(found[0].argmax(-1) == 2)
