"""The table of operators is what ONNX's schemas, and ONNX Runtime's of its own operators, say (`--update` writes it)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from tilewright.relay.frontend.onnx.files import schema_table
from tilewright.relay.frontend.onnx.inputs import element_name

OF_FIRST_OPSETS = ("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh", "LayerNormalization")
"""Operators without a domain that ONNX keeps no schemas of, and ONNX Runtime does."""
MANY = (1 << 31) - 1
ELEMENTS = {
    name.lower(): element_name(number) or name.lower() for name, number in TensorProto.DataType.items() if number
}


def schemas() -> list[Any]:
    """All that the table holds, in its order."""
    known = list(defs.get_all_schemas_with_history())
    names = {(s.domain, s.name, s.since_version) for s in known}
    for s in runtime.get_all_operator_schema():
        first = not s.domain and s.name in OF_FIRST_OPSETS and s.since_version == 1
        if (s.domain == "com.microsoft" or first) and (s.domain, s.name, s.since_version) not in names:
            known.append(s)
    return sorted(known, key=lambda s: (s.domain, s.name, s.since_version))


def elements(formal: Any) -> str:
    """Types of an input's elements; "" where it may not be a tensor."""
    types = sorted(formal.types)
    if not all(t.startswith("tensor(") for t in types):
        return ""
    return " ".join(sorted([ELEMENTS[t[len("tensor(") : -1]] for t in types]))


def bounds(least: int, most: int) -> str:
    return f"{least}-{'*' if most == MANY else most}"


def table() -> str:
    """The text of schema_table.py."""
    known = schemas()
    types = sorted({elements(f) for s in known for f in s.inputs})
    rows: dict[str, list[str]] = {}
    for s in known:
        attributes = [f"{n}:{a.type.value}{'!' * a.required}" for n, a in sorted(s.attributes.items())]
        inputs = ",".join([str(types.index(elements(f))) for f in s.inputs]) or "-"
        counts = [bounds(s.min_input, s.max_input), bounds(s.min_output, s.max_output)]
        rows.setdefault(s.domain, []).append(" ".join([s.name, str(s.since_version), *counts, inputs, *attributes]))
    lines = [
        '"""What `schemas` reads. Written by `pytest tests/frontend/onnx/test_schemas.py --update`.',
        "",
        "A row: name, first opset, inputs and outputs from-to, types of inputs by their places in TYPES, attributes with the",
        "numbers of their kinds (`!`: must be there).",
        '"""',
        "",
        "TYPES = (",
        *[f'    "{line}"' + ("," if last else "") for t in types for line, last in broken(t)],
        ")",
        "OPERATORS = {",
    ]
    for domain, strings in rows.items():
        filled = textwrap.fill("; ".join(strings), 138, break_long_words=False, break_on_hyphens=False)
        lines.append(f'    "{domain}": """\n{filled}\n""",')
    return "\n".join([*lines, "}", ""])


def broken(text: str) -> list[tuple[str, bool]]:
    """A text in lines, each with whether it is the last."""
    parts = textwrap.wrap(text, 120, drop_whitespace=False, break_on_hyphens=False) or [""]
    return [(p, p is parts[-1]) for p in parts]


def test_the_table_is_what_the_schemas_say(request: pytest.FixtureRequest) -> None:
    path = Path(schema_table.__file__)
    made = table()
    if request.config.getoption("--update"):
        path.write_text(made)
    assert len(schemas()) > 800
    assert path.read_text() == made
