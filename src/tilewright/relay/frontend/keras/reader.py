"""Opening of Keras models: live objects, `.keras` archives and `.h5` files, with clear errors for missing parts."""

from __future__ import annotations

import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.hdf5.cursor import REMEDY
from tilewright.formats.hdf5.file import opened
from tilewright.relay.frontend.keras.weights import FileStore, LegacyFile, LiveStore, Spec, Store
from tilewright.support.errors import ModelError, said

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
MOST_CONFIG = 1 << 28
"""The size limit of a model's description, in bytes."""
LOCAL_HEAD = 30
"""The size in bytes of the fixed header before a file's name in a zip archive. The numbers at 26 and 28 give the lengths after it."""


class OpenedModel:
    """A model: its serialised form, its weights, the major version of Keras that wrote it, its name in messages, its inputs' names."""

    def __init__(self, spec: Spec, store: Store, version: int, title: str, tensors: Sequence[str] = ()) -> None:
        self.spec, self.store, self.version, self.title = spec, store, version, title
        self.tensors = tuple(tensors)


def open_model(source: Any) -> OpenedModel:
    """Opens a live model or a file. Raises ModelError."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.is_file():
            raise ModelError(f"{path}: there is no such file. Give the path of a .keras or .h5 file")
        return _archive(path) if zipfile.is_zipfile(path) else _legacy(path)
    if not hasattr(source, "get_config") or not hasattr(source, "layers"):
        raise TypeError(f"from_keras takes a Keras model, or the path of one, but was given {type(source).__name__}")
    return _live(source)


def _live(model: Any) -> OpenedModel:
    title = f"model {getattr(model, 'name', type(model).__name__)!r}"
    module = sys.modules.get("keras")
    version = str(getattr(module, "__version__", "3"))
    if version.startswith("2") or not hasattr(module, "saving"):
        config = {"class_name": type(model).__name__, "config": model.get_config()}
        return OpenedModel(config, LiveStore(model), 2, title)
    kind = type(model).__name__
    if kind not in ("Functional", "Sequential", "Model") or not getattr(model, "built", True):
        if kind == "Sequential":
            raise ModelError(
                f"{title}: the model is not built, so that it has no weights: call it once, or begin it with keras.Input"
            )
        raise ModelError(
            f"{title}: {kind} is a model with its own call(), so Keras does not list its layers. Make it a functional model:"
            " x = keras.Input(...); keras.Model(x, model.call(x))"
        )
    try:
        spec = module.saving.serialize_keras_object(model)  # type: ignore[union-attr]
    except Exception as error:
        raise ModelError(f"{title}: Keras cannot describe it ({said(error)})") from error
    tensors = [str(getattr(t, "name", "")) for t in getattr(model, "inputs", None) or ()]
    return OpenedModel(_plain_spec(spec, kind), LiveStore(model), 3, title, tensors)


def _plain_spec(spec: Spec, kind: str) -> Mapping[str, Any]:
    return {**spec, "class_name": kind} if spec.get("class_name") not in ("Functional", "Sequential", "Model") else spec


def _json(data: bytes, title: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{title}: {what} is no JSON ({said(error)}). {REMEDY}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{title}: {what} describes no model. {REMEDY}")
    return found


def _member(archive: zipfile.ZipFile, name: str, title: str) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > MOST_CONFIG:
        raise ModelError(f"{title}: {name} claims {info.file_size} bytes; at most {MOST_CONFIG} are read. {REMEDY}")
    return archive.read(name)


@contextmanager
def _reading(title: str, what: str) -> Iterator[None]:
    """Turns exceptions of reading an archive into ModelError. ModelErrors of its content pass unchanged."""
    try:
        yield
    except ModelError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error) as error:
        raise ModelError(f"{title}: {what} cannot be read ({said(error)}). {REMEDY}") from None


def _archive(path: Path) -> OpenedModel:
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
        group = opened(_bytes_of(path, archive, WEIGHTS))
    version = str(metadata.get("keras_version", "3"))

    def asset(name: str) -> bytes | None:
        with _reading(title, name):
            return _member(archive, name, title) if name in names else None

    return OpenedModel(spec, FileStore(group, "", "", asset), int(version[0]) if version[:1].isdigit() else 3, title)


def _bytes_of(path: Path, archive: zipfile.ZipFile, name: str) -> memoryview:
    """A file of the archive; memory-mapped if it is stored uncompressed."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        return memoryview(archive.read(name))
    data = _mapped(path)
    head = data[info.header_offset : info.header_offset + LOCAL_HEAD]
    begin = (
        info.header_offset + LOCAL_HEAD + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:], "little")
    )
    found = data[begin : begin + info.file_size]
    if len(found) != info.file_size or zlib.crc32(found) != info.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {name!r}")
    return found


def _mapped(path: Path) -> memoryview:
    return np.memmap(path, np.uint8, "r").data if path.stat().st_size else memoryview(b"")


def _legacy(path: Path) -> OpenedModel:
    title = str(path)
    file = opened(_mapped(path))
    config, version = file.attrs.get("model_config"), file.attrs.get("keras_version", "2")
    if config is None:
        raise ModelError(
            f"{title}: the file holds weights only, without the model's architecture. Save the whole model: model.save('model.keras')"
        )
    spec = _json(
        config if isinstance(config, bytes) else str(config).encode(errors="surrogateescape"), title, "model_config"
    )
    text = version.decode() if isinstance(version, bytes) else str(version)
    weights = file.get("model_weights")
    return OpenedModel(spec, LegacyFile(weights), int(text[0]) if text[:1].isdigit() else 2, title)
