"""from_keras: what was given, and where it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.frontend.common import damage
from tilewright.relay.frontend.common.names import checked_shapes
from tilewright.relay.frontend.keras.graph import LAYOUTS, KerasImporter
from tilewright.relay.frontend.keras.reader import open_model
from tilewright.support.collection import paused_collection
from tilewright.support.errors import ModelError, TVMError


@paused_collection()
def from_keras(
    model: Any, shape: Mapping[str, Sequence[Any]] | None = None, layout: str = "NCHW"
) -> tuple[IRModule, dict[str, Any]]:
    """A module with `main`, and its parameters, from a Keras model.

    model: a live model (functional or sequential, of any Keras backend), or the path of a `.keras` or `.h5` file, for which Keras
    need not be there. shape: extents by input name, in the layout of the program's inputs; without, and for None or -1, those that
    Keras does not state stay symbolic. layout: "NCHW": inputs and outputs of four axes have their channels in front, as in
    classic TVM; "NCDHW": those of five; "NHWC", "NDHWC", "NWC": all as the model has them. Models whose own data_format is
    channels_first stay as they are.

    Parameters of main are the inputs, then the weights, whose values the dictionary holds (not copied). Raises ModelError (what was
    given does not fit, a damaged file) and OpNotImplemented, which lists all that is not supported.
    """
    if layout not in LAYOUTS:
        raise ModelError(f"layout is {layout!r}; it must be one of {', '.join(LAYOUTS)}")
    title = str(model) if isinstance(model, (str, os.PathLike)) else ""
    with guarded(title):
        opened = open_model(model)
    importer = KerasImporter(opened.title, opened.version)
    with guarded(opened.title):
        shapes = checked_shapes(opened.title, "shape", shape)
        return importer.run(opened.spec, opened.store, shapes, layout, opened.tensors)


@contextmanager
def guarded(title: str) -> Iterator[None]:
    """Errors in the body name the model, where it is a file; what a damaged one raises is a ModelError."""
    if not title:
        yield
        return
    try:
        with damage.guarded(title, "Copy or save it again"):
            yield
    except TVMError as error:
        if str(error).startswith(title):
            raise
        raise type(error)(f"{title}: {error}") from None
