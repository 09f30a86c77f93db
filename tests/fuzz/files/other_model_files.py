"""Sound files of TFLite, TensorFlow and Keras, which `damage_trees` spoils."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

FEW = 24
"""TFLite models of the smaller corpus."""


def write_tflite_models(folder: Path, whole: bool) -> None:
    """A model for each sample of the importer's tests, in the first version that LiteRT's reference kernels take; those whose numbers are
    not LiteRT's are left out. `whole`: all of them."""
    (folder / "tflite").mkdir()
    try:
        from tests.frontend.tflite.ops.samples import SAMPLES
        from tests.frontend.tflite.ops.writer import NEWEST, litert
        from tests.frontend.tflite.test_ops import DEFAULT, NEARLY
    except ImportError:
        return
    names = sorted(set(SAMPLES) - DEFAULT - NEARLY)
    for name in names if whole else names[:: max(1, len(names) // FEW)]:
        for version in range(1, NEWEST):
            data, inputs = SAMPLES[name](version)
            try:
                litert(data, inputs)
            except (RuntimeError, ValueError):
                continue
            (folder / "tflite" / f"{name.replace('/', '_')}.tflite").write_bytes(data)
            break


def write_tensorflow_models(folder: Path) -> None:
    """Frozen graphs and a SavedModel, written without TensorFlow; where it is installed, the graphs of the tests beside it too."""
    from tests.frontend.tensorflow.test_operators import constant, function, graph_of, old_loop, saved_model

    home = folder / "tensorflow"
    home.mkdir()
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return rng.standard_normal(shape).astype("float32")

    loop = graph_of(
        constant("zero", 0), constant("n", 4),
        ("StatelessWhile", "loop", ("zero", "n", "x"), {"cond": "function c", "body": "function b"}),
        ("PartitionedCall", "y", ("loop:2",), {"f": "function double"}),
    )  # fmt: skip
    function(loop, "c", ["i", "n", "v"], {"r": "less:z:0"}, ("Less", "less", ("i", "n")))
    function(
        loop, "b", ["i", "n", "v"], {"i2": "add:z:0", "n2": "n", "v2": "half:z:0"}, constant("one", 1),
        ("AddV2", "add", ("i", "one:output:0")), constant("h", 0.5, "float32"), ("Mul", "half", ("v", "h:output:0")),
    )  # fmt: skip
    function(loop, "double", ["v"], {"r": "twice:z:0"}, ("AddV2", "twice", ("v", "v")))
    graphs = {
        "dense": graph_of(
            constant("w", numbers(4, 5), "float32"), constant("b", numbers(5), "float32"),
            ("MatMul", "m", ("x", "w"), {"transpose_a": False, "transpose_b": False}), ("BiasAdd", "a", ("m", "b")),
            ("Softmax", "y", ("a",)),
        ),
        "picture": graph_of(
            constant("k", numbers(3, 3, 2, 4), "float32"), constant("s", numbers(4), "float32"),
            ("Conv2D", "c", ("x", "k"), {"strides": [1, 2, 2, 1], "padding": "SAME", "data_format": "NHWC"}),
            ("BiasAdd", "a", ("c", "s")), ("Relu", "r", ("a",)),
            ("MaxPool", "y", ("r",), {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}), shape=(1, 8, 8, 2),
        ),
        "sizes": graph_of(
            ("Shape", "s", ("x",), {"T": "float32", "out_type": "int32"}), constant("zero", [0]), constant("one", [1]), constant("two", 2),
            ("StridedSlice", "n", ("s", "zero", "one", "one"), {"shrink_axis_mask": 1}), ("Mul", "m", ("n", "two")),
            ("Pack", "new", ("m", "two")), ("Reshape", "y", ("x", "new")), shape=(-1, 4),
        ),
        "moves": graph_of(
            constant("axis", 1), ("Split", "parts", ("axis", "x"), {"num_split": 2}), ("Relu", "a", ("parts:1",)),
            constant("p", [[0, 1], [1, 0]]), ("Pad", "b", ("parts", "p")), constant("rows", [2, 0]),
            ("GatherV2", "g", ("x", "rows", "zero")), constant("zero", 0), ("ConcatV2", "y", ("a", "parts", "axis"), {"N": 2}),
            constant("i", [1]), ("Sum", "z", ("b", "i"), {"keep_dims": True}),
        ),
        "integers": graph_of(
            ("Cast", "n", ("x",), {"SrcT": "float32", "DstT": "int32"}), constant("d", [1, 0, -1, 3]), ("FloorDiv", "q", ("n", "d")),
            ("FloorMod", "r", ("n", "d")), ("Pack", "y", ("q", "r"), {"N": 2, "axis": 0}),
        ),
        "loop": loop,
        "old loop": old_loop(),
    }  # fmt: skip
    for name, graph in graphs.items():
        (home / f"{name}.pb").write_bytes(graph.SerializeToString())
    saved_model(home / "saved", numbers(4, 6))
    try:
        from tests.frontend.tensorflow.peers import OPERATORS, graph_def
    except ImportError:
        return
    for name, (f, data) in OPERATORS.items():
        (home / f"{name.replace('/', '_')}.pb").write_bytes(graph_def(f, data).SerializeToString())


def write_keras_models(folder: Path) -> None:
    """Small networks as archives and in the older format; without Keras or PyTorch there are none."""
    for kind in ("keras", "h5"):
        (folder / kind).mkdir()
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError:
        return
    layers, ops = keras.layers, keras.ops
    keras.utils.set_random_seed(0)
    rows = keras.Input((5, 8))
    shared = layers.Dense(8)
    joined = layers.Add()([shared(rows), layers.LSTM(8, return_sequences=True)(rows)])
    nets = {
        "dense": keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(3, activation="softmax")]),
        "picture": keras.Sequential(
            [
                keras.Input((8, 8, 2)), layers.Conv2D(4, 3, strides=2, padding="same"), layers.BatchNormalization(),
                layers.ReLU(), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(), layers.Dense(2),
            ]
        ),
        "tokens": keras.Sequential(
            [keras.Input((5,), dtype="int32"), layers.Embedding(11, 6), layers.Bidirectional(layers.GRU(4)), layers.Dense(3)]
        ),
        "joined": keras.Model(rows, [layers.LayerNormalization()(joined), layers.MultiHeadAttention(2, 4)(joined, joined)]),
        "operations": keras.Model(rows, ops.relu(rows) * 2.0 + ops.sin(rows[:, ::2][:, :1])),
    }  # fmt: skip
    for name, net in nets.items():
        net.save(folder / "keras" / f"{name}.keras")
        net.save(folder / "h5" / f"{name}.h5")
