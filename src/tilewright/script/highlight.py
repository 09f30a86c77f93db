"""Programs in colour on a terminal."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

# What the classic styles are among those of Rich; any other name is a style of Pygments.
_STYLES = {"light": "default", "dark": "monokai", "ansi": "ansi_dark"}


def cprint(printable: Any, style: str | None = None, black_format: bool | None = None) -> None:
    """Prints a program or its text to standard output, in colour on a terminal.

    style: "light", "dark", "ansi" or the name of a Pygments style; by default that of the environment variable
    TVM_PYGMENTIZE_STYLE, else "ansi". black_format: rearrange the text with Black, by default as TVM_BLACK_FORMAT says.
    """
    source = printable if isinstance(printable, str) else printable.script()
    if black_format is None:
        black_format = os.environ.get("TVM_BLACK_FORMAT", "0") not in ("", "0")
    if black_format:
        source = _formatted(source)
    if not sys.stdout.isatty():
        print(source)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    name = style or os.environ.get("TVM_PYGMENTIZE_STYLE") or "ansi"
    Console().print(Syntax(source, "python", theme=_STYLES.get(name, name), background_color="default"))


def _formatted(source: str) -> str:
    try:
        import black
    except ImportError:
        warnings.warn("the program is printed as it is: black_format needs the package black", stacklevel=3)
        return source
    text: str = black.format_str(source, mode=black.FileMode())
    return text.rstrip("\n")
