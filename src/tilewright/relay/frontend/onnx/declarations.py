"""Declared types of a model's tensors, compared with the types of its nodes' results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.relay.cards.relations import shape_text
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.inputs import declared, element_name
from tilewright.relay.frontend.onnx.value import Value
from tilewright.support.errors import DiagnosticError, ModelError


class Declarations:
    """The declared tensors of a main graph. `contradictions`: texts about declared shapes that differ from those of the nodes."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.by_name: dict[str, Any] = {}
        self.contradictions: list[str] = []

    def read(self, infos: Iterable[Any]) -> None:
        """Adds the model's value_info and outputs."""
        self.by_name = {i.name: i for i in infos}

    def compare(self, title: str, name: str, value: Value) -> None:
        """Raises ModelError if a tensor's declared element type differs from its node's, and records a different shape."""
        info = self.by_name.get(name)
        if info is None or not info.type.HasField("tensor_type"):
            return
        what = f"{self.model}: the model declares the tensor {name!r}, which {title} makes,"
        remedy = "Correct the model's value_info or outputs, or leave them out: they follow from the nodes"
        element = element_name(info.type.tensor_type.elem_type)
        try:
            made = value.element
        except DiagnosticError as error:
            # Types are inferred at their first use.
            raise DiagnosticError(f"{self.model}: {error}") from None
        if element and element != made:
            raise ModelError(f"{what} as {element}, but it is {made}. {remedy}")
        if info.type.tensor_type.HasField("shape") and (wrong := _difference(declared(info), value.shape)):
            compatibility.DECLARED_SHAPES.seen(name)
            self.contradictions.append(f"{what} {wrong}. What the node makes counts. {remedy}")


def _difference(said: Any, found: Any) -> str:
    """The difference of a declared shape and a node's; "" if they may be equal."""
    if len(said) != len(found):
        return f"with {len(said)} axes {shape_text(said)}, but it has {len(found)}: {shape_text(found)}"
    for axis, (a, b) in enumerate(zip(said, found, strict=True)):
        if isinstance(a, int) and isinstance(b, int) and a != b:
            return f"as {shape_text(said)}, but it is {shape_text(found)}: axis {axis} is {b}, not {a}"
    return ""
