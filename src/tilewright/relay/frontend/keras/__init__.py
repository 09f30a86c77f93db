"""The Keras importer.

`reader` opens live models, `.keras` archives and `.h5` files in one form: layers as Keras serialises them, and a store of weights
(`weights`). `graph` walks the layers and nested models. The `layers_*` files have one converter per layer, the
`ops*` files the converters of keras.ops.
"""

from __future__ import annotations

from tilewright.relay.frontend.keras import (
    activations,
    layers_attention,
    layers_conv,
    layers_core,
    layers_image,
    layers_recurrent,
    layers_strings,
    model_file,
    ops,
    ops_linalg,
    ops_nn,
)

from tilewright.relay.frontend.keras import ops_numpy  # isort: skip (it names converters of `ops`)
from tilewright.relay.frontend.keras.frontend import from_keras
from tilewright.relay.frontend.keras.value import layers, operations

__all__ = ["from_keras", "supported_layers", "supported_operations"]


def supported_layers() -> list[str]:
    """Class names of the layers that the importer supports."""
    return sorted(layers)


def supported_operations() -> list[str]:
    """Class names of the operations of keras.ops that the importer supports."""
    return sorted(operations)
