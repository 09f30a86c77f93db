"""The names of classic `relay.build_module`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.relay.backend import create_executor
from tilewright.relay.backend.build import build, optimize
from tilewright.relay.expr import Function, bind

__all__ = ["bind_params_by_name", "build", "create_executor", "optimize"]


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """The function with the parameters of these names fixed to arrays."""
    return bind(func, params)
