"""What is said of operators that have no converter."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tilewright.relay.frontend.onnx.value import converters
from tilewright.support.errors import OpNotImplemented

ADVICE = {
    "com.microsoft": "ONNX Runtime's own operators appear after its optimizer: give the model as it was before that",
}


class Unsupported(OpNotImplemented):
    """All that is not supported in a model. `values`: inputs whose elements would have to be known for a part of it; `shapes`: whether
    pinned shapes may help."""

    def __init__(self, message: str, values: frozenset[str] = frozenset(), shapes: bool = False) -> None:
        super().__init__(message)
        self.values, self.shapes = values, shapes


def missing_text(
    domain: str, op_type: str, names: Sequence[str], opsets: Mapping[str, int], supported: Sequence[str]
) -> str:
    """One operator that is not supported: where it is used, and the nearest that is."""
    title = f"{domain}::{op_type}" if domain else op_type
    shown = ", ".join(repr(n) for n in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    text = f"{title} ({len(names)} {'node' if len(names) == 1 else 'nodes'}: {shown})"
    if (domain, op_type) in converters:
        first = min(since for since, _ in converters[domain, op_type])
        return f"{text}; supported from opset {first}, the model uses {opsets.get(domain, 1)}"
    near = difflib.get_close_matches(op_type.removeprefix("Fused"), supported, n=2, cutoff=0.5)
    text += f"; nearest supported: {', '.join(near)}" if near else ""
    return text + (f"; {ADVICE[domain]}" if domain in ADVICE else "")
