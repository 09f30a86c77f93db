"""Converters of image and sound files: host functions read and write them (images with pillow); kernels compute spectra."""

from __future__ import annotations

import io
import math
import struct
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message
from tilewright.relay.frontend.common.host_calls import host_call, host_call_sized
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, string_op, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import as_bytes, as_string, string_host
from tilewright.support.errors import TVMError

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
STILL = {"DecodePng": "PNG, JPEG or GIF", "DecodeJpeg": "JPEG, PNG or GIF", "DecodeWebP": "WebP"}
"""Formats that operators for a single image accept."""


DECODERS = ("DecodePng", "DecodeJpeg", "DecodeBmp", "DecodeWebP", "DecodeGif", "DecodeImage", "DecodeAndCropJpeg")


@string_op(*DECODERS)
def _decode(c: NodeCall, data: Value, window: Value | None = None) -> Value:
    kind = str(c.attr("dtype", "uint8"))
    if not isinstance(data, StringTensor):
        # The program is given the decoded picture.
        if window is not None:
            top, left, rows, columns = (int(v) for v in c.known(window, "crop_window"))
            data = c.cut(c.cut(data, 0, top, top + rows), 1, left, left + columns)
        return data if kind == "uint8" else c.call("divide", c.cast(data, kind), 255.0)
    channels, ratio = int(c.attr("channels", 0)), int(c.attr("ratio", 1))
    if kind not in ("uint8", "float32"):
        raise c.refuse("dtype", kind, "uint8 and float32")
    if not c.attr("fancy_upscaling", True):
        raise c.refuse("fancy_upscaling", False, "True")
    moving = c.op == "DecodeGif" or c.op == "DecodeImage" and bool(c.attr("expand_animations", True))
    config: dict[str, Any] = {"op": c.op, "channels": channels, "ratio": ratio, "kind": kind, "moving": moving}
    if window is not None:
        config["window"] = [int(v) for v in c.known(window, "crop_window")]
    # The number of axes depends on the file: animations have one more.
    rank = 4 if c.op == "DecodeGif" else 3
    return host_call_sized(c, "tf.image", [data], rank, kind, **config)


def _opened(data: bytes, what: str) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise TVMError(f"{what} needs the package pillow: pip install 'tilewright[images]'") from None
    try:
        return Image.open(io.BytesIO(data))
    except (UnidentifiedImageError, OSError, SyntaxError):
        raise ValueError("the string is not an image in a known format: PNG, JPEG, GIF, BMP, WebP") from None


def _channels(image: Any) -> int:
    """The number of channels of a file."""
    if image.mode in ("1", "L", "I;16", "I"):
        return 2 if "transparency" in image.info else 1
    if image.mode == "P" or image.mode == "RGB":
        return 4 if "transparency" in image.info and image.format == "PNG" else 3
    return {"LA": 2, "RGBA": 4, "CMYK": 3}.get(image.mode, 3)


def _pixels(image: Any, channels: int, opaque: int = 255) -> np.ndarray:
    """(height, width, channels) of bytes. opaque: the value of an added alpha channel."""
    wanted = channels or _channels(image)
    if image.mode in ("I;16", "I"):
        image = image.point(lambda v: v / 256).convert("L")
    if wanted == 1 and image.mode in ("P", "RGB", "RGBA") and image.format != "JPEG":
        # Grey values are truncated; pillow would round them.
        return _grey(np.asarray(image.convert("RGB"), np.int64))
    if image.mode == "CMYK":
        image = image.convert("RGB")
    made: np.ndarray = np.asarray(image.convert(MODES[wanted]), np.uint8).reshape(image.height, image.width, wanted)
    if wanted == 4 and opaque != 255 and image.mode in ("1", "L", "P") and "transparency" not in image.info:
        made = np.concatenate([made[..., :3], np.full_like(made[..., 3:], opaque)], 2)
    return made


def _grey(pixels: np.ndarray) -> np.ndarray:
    whole = 9797 * pixels[..., 0] + 19234 * pixels[..., 1] + 3737 * pixels[..., 2]
    made: np.ndarray = (whole >> 15).astype(np.uint8)[..., None]
    return made


@string_host("tf.image", sized=True)
def _run_image(config: Config, data: np.ndarray) -> np.ndarray:
    op, ratio = config["op"], config["ratio"]
    raw = as_bytes(data.item())
    if op == "DecodeBmp" or op == "DecodeImage" and raw[:2] == b"BM":
        return _scaled(config, _bitmap(raw, config["channels"]))
    image = _opened(raw, op)
    frames = getattr(image, "n_frames", 1)
    gif = image.format == "GIF"
    if op in STILL and image.format is not None and image.format.upper() not in STILL[op].upper():
        raise ValueError(f"the string is an image in the format {image.format}; it reads {STILL[op]}")
    if op in STILL and gif and frames > 1:
        raise ValueError(f"the string is an animation of {frames} frames; use tf.io.decode_gif")
    try:
        if gif:
            made = _frames(image, frames if config["moving"] else 1)
            made = made if config["moving"] else made[0]
        else:
            if image.format == "JPEG":
                grey = config["channels"] == 1 and image.mode in ("RGB", "YCbCr")
                image.draft("L" if grey else None, tuple(max(e // ratio, 1) for e in image.size))
            # TensorFlow's added alpha has as many bits as the file's samples.
            bits = raw[24] if image.format == "PNG" else 8
            made = _pixels(image, config["channels"], min((1 << bits) - 1, 255))
            made = made[None] if op == "DecodeGif" else made
    except OSError as error:
        raise ValueError(f"the picture cannot be read: {error}") from None
    if "window" in config:
        y, x, height, width = config["window"]
        if not (y >= 0 and x >= 0 and y + height <= made.shape[0] and x + width <= made.shape[1]):
            raise ValueError(f"the window {config['window']} is not within the picture of {made.shape[:2]}")
        made = made[y : y + height, x : x + width]
    if op == "DecodeImage" and config["moving"] and made.ndim == 4:
        raise ValueError("the string is an animation, which has an axis more; decode it with expand_animations=False")
    return _scaled(config, made)


def _scaled(config: Config, pixels: np.ndarray) -> np.ndarray:
    return pixels if config["kind"] == "uint8" else pixels.astype(np.float32) / np.float32(255)


def _bitmap(data: bytes, channels: int) -> np.ndarray:
    """The image of an uncompressed BMP file, with the fourth channel that pillow drops."""
    if data[:2] != b"BM" or len(data) < 32:
        raise ValueError("the string is not an image in the format BMP")
    (begin,) = struct.unpack_from("<I", data, 10)
    width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
    depth, rows = bits // 8, abs(height)
    if bits not in (8, 24, 32) or width <= 0 or not rows:
        raise ValueError(f"the picture has {bits} bits a pixel; 8, 24 and 32 are supported")
    if channels not in (0, depth):
        raise ValueError(f"the picture has {depth} channels, but channels says {channels}")
    row = -(-width * depth // 4) * 4
    if begin + row * rows > len(data):
        raise ValueError(
            f"the file has {len(data)} bytes, but a picture of {width} x {rows} needs {begin + row * rows}"
        )
    made = np.frombuffer(data, np.uint8, row * rows, begin).reshape(rows, row)[:, : width * depth]
    made = made.reshape(rows, width, depth)[:: -1 if height > 0 else 1]
    return made if depth == 1 else made[..., [2, 1, 0, 3][:depth]]


def _frames(image: Any, count: int) -> np.ndarray:
    made = []
    for k in range(count):
        image.seek(k)
        made.append(np.asarray(image.convert("RGB"), np.uint8))
    return np.array(made)


@string_op("ExtractJpegShape")
def _jpeg_shape(c: NodeCall, data: Value) -> Value:
    return host_call(c, "tf.ExtractJpegShape", [data], [3], str(c.attr("output_type", "int32")))


@string_host("tf.ExtractJpegShape")
def _run_jpeg_shape(config: Config, data: np.ndarray) -> np.ndarray:
    image = _opened(as_bytes(data.item()), "ExtractJpegShape")
    return np.array([image.height, image.width, _channels(image)])


@tf_op("EncodePng", "EncodeJpeg", "EncodeJpegVariableQuality")
def _encode(c: NodeCall, image: Value, quality: Value | None = None) -> Value:
    if image.dtype != "uint8":
        raise c.refuse("image's dtype", image.dtype, "uint8")
    form = {"": 0, "grayscale": 1, "rgb": 3}.get(str(c.attr("format", "")), 0)
    config: dict[str, Any] = {"format": "PNG" if c.op == "EncodePng" else "JPEG", "channels": form}
    config["quality"] = int(c.number_of(quality, "quality") if quality is not None else c.attr("quality", 95))
    config["level"] = int(c.attr("compression", -1))
    config["progressive"], config["optimize"] = bool(c.attr("progressive", False)), bool(c.attr("optimize_size", False))
    config["subsample"] = bool(c.attr("chroma_downsampling", True))
    return host_call(c, "tf.encode", [image], image.shape[:-3], "string", **config)


@string_host("tf.encode")
def _run_encode(config: Config, pixels: np.ndarray) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise TVMError("writing pictures needs the package pillow: pip install 'tilewright[images]'") from None
    if config["channels"] not in (0, pixels.shape[-1]):
        raise ValueError(f"the picture has {pixels.shape[-1]} channels, its format {config['channels']}")
    if config["format"] == "PNG":
        options: dict[str, Any] = {"compress_level": 6 if config["level"] < 0 else config["level"]}
    else:
        options = {k: config[k] for k in ("quality", "progressive", "optimize")}
        options["subsampling"] = 2 if config["subsample"] else 0

    def written(one: np.ndarray) -> str:
        file = io.BytesIO()
        Image.fromarray(one[..., 0] if one.shape[-1] == 1 else one).save(file, config["format"], **options)
        return as_string(file.getvalue())

    out = np.empty(pixels.shape[:-3], object)
    out.reshape(-1)[:] = [written(one) for one in pixels.reshape(-1, *pixels.shape[-3:])]
    return out


# ---- sounds


@string_op("DecodeWav")
def _decode_wav(c: NodeCall, data: Value) -> list[Value]:
    config: dict[str, Any] = {
        "channels": int(c.attr("desired_channels", -1)),
        "samples": int(c.attr("desired_samples", -1)),
    }
    rate = host_call(c, "tf.wav.rate", [data], [], "int32")
    if min(config.values()) > 0:
        sizes = [config["samples"], config["channels"]]
        return [host_call(c, "tf.wav", [data], sizes, "float32", **config), rate]
    return [host_call_sized(c, "tf.wav", [data], 2, "float32", **config), rate]


def _sound(data: bytes) -> tuple[int, int, bytes]:
    """(channels, sample rate, data) of a file with 16 bits per sample."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError("the string is not a WAV file: it does not begin with RIFF and WAVE")
    at, form = 12, b""
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        part = data[at + 8 : at + 8 + size]
        if name == b"fmt ":
            form = part
        elif name == b"data":
            if len(form) < 16:
                raise ValueError("in the WAV file the data come before their format")
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
            if kind not in (1, 0xFFFE) or bits != 16 or not channels:
                raise ValueError(
                    f"the WAV file has {bits} bits a sample in format {kind}; 16 bits of PCM are supported"
                )
            return channels, rate, part[: len(part) // (2 * channels) * 2 * channels]
        at += 8 + size + (size & 1)
    raise ValueError("the WAV file has no data")


@string_host("tf.wav.rate")
def _run_rate(config: Config, data: np.ndarray) -> np.ndarray:
    return np.array(_sound(as_bytes(data.item()))[1], np.int32)


@string_host("tf.wav", sized=True)
def _run_wav(config: Config, data: np.ndarray) -> np.ndarray:
    channels, _, raw = _sound(as_bytes(data.item()))
    made = np.frombuffer(raw, "<i2").astype(np.float32).reshape(-1, channels) / np.float32(32768)
    wanted, samples = config["channels"], config["samples"]
    if wanted > channels:
        made = np.concatenate([made, np.repeat(made[:, -1:], wanted - channels, 1)], 1)
    made = made[:, :wanted] if wanted > 0 else made
    if samples > len(made):
        made = np.concatenate([made, np.zeros((samples - len(made), made.shape[1]), np.float32)])
    return made[:samples] if samples > 0 else made


@tf_op("EncodeWav")
def _encode_wav(c: NodeCall, sound: Value, rate: Value) -> Value:
    return host_call(c, "tf.EncodeWav", [sound, rate], [], "string")


@string_host("tf.EncodeWav")
def _run_encode_wav(config: Config, sound: np.ndarray, rate: np.ndarray) -> np.ndarray:
    steps = np.clip(np.round(sound.astype(np.float32) * np.float32(32768)), -32768, 32767).astype("<i2").tobytes()
    channels, speed = sound.shape[1], int(rate)
    size = len(steps)
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt "
    head += struct.pack("<IHHIIHH", 16, 1, channels, speed, speed * channels * 2, channels * 2, 16)
    head += b"data" + struct.pack("<I", size)
    return np.array(as_string(head + steps), object)


@tf_op("AudioSpectrogram")
def _spectrogram(c: NodeCall, sound: Value) -> Value:
    size, stride = int(c.attr("window_size")), int(c.attr("stride"))
    samples = c.static([sound.shape[0]], "the number of its samples")[0]
    count = 1 + (samples - size) // stride if samples >= size else 0
    length = 1 << max(size - 1, 0).bit_length()
    rows = c.transpose(sound, [1, 0])
    places = np.arange(count)[:, None] * stride + np.arange(size)
    frames = c.call("take", rows, Value(array=places.astype(np.int32)), axis=1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
    frames = c.call("multiply", frames, Value(array=window))
    frames = c.pad(frames, [(0, 0), (0, 0), (0, length - size)])
    real, imag = c.calls("dft", frames, c.call("zeros_like", frames), inverse=False)
    power = c.call("add", c.call("multiply", real, real), c.call("multiply", imag, imag))
    power = c.cut(power, 2, 0, length // 2 + 1)
    return power if c.attr("magnitude_squared", False) else c.call("sqrt", power)


@tf_op("Mfcc")
def _mfcc(c: NodeCall, spectrum: Value, rate: Value) -> Value:
    bins = c.static([spectrum.shape[-1]], "the number of frequencies")[0]
    filters, kept = int(c.attr("filterbank_channel_count", 40)), int(c.attr("dct_coefficient_count", 13))
    speed = float(c.number_of(rate, "sample_rate"))
    low, high = float(c.attr("lower_frequency_limit", 20)), float(c.attr("upper_frequency_limit", 4000))
    bank = _mel_filters(bins, speed, low, high, filters)
    mel = c.call("nn.matmul", c.reshape(c.call("sqrt", spectrum), [-1, bins]), Value(array=bank))
    logs = c.call("log", c.call("maximum", mel, 1e-12))
    angles = np.pi / filters * np.outer(np.arange(filters) + 0.5, np.arange(kept))
    basis = (math.sqrt(2 / filters) * np.cos(angles)).astype(np.float32)
    return c.reshape(c.call("nn.matmul", logs, Value(array=basis)), [*spectrum.shape[:-1], kept])


def _mel_filters(bins: int, rate: float, low: float, high: float, count: int) -> np.ndarray:
    """(bins, count): triangular weights of frequencies, evenly spaced in mels."""

    def mel(f: Message) -> np.ndarray:
        return 1127.0 * np.log1p(np.asarray(f) / 700.0)

    step = (mel(high) - mel(low)) / (count + 1)
    centres = mel(low) + step * np.arange(1, count + 2)
    hertz = 0.5 * rate / (bins - 1)
    bank = np.zeros((bins, count), np.float64)
    begin, end = int(1.5 + low / hertz), int(high / hertz)
    for k in range(begin, min(end, bins - 1) + 1):
        at = mel(k * hertz)
        channel = int(np.searchsorted(centres, at, side="left"))
        below = centres[channel - 1] if channel else mel(low)
        share = (centres[channel] - at) / (centres[channel] - below)
        if channel:
            bank[k, channel - 1] += share
        if channel < count:
            bank[k, channel] += 1 - share
    return bank.astype(np.float32)
