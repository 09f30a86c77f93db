"""What a task computes, as values that logs hold: a name with arguments, whose tensors are ("TENSOR", shape, dtype)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.ir import FloatImm, IntImm
from tilewright.tir import StringImm, Var

TENSOR = "TENSOR"


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a template as values that logs hold. Raises RuntimeError for those that are neither tensors, numbers, texts, None,
    variables, nor sequences of these."""
    return tuple([_written(arg) for arg in args])


def _written(value: Any) -> Any:
    if isinstance(value, te.Tensor):
        return (TENSOR, tuple([_written(d) for d in value.shape]), str(value.dtype))
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if value is None or isinstance(value, (str, int, float, Var)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, (tuple, list)) or hasattr(value, "__iter__"):
        return tuple([_written(v) for v in value])
    raise RuntimeError(
        f"a template's arguments are tensors, numbers, texts and sequences of these, but one is of {type(value).__name__}: {value!r}"
    )


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """Arguments with placeholders instead of the descriptions of tensors."""
    return [_read(arg) for arg in args]


def _read(value: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return value
    if len(value) == 3 and value[0] == TENSOR:
        return te.placeholder(tuple(value[1]), dtype=value[2])
    return tuple([_read(v) for v in value])


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> tuple[Any, ...]:
    """The workload of a call of a template: its name, if it is given, and its arguments."""
    return (() if task_name is None else (task_name,)) + serialize_args(args)
