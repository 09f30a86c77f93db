"""An attribute of an operator for the length of a `with` block."""

from __future__ import annotations

from typing import Any

from tilewright.ir import Op


class TempOpAttr:
    """`with TempOpAttr("nn.conv2d", "FTVMLegalize", legalize): ...`: what stood there before stands there again afterwards."""

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op, self.attr_key, self.attr_value = Op.get(op_name), attr_key, attr_value
        self.before: Any = None

    def __enter__(self) -> TempOpAttr:
        self.before = self.op.get_attr(self.attr_key)
        self.op.reset_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(self, *exc: Any) -> None:
        self.op.reset_attr(self.attr_key)
        if self.before is not None:
            self.op.set_attr(self.attr_key, self.before)
