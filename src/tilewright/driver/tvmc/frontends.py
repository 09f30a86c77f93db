"""Formats of model files by their classic names, over the importers of relay."""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.driver.tvmc.errors import TVMCException, TVMCImportError
from tilewright.driver.tvmc.model import TVMCModel
from tilewright.ir import IntImm, IRModule

logger = logging.getLogger("TVMC")

Shapes = Mapping[str, Sequence[Any]]
Loaded = tuple[IRModule, dict[str, Any]]


def lazy_import(pkg_name: str, from_pkg_name: str | None = None, hide_stderr: bool = False) -> ModuleType:
    """A package that a model of its framework needs. Raises TVMCImportError if it is not installed."""
    try:
        return importlib.import_module(pkg_name, package=from_pkg_name)
    except ImportError as error:
        raise TVMCImportError(pkg_name) from error


class Frontend(ABC):
    """A format of model files."""

    importer: str
    """The function of relay.frontend that takes such files."""
    formats: tuple[str, ...]
    """The same format by its names in relay.frontend.common.formats."""

    @staticmethod
    @abstractmethod
    def name() -> str:
        """Its name on the command line."""

    @staticmethod
    @abstractmethod
    def suffixes() -> list[str]:
        """The suffixes of its files."""

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        """(module, parameters). kwargs: arguments of the importer, such as `opset`."""
        if kwargs:
            return self.imported(path, shape_dict, kwargs)
        from tilewright.relay.frontend.common.formats import known_formats

        named = [f for f in known_formats() if f.name in self.formats]
        chosen = next((f for f in named if f.takes(Path(path))), named[0])
        logger.debug("the file is %s", chosen.title)
        return chosen.load(Path(path), extents(shape_dict))

    def imported(self, path: str, shape_dict: Shapes | None, kwargs: Mapping[str, Any]) -> Loaded:
        """The same by the importer itself."""
        from tilewright.relay import frontend

        found: Loaded = getattr(frontend, self.importer)(path, extents(shape_dict) or None, **kwargs)
        return found


def extents(shape_dict: Shapes | None) -> dict[str, tuple[int, ...]]:
    """Shapes as the importers take them: -1 for dynamic extents."""
    return {
        name: tuple([d.value if isinstance(d, IntImm) else d if isinstance(d, int) else -1 for d in shape])
        for name, shape in (shape_dict or {}).items()
    }


class KerasFrontend(Frontend):
    """Keras."""

    importer, formats = "from_keras", ("keras",)

    @staticmethod
    def name() -> str:
        return "keras"

    @staticmethod
    def suffixes() -> list[str]:
        return ["h5", "keras", "hdf5"]

    def imported(self, path: str, shape_dict: Shapes | None, kwargs: Mapping[str, Any]) -> Loaded:
        return super().imported(path, shape_dict, {"layout": "NHWC", **kwargs})

    def is_sequential_p(self, model: Any) -> bool:
        """Whether a live model is a sequence of layers."""
        return any([kind.__name__ == "Sequential" for kind in type(model).__mro__])

    def sequential_to_functional(self, model: Any) -> Any:
        """The functional model of a sequence of layers."""
        keras: Any = lazy_import("keras")
        return keras.Model(model.inputs, model.outputs)


class OnnxFrontend(Frontend):
    """ONNX."""

    importer, formats = "from_onnx", ("onnx",)

    @staticmethod
    def name() -> str:
        return "onnx"

    @staticmethod
    def suffixes() -> list[str]:
        return ["onnx"]


class TensorflowFrontend(Frontend):
    """TensorFlow: frozen graphs, and folders of SavedModels."""

    importer, formats = "from_tensorflow", ("tensorflow",)

    @staticmethod
    def name() -> str:
        return "pb"

    @staticmethod
    def suffixes() -> list[str]:
        return ["pb"]

    def imported(self, path: str, shape_dict: Shapes | None, kwargs: Mapping[str, Any]) -> Loaded:
        from tilewright.relay import frontend

        return frontend.from_tensorflow(path, shape=extents(shape_dict) or None, **kwargs)


class TFLiteFrontend(Frontend):
    """TFLite."""

    importer, formats = "from_tflite", ("tflite",)

    @staticmethod
    def name() -> str:
        return "tflite"

    @staticmethod
    def suffixes() -> list[str]:
        return ["tflite", "lite"]


class PyTorchFrontend(Frontend):
    """PyTorch: TorchScript, which needs the shapes of its inputs, and exported programs."""

    importer, formats = "from_pytorch", ("pt2", "torchscript")

    @staticmethod
    def name() -> str:
        return "pytorch"

    @staticmethod
    def suffixes() -> list[str]:
        return ["pth", "zip", "pt", "pt2", "ts", "jit", "torchscript"]

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        lazy_import("torch")
        from tilewright.relay.frontend.pytorch.model_file import contents

        if shape_dict is None and contents(Path(path)) != "pt2":
            raise TVMCException(
                f"--input-shapes must be specified for {self.name()}: TorchScript does not say the shapes of its inputs"
            )
        return super().load(path, shape_dict, **kwargs)

    def imported(self, path: str, shape_dict: Shapes | None, kwargs: Mapping[str, Any]) -> Loaded:
        from tilewright.relay import frontend
        from tilewright.relay.frontend.pytorch.model_file import contents, open_program, open_script

        program = open_program(Path(path)) if contents(Path(path)) == "pt2" else open_script(Path(path))
        return frontend.from_pytorch(program, list(extents(shape_dict).items()) or None, **kwargs)


class PaddleFrontend(Frontend):
    """PaddlePaddle: a program, with its parameters beside it."""

    importer, formats = "from_paddle", ()

    @staticmethod
    def name() -> str:
        return "paddle"

    @staticmethod
    def suffixes() -> list[str]:
        return ["pdmodel"]

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        return self.imported(path, shape_dict, kwargs)


class RelayFrontend(Frontend):
    """Relay as text."""

    importer, formats = "", ()

    @staticmethod
    def name() -> str:
        return "relay"

    @staticmethod
    def suffixes() -> list[str]:
        return ["relay"]

    def load(self, path: str, shape_dict: Shapes | None = None, **kwargs: Any) -> Loaded:
        """The module. With shape_dict only the parameters of main that it names are inputs, in these shapes; the others are weights, and
        get random values."""
        from tilewright.relay.expr import Function, Var
        from tilewright.relay.functor import substitute
        from tilewright.relay.parser import fromtext
        from tilewright.relay.typing.infer_type import infer_module
        from tilewright.tir import Any as AnyDim

        with open(path, encoding="utf-8") as file:
            mod: Any = fromtext(file.read())
        if shape_dict is None:
            return mod, {}
        main: Any = mod["main"]
        shapes, env, weights = extents(shape_dict), {}, {}
        names = [p.name_hint for p in main.params]
        unknown = [name for name in shapes if name not in names]
        if unknown:
            raise TVMCException(f"{path}: main has no parameter {unknown[0]!r}; it has {', '.join(names)}")
        rng = np.random.default_rng(0)
        for p in main.params:
            kind = p.type_annotation
            if p.name_hint in shapes:
                shape = [d if d >= 0 else AnyDim() for d in shapes[p.name_hint]]
                env[p] = Var(p.name_hint, kind.replace(shape=tuple(shape)))
            else:
                weights[p.name_hint] = rng.standard_normal([int(d) for d in kind.shape]).astype(str(kind.dtype))
        params = tuple([env.get(p, p) for p in main.params])
        made = Function(params, substitute(main.body, env), None, main.type_params, main.attrs, main.span)
        return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): made})), weights


ALL_FRONTENDS: list[type[Frontend]] = [
    KerasFrontend,
    OnnxFrontend,
    TensorflowFrontend,
    TFLiteFrontend,
    PyTorchFrontend,
    PaddleFrontend,
    RelayFrontend,
]
"""The formats, in the order in which their suffixes are looked up."""


def get_frontend_names() -> list[str]:
    """The names of the formats."""
    return [kind.name() for kind in ALL_FRONTENDS]


def get_frontend_by_name(name: str) -> Frontend:
    """The format of a name."""
    for kind in ALL_FRONTENDS:
        if kind.name() == name:
            return kind()
    raise TVMCException(f"unrecognized frontend '{name}'. Choose from: {', '.join(get_frontend_names())}")


def guess_frontend(path: str) -> Frontend:
    """The format of a file, by its suffix."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    for kind in ALL_FRONTENDS:
        if suffix in kind.suffixes() or (kind is TensorflowFrontend and Path(path).is_dir()):
            return kind()
    raise TVMCException(
        f"failed to infer the model format of {path}. Please specify --model-format: {', '.join(get_frontend_names())}"
    )


def load_model(
    path: str, model_format: str | None = None, shape_dict: Shapes | None = None, **kwargs: Any
) -> TVMCModel:
    """A model of a file. model_format: its format, where the suffix does not say it. shape_dict: shapes of inputs, by name. kwargs:
    arguments of the importer. Raises TVMCException, and what importers raise for models that they do not take."""
    chosen = get_frontend_by_name(model_format) if model_format is not None else guess_frontend(path)
    if not Path(path).exists():
        raise TVMCException(f"Input file '{path}' doesn't exist, or is a broken symbolic link.")
    mod, params = chosen.load(path, shape_dict, **kwargs)
    return TVMCModel(mod, params)
