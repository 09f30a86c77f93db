"""from_keras: the entry of the Keras importer."""

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

    model: a live model (functional or sequential, of any Keras backend), or the path of a `.keras` or `.h5` file, which does not need
    an installed Keras. shape: extents by input name, in the layout of the program's inputs. Dimensions that neither Keras nor
    `shape` gives (or gives as None or -1) stay symbolic. layout: "NCHW": inputs and outputs of four axes have channels first, as in
    classic TVM; "NCDHW": the same for five axes; "NHWC", "NDHWC", "NWC": the model's layouts. Models with data_format
    channels_first keep their layout.

    Parameters of main are the inputs, then the weights. The dictionary holds the weights' values (not copied). Raises ModelError
    (arguments that do not fit, a damaged file) and OpNotImplemented, which lists all unsupported parts.
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
    """Adds the model's name to errors in the body, if it is a file. Exceptions caused by damage become a ModelError."""
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
