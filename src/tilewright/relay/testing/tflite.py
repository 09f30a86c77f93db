"""A TFLite model with its reference results (classic `relay.testing.tflite`). TensorFlow is imported where a model is made; reference
results come from TensorFlow's interpreter, or LiteRT's where there is no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.support.errors import TVMError

__all__ = ["TFLiteModel"]


class TFLiteModel:
    """A model from a file or a function of TensorFlow; its inputs, of element type `dtype`, are called x0, x1, ... where the model's own
    names are not known."""

    def __init__(self, dtype: str) -> None:
        self.serial_model: bytes | None = None
        self.dtype = dtype
        self.shape_dict: dict[str, tuple[int, ...]] = {}
        self.dtype_dict: dict[str, str] = {}

    def create_conv2d_single(
        self,
        kernel_shape: Sequence[int],
        strides: Sequence[int],
        padding: Any,
        dilation: Sequence[int],
        activation: str,
    ) -> Any:
        """A function of TensorFlow: one convolution (NHWC, weights HWIO) with a bias, and RELU, RELU6 or NONE."""
        import tensorflow as tf  # type: ignore[import-not-found, unused-ignore]

        @tf.function  # type: ignore[untyped-decorator, unused-ignore]
        def conv2d_single_function(x: Any) -> Any:
            rng = np.random.default_rng(0)
            weights = tf.constant(rng.uniform(size=kernel_shape), dtype=tf.float32)
            y = tf.nn.conv2d(x, weights, strides=strides, padding=padding, dilations=dilation)
            y = tf.nn.bias_add(y, tf.constant(rng.uniform(size=kernel_shape[-1]), dtype=tf.float32))
            known = {"RELU": tf.nn.relu, "RELU6": tf.nn.relu6, "NONE": lambda t: t}
            if activation not in known:
                raise ValueError(f"activation must be one of {', '.join(known)}, but is {activation!r}")
            return known[activation](y)

        return conv2d_single_function

    def create_tflite_model(
        self, tfl_function: Any, shapes: Sequence[Sequence[int]], ranges: Sequence[tuple[float, float]] | None = None
    ) -> None:
        """The model of a function of TensorFlow on inputs of these shapes, quantised to `dtype` where that is int8 or int16, by
        samples that lie in `ranges` (0 to 1)."""
        import tensorflow as tf

        tensors = [tf.TensorSpec(shape, dtype=tf.float32) for shape in shapes]
        converter = tf.lite.TFLiteConverter.from_concrete_functions([tfl_function.get_concrete_function(*tensors)])
        if self.dtype in ("int8", "int16"):
            limits = list(ranges or [(0.0, 1.0)] * len(shapes))

            def samples() -> Any:
                rng = np.random.default_rng(0)
                for _ in range(100):
                    yield [
                        rng.uniform(*limit, size=s).astype(np.float32) for s, limit in zip(shapes, limits, strict=True)
                    ]

            integer = tf.int8 if self.dtype == "int8" else tf.int16
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = samples
            converter.inference_input_type = converter.inference_output_type = integer
        self.serial_model = converter.convert()
        self._note(shapes)

    def load_from_file(self, model_file: str | Path, shapes: Sequence[Sequence[int]]) -> None:
        """The model in a file, with the shapes of its inputs."""
        self.serial_model = Path(model_file).read_bytes()
        self._note(shapes)

    def _note(self, shapes: Sequence[Sequence[int]]) -> None:
        names = [d["name"] for d in self._interpreter().get_input_details()]
        self.shape_dict = {name: tuple(s) for name, s in zip(names, shapes, strict=True)}
        self.dtype_dict = dict.fromkeys(names, self.dtype)

    def _interpreter(self) -> Any:
        if self.serial_model is None:
            raise TVMError("TFLiteModel has no model yet; call load_from_file or create_tflite_model first")
        try:
            from tensorflow.lite import Interpreter  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            from ai_edge_litert.interpreter import Interpreter
        made = Interpreter(model_content=self.serial_model)
        made.allocate_tensors()
        return made

    def convert_to_relay(self) -> tuple[IRModule, dict[str, Any]]:
        """The model as a relay module, and its parameters."""
        from tilewright.relay.frontend import from_tflite

        if self.serial_model is None:
            raise TVMError("TFLiteModel has no model yet; call load_from_file or create_tflite_model first")
        return from_tflite(self.serial_model, dict(self.shape_dict), dict(self.dtype_dict))  # type: ignore[no-any-return, unused-ignore]

    def generate_reference_data(self) -> tuple[dict[str, Any], list[Any]]:
        """Random inputs by name, and the results of the reference interpreter for them."""
        interpreter = self._interpreter()
        rng, inputs = np.random.default_rng(0), {}
        for d in interpreter.get_input_details():
            if np.issubdtype(d["dtype"], np.integer):
                info = np.iinfo(d["dtype"])
                inputs[d["name"]] = rng.integers(info.min, info.max, d["shape"], d["dtype"], endpoint=True)
            else:
                inputs[d["name"]] = rng.uniform(size=d["shape"]).astype(d["dtype"])
            interpreter.set_tensor(d["index"], inputs[d["name"]])
        interpreter.invoke()
        return inputs, [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
