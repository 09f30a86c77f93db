"""Tensors of TorchScript that may be written in place. A slot holds a value, or a view that writes through to another slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.levels import Quantized
from tilewright.relay.frontend.pytorch.value import Argument, Complex
from tilewright.support.errors import OpNotImplemented

Held = Value | Complex | Quantized
Get = Callable[[Any], Any]
Put = Callable[[Any, Any], Any]


class Slot:
    """A tensor of a script. `level`: the depth of loops and branches at which it was made."""

    __slots__ = ("_seen", "_value", "get", "level", "parent", "put", "version")

    def __init__(
        self,
        value: Held | None,
        level: int,
        parent: Slot | None = None,
        get: Get | None = None,
        put: Put | None = None,
    ) -> None:
        self._value, self.level, self.parent, self.get, self.put = value, level, parent, get, put
        self.version = 0
        self._seen = parent.newest() if parent is not None else 0

    def newest(self) -> int:
        """The number of writes to its value."""
        return self.version if self.parent is None else self.parent.newest()

    def read(self) -> Held:
        """The current value."""
        if self.parent is not None and self._seen != self.parent.newest():
            assert self.get is not None
            self._value, self._seen = self.get(self.parent.read()), self.parent.newest()
        assert self._value is not None
        return self._value

    def write(self, value: Held, level: int) -> None:
        """Sets the value, also in the slots of which it is a view."""
        if self.parent is None:
            if level > self.level:
                raise OpNotImplemented(
                    "it writes in place to a tensor from outside a branch or loop that is decided at run time. Make the new value the"
                    " branch's result (x = x + 1 for x += 1)"
                )
            self._value, self.version = value, self.version + 1
            return
        if self.put is None:
            raise OpNotImplemented(
                "it writes in place to a view that does not tell where its elements are. Write to a copy (.clone())"
            )
        self.parent.write(self.put(self.parent.read(), value), level)


def view_of(name: str, args: list[Argument], call: Callable[..., Value]) -> tuple[Get, Put] | None:
    """Functions of a view: its value from its base, and the base's value from the view's. `call` runs an operator of ATen by name."""
    rest = args[1:]

    def get(base: Value) -> Value:
        return call(name, base, *rest)

    if name in ("select", "slice"):
        scatter = f"{name}_scatter"
        return get, lambda base, new: call(scatter, base, new, *rest)
    if name == "narrow":
        dim, start, length = rest
        return get, lambda base, new: call("slice_scatter", base, new, dim, start, start + length, 1)
    if name == "diagonal":
        return get, lambda base, new: call("diagonal_scatter", base, new, *rest)
    if name in (
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "flatten",
        "unflatten",
        "view_as",
        "reshape_as",
        "_unsafe_view",
    ):
        return get, lambda base, new: call("reshape", new, base.shape)
    if name in ("transpose", "swapaxes", "swapdims"):
        return get, lambda base, new: call("transpose", new, *rest)
    if name == "t":
        return get, lambda base, new: call("t", new)
    if name == "permute":
        return get, lambda base, new: call("permute", new, [rest[0].index(k) for k in range(len(rest[0]))])
    if name in ("detach", "alias", "contiguous", "data", "to"):
        return get, lambda base, new: new
    return None
