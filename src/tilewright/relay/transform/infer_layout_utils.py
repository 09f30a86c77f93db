"""The result type of a layout rule that a program registers (`relay.op.register_infer_correct_layout`)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import Attrs

__all__ = ["InferCorrectLayoutOutput"]


class InferCorrectLayoutOutput:
    """The layouts of an operator's arguments and results, and its attributes for them. A layout is a text
    ("NCHW16c"), a Layout, or "" if it is unknown."""

    def __init__(
        self, input_layouts: Sequence[object], output_layouts: Sequence[object], new_attrs: Attrs | None
    ) -> None:
        self.input_layouts, self.output_layouts, self.new_attrs = list(input_layouts), list(output_layouts), new_attrs

    def __repr__(self) -> str:
        return f"InferCorrectLayoutOutput({self.input_layouts}, {self.output_layouts}, {self.new_attrs})"
