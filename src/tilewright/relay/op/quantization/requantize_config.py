"""Default attributes of requantize."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

ROUNDINGS = ("None", "UPWARD", "TONEAREST")
COMPUTE_DTYPES = ("None", "int64", "float32", "float64")


class RequantizeConfig:
    """Defaults within a `with` block. rounding: "UPWARD" or "TONEAREST". compute_dtype: "int64", "float32" or "float64"."""

    def __init__(self, rounding: str = "UPWARD", compute_dtype: str = "float32") -> None:
        for what, value, known in (
            ("rounding", rounding, ROUNDINGS[1:]),
            ("compute_dtype", compute_dtype, COMPUTE_DTYPES[1:]),
        ):
            if value not in known:
                raise ValueError(f"{what} must be one of {', '.join(known)}, but is {value!r}")
        self.rounding, self.compute_dtype = rounding, compute_dtype
        self._token: Token[RequantizeConfig | None] | None = None

    def __enter__(self) -> RequantizeConfig:
        self._token = _current.set(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self._token is not None
        _current.reset(self._token)

    @staticmethod
    def current() -> RequantizeConfig:
        """The settings of the innermost block, else the defaults."""
        return _current.get() or RequantizeConfig()


_current: ContextVar[RequantizeConfig | None] = ContextVar("requantize", default=None)


class requantize_config(RequantizeConfig):
    """with relay.qnn.op.requantize_config(rounding="TONEAREST"): ..."""


def current_requantize_config() -> RequantizeConfig:
    """The settings of the innermost block, else the defaults."""
    return RequantizeConfig.current()
