"""Shapes of inputs as text: `data:[1,3,224,224] mask:[1,-1]`."""

from __future__ import annotations

import argparse
import re
from typing import Any

FORM = 'input shapes have the form "input_name:[dim1,dim2,...,dimn] input_name2:[dim1,dim2]"'
_INPUT = re.compile(r"\s*(\S+?)\s*:\s*\[([^\]]*)\]")


def parse_shape_string(inputs_string: str) -> dict[str, list[Any]]:
    """Shapes by input name. A negative dimension is dynamic (relay.Any()). Raises argparse.ArgumentTypeError for other text."""
    found: dict[str, list[Any]] = {}
    at = 0
    while inputs_string[at:].strip():
        entry = _INPUT.match(inputs_string, at)
        if entry is None:
            raise argparse.ArgumentTypeError(f"{FORM}, but {inputs_string[at:].strip()!r} has not")
        name, dims = entry[1], entry[2]
        if name in found:
            raise argparse.ArgumentTypeError(f"{FORM}, each input once, but {name!r} is given twice")
        found[name] = [_dimension(name, d) for d in dims.split(",")] if dims.strip() else []
        at = entry.end()
    if not found:
        raise argparse.ArgumentTypeError(f"{FORM}, but the text is empty")
    return found


def _dimension(name: str, text: str) -> Any:
    try:
        extent = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{FORM}, but {text.strip()!r}, of {name!r}, is no number") from None
    if extent >= 0:
        return extent
    from tilewright.relay.ty import Any as AnyDim

    return AnyDim()
