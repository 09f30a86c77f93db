"""The parts of relay whose code runs when it is first used: what analyses, changes and compiles programs."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.support.deferred import defer

ROOMS = ("analysis", "collage", "dataflow_pattern", "loops", "parser", "quantize", "transform")
defer(*[f"tilewright.relay.{room}" for room in ROOMS])
# Modules that programs import from.
lazy.faces(
    "tilewright.relay.transform",
    {
        "transform": (),
        "fake_quantization_to_integer": (
            "FakeQuantizationToInteger",
            "tilewright.relay.op:register_fake_quantization_to_integer",
            "tilewright.relay.op:register_optional_fake_quantization_to_integer",
        ),
    },
)
