"""The TensorFlow importer. It does not need TensorFlow.

`checkpoint` reads variables, `reader` opens graphs and SavedModels; `graph` walks from the outputs back,
also through functions; `control` has branches and loops of TensorFlow 1 and 2, `lists` lists of tensors, `fold` arithmetic of shapes;
the files of `ops` have one converter per operator.
"""

from __future__ import annotations

from tilewright.relay.frontend.tensorflow import lists, model_file, ops, tables
from tilewright.relay.frontend.tensorflow.frontend import from_tensorflow
from tilewright.relay.frontend.tensorflow.graph import CONTROL, SOURCES
from tilewright.relay.frontend.tensorflow.value import converters

__all__ = ["from_tensorflow", "supported_operators"]


def supported_operators() -> list[str]:
    """Names of the supported operators."""
    return sorted({*converters, *CONTROL, *SOURCES})
