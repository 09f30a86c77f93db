"""Programs in colour on a terminal."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from tilewright.support.environment import flag
from tilewright.support.errors import TVMError

# What the classic styles are among those of Rich; any other name is a style of Pygments.
_STYLES = {"light": "default", "dark": "monokai", "ansi": "ansi_dark"}


def cprint(printable: Any, style: str | None = None, black_format: bool | None = None) -> None:
    """Prints a program or its text to standard output, in colour on a terminal.

    style: "light", "dark", "ansi" or the name of a Pygments style; by default that of the environment variable
    TVM_PYGMENTIZE_STYLE, else "ansi". black_format: rearrange the text with Black, by default as TVM_BLACK_FORMAT says.
    """
    source = printable if isinstance(printable, str) else printable.script()
    if black_format is None:
        black_format = flag("TVM_BLACK_FORMAT")
    if black_format:
        source = _formatted(source)
    if not sys.stdout.isatty():
        print(source)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    theme = default_theme() if style is None else _STYLES.get(style, style)
    Console().print(Syntax(source, "python", theme=theme, background_color="default"))


def default_theme() -> str:
    """The theme that TVM_PYGMENTIZE_STYLE names, as Rich calls it. Raises TVMError for a name that is not a style."""
    name = os.environ.get("TVM_PYGMENTIZE_STYLE") or "ansi"
    if name in _STYLES:
        return _STYLES[name]
    from pygments.styles import get_all_styles

    if name not in get_all_styles():
        raise TVMError(
            f"the environment variable TVM_PYGMENTIZE_STYLE must be light, dark, ansi or a style of Pygments, but it is `{name}`;"
            " unset it for ansi"
        )
    return name


def _formatted(source: str) -> str:
    try:
        import black
    except ImportError:
        warnings.warn("the program is printed as it is: black_format needs the package black", stacklevel=3)
        return source
    text: str = black.format_str(source, mode=black.FileMode())
    return text.rstrip("\n")
