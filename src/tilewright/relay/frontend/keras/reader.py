"""Opening of Keras models: live objects, `.keras` archives and `.h5` files, and clear words when something is missing."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.relay.frontend.common.value import ModelError
from tilewright.relay.frontend.keras.heaps import damaged_heap
from tilewright.relay.frontend.keras.weights import FileStore, LegacyFile, LiveStore, Store

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
MOST_CONFIG = 1 << 28
"""Bytes of the largest description that is read."""
DAMAGED = "Compare its size with the original's, and copy or save it again"


class Opened:
    """A model: its serialised form, its weights, the major version of the Keras that wrote it, its name for messages, its inputs' names."""

    def __init__(
        self, spec: Mapping[str, Any], store: Store, version: int, title: str, tensors: Sequence[str] = ()
    ) -> None:
        self.spec, self.store, self.version, self.title = spec, store, version, title
        self.tensors = tuple(tensors)


def open_model(source: Any) -> Opened:
    """Open a live model or a file. Raises ModelError."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file. Give the path of a .keras or .h5 file")
        return _archive(path) if zipfile.is_zipfile(path) else _legacy(path)
    if not hasattr(source, "get_config") or not hasattr(source, "layers"):
        raise TypeError(f"from_keras takes a Keras model, or the path of one, but was given {type(source).__name__}")
    return _live(source)


def _live(model: Any) -> Opened:
    title = f"model {getattr(model, 'name', type(model).__name__)!r}"
    module = sys.modules.get("keras")
    version = str(getattr(module, "__version__", "3"))
    if version.startswith("2") or not hasattr(module, "saving"):
        config = {"class_name": type(model).__name__, "config": model.get_config()}
        return Opened(config, LiveStore(model), 2, title)
    kind = type(model).__name__
    if kind not in ("Functional", "Sequential", "Model") or not getattr(model, "built", True):
        if kind == "Sequential":
            raise ModelError(
                f"{title}: the model is not built, so that it has no weights: call it once, or begin it with keras.Input"
            )
        raise ModelError(
            f"{title}: {kind} is a model with a call() of its own, whose layers Keras does not list. Make it a functional model:"
            " x = keras.Input(...); keras.Model(x, model.call(x))"
        )
    try:
        spec = module.saving.serialize_keras_object(model)  # type: ignore[union-attr]
    except Exception as error:
        raise ModelError(f"{title}: Keras cannot describe it ({type(error).__name__}: {error})") from error
    tensors = [str(getattr(t, "name", "")) for t in getattr(model, "inputs", None) or ()]
    return Opened(_plain_spec(spec, kind), LiveStore(model), 3, title, tensors)


def _plain_spec(spec: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return {**spec, "class_name": kind} if spec.get("class_name") not in ("Functional", "Sequential", "Model") else spec


def h5py_module(title: str) -> Any:
    """The h5py module. Raises ModelError where it is not installed."""
    try:
        import h5py
    except ImportError:
        raise ModelError(f"{title}: reading Keras's weights needs h5py: pip install 'tilewright[keras]'") from None
    return h5py


def _json(data: bytes, title: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{title}: {what} is no JSON ({error}). {DAMAGED}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{title}: {what} describes no model. {DAMAGED}")
    return found


def _member(archive: zipfile.ZipFile, name: str, title: str) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > MOST_CONFIG:
        raise ModelError(f"{title}: {name} claims {info.file_size} bytes; at most {MOST_CONFIG} are read. {DAMAGED}")
    return archive.read(name)


@contextmanager
def _reading(title: str, what: str) -> Iterator[None]:
    """What reading an archive raises, but for what is found in it, is a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error) as error:
        raise ModelError(f"{title}: {what} cannot be read ({error}). {DAMAGED}") from None


def _archive(path: Path) -> Opened:
    title = str(path)
    with _reading(title, "the archive"):
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        if CONFIG not in names:
            raise ModelError(
                f"{title}: the archive has no {CONFIG}, so it is no Keras model. Save it with model.save({path.name!r})"
            )
        spec = _json(_member(archive, CONFIG, title), title, CONFIG)
        metadata = _json(_member(archive, METADATA, title), title, METADATA) if METADATA in names else {}
        if WEIGHTS not in names:
            raise ModelError(f"{title}: the archive has no {WEIGHTS}. Save it with model.save({path.name!r})")
        if archive.getinfo(WEIGHTS).compress_type == zipfile.ZIP_STORED:
            file: Any = archive.open(WEIGHTS)
        else:
            file = io.BytesIO(archive.read(WEIGHTS))
    group = _h5(h5py_module(title), file, title)
    version = str(metadata.get("keras_version", "3"))

    def asset(name: str) -> bytes | None:
        with _reading(title, name):
            return _member(archive, name, title) if name in names else None

    return Opened(spec, FileStore(group, "", "", asset), int(version[0]) if version[:1].isdigit() else 3, title)


def _h5(h5py: Any, file: Any, title: str) -> Any:
    try:
        return h5py.File(file, "r")
    except (OSError, ValueError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(f"{title}: this is no Keras model, or a damaged one ({error}). {DAMAGED}") from None


def _legacy(path: Path) -> Opened:
    title = str(path)
    damage = damaged_heap(path)
    if damage:
        raise ModelError(f"{title}: the file is damaged: {damage}. {DAMAGED}")
    file = _h5(h5py_module(title), path, title)
    try:
        config = file.attrs.get("model_config")
        version = file.attrs.get("keras_version", "2")
        weights = file.get("model_weights")
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ModelError(f"{title}: the file cannot be read ({error}). {DAMAGED}") from None
    if config is None:
        raise ModelError(
            f"{title}: the file holds weights only, without the model's architecture. Save the whole model: model.save('model.keras')"
        )
    spec = _json(config if isinstance(config, bytes) else str(config).encode(), title, "model_config")
    text = version.decode() if isinstance(version, bytes) else str(version)
    return Opened(spec, LegacyFile(weights), int(text[0]) if text[:1].isdigit() else 2, title)
