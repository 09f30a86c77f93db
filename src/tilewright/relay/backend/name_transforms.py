"""Names in generated C code (classic `relay.backend.name_transforms`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.support.errors import TVMError

__all__ = [
    "prefix_generated_name",
    "prefix_name",
    "sanitize_name",
    "to_c_constant_style",
    "to_c_function_style",
    "to_c_variable_style",
]


def _prefixed(name: str, what: str) -> str:
    if not name:
        raise TVMError("Name is empty")
    if not name.startswith("TVM"):
        raise TVMError(f"{what} not TVM prefixed: {name!r}; prefix_name(...) puts TVM_ before a name")
    return name


def to_c_function_style(original_name: str) -> str:
    """A prefixed name in the style of a C function: TVM_model_run -> TVMModelRun. Raises TVMError for a name without the prefix."""
    prefix, *segments = _prefixed(original_name, "Function").split("_")
    return prefix + "".join([s[:1].upper() + s[1:] for s in segments])


def to_c_variable_style(original_name: str) -> str:
    """A prefixed name in the style of a C variable: TVM_Model_run -> tvm_model_run. Raises TVMError for a name without the prefix."""
    return _prefixed(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """A prefixed name in the style of a C constant: TVM_model_run -> TVM_MODEL_RUN. Raises TVMError for a name without the prefix."""
    return _prefixed(original_name, "Constant").upper()


def _joined(prefix: str, names: str | Sequence[str]) -> str:
    if isinstance(names, str):
        if not names:
            raise TVMError("Name is empty")
        names = [names]
    if not names:
        raise TVMError("Name segments empty")
    if not all(names):
        raise TVMError("Name segment is empty")
    return "_".join([prefix, *names])


def prefix_name(names: str | Sequence[str]) -> str:
    """A name, or its parts, with the prefix TVM: ["model", "run"] -> TVM_model_run."""
    return _joined("TVM", names)


def prefix_generated_name(names: str | Sequence[str]) -> str:
    """A name, or its parts, with the prefix of generated code: ["model", "run"] -> TVMGen_model_run."""
    return _joined("TVMGen", names)


def sanitize_name(original_name: str) -> str:
    """A name in which every character except ASCII letters, digits and underscores is replaced by an underscore."""
    if not original_name:
        raise TVMError("Name is empty")
    return re.sub(r"[^a-zA-Z0-9_]", "_", original_name)
