"""Messages about unsupported parts of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.formats.onnx_messages import Message
from tilewright.relay.frontend.common.unsupported import Problem, UnsupportedModel, finding_of
from tilewright.relay.frontend.common.value import nearest, use_text
from tilewright.relay.frontend.onnx.operators import node_name, operator_title
from tilewright.relay.frontend.onnx.value import AlreadyReported, Unknown, converters

ADVICE = {
    "com.microsoft.nchwc": "its weights are laid out for one machine: let ONNX Runtime save the model at ORT_ENABLE_EXTENDED",
    "com.microsoft": "of ONNX Runtime's own operators docs/onnx.md names those that are imported; its optimizer writes them: give the"
    " model as it was before that",
}


class Unsupported(UnsupportedModel):
    """The error with all unsupported parts of a model. `values`: inputs whose elements would have to be known for a part; `shapes`: whether
    pinned shapes may help."""

    def __init__(
        self, message: str, values: frozenset[str] = frozenset(), shapes: bool = False, problems: Sequence[str] = ()
    ) -> None:
        super().__init__(message, problems or [message])
        self.values, self.shapes = values, shapes


class Findings:
    """The unsupported parts found so far. `values`: inputs whose elements would have to be known; `shapes`: whether pinned shapes
    may help."""

    def __init__(self, shapes: bool = False) -> None:
        self.problems: list[str] = []
        self.values: set[str] = set()
        self.shapes = shapes

    def note(self, node: Message, error: NotImplementedError, remedy: str) -> None:
        """Adds an unsupported part of a node, unless it is already listed."""
        if isinstance(error, Unknown):
            self.values |= error.values
            self.shapes |= error.shapes
        if not isinstance(error, AlreadyReported):
            name = node_name(node)
            text = f"{node.op_type} {name!r}: {finding_of(error, name)}{remedy}"
            self.problems.append(Problem(text, operator_title(node), [name]))

    def finish(self, model: str, opset: int) -> None:
        """Raises all parts at once, if there are any."""
        if self.problems:
            count = len(self.problems)
            head = f"{model} (opset {opset}): {count} {'thing is' if count == 1 else 'things are'} not supported"
            raise Unsupported("\n  ".join([head, *self.problems]), frozenset(self.values), self.shapes, self.problems)


def missing(
    domain: str, op_type: str, names: Sequence[str], opsets: Mapping[str, int], supported: Sequence[str]
) -> Problem:
    """An unsupported operator, with its uses and the nearest supported operators."""
    title = f"{domain}::{op_type}" if domain else op_type
    text = use_text(title, list(names))
    if (domain, op_type) in converters:
        first = min(since for since, _ in converters[domain, op_type])
        text += f"; supported from opset {first}, the model uses {opsets.get(domain, 1)}"
        return Problem(text, title, names, [f"{title} of opset {first}"])
    near = [n if n in supported else f"{n} (from opset {first_opset(n)})" for n in _near(op_type, domain, supported)]
    text += f"; nearest supported: {', '.join(near)}" if near else ""
    return Problem(text + (f"; {ADVICE[domain]}" if domain in ADVICE else ""), title, names, near)


def _near(op_type: str, domain: str, supported: Sequence[str]) -> list[str]:
    """The nearest operators, also of later opsets."""
    later = [] if domain else [n for d, n in converters if not d]
    return nearest(op_type.removeprefix("Fused"), dict.fromkeys([*supported, *later]))


def first_opset(op_type: str) -> int:
    """The first supported opset of one of ONNX's operators."""
    return min(since for since, _ in converters["", op_type])
