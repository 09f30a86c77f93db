"""Findings about a program as values, and where they go: `override_renderer` hands them to a function of the user's."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilewright.ir.span import BaseSpan, Span
from tilewright.support.errors import DiagnosticError

if TYPE_CHECKING:
    from tilewright.ir.module import IRModule

__all__ = [
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticLevel",
    "DiagnosticRenderer",
    "get_renderer",
    "override_renderer",
    "refuse",
    "told",
]


class DiagnosticLevel(enum.IntEnum):
    """How grave a finding is; BUG and ERROR end the compilation."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


class Diagnostic:
    """One finding: its level, the place that it is about, and what it says."""

    __slots__ = ("level", "message", "span")

    def __init__(self, level: DiagnosticLevel | int, span: BaseSpan | None, message: str) -> None:
        self.level, self.span, self.message = DiagnosticLevel(level), span, message

    def __repr__(self) -> str:
        return f"Diagnostic({self.level.name}, {self.span!r}, {self.message!r})"


class DiagnosticRenderer:
    """Shows the findings of a context, by a function of the context."""

    def __init__(self, render_func: Callable[[DiagnosticContext], Any]) -> None:
        self.render_func = render_func

    def render(self, ctx: DiagnosticContext) -> None:
        """Show what the context holds."""
        self.render_func(ctx)


class DiagnosticContext:
    """Collects findings about a module; `render` shows them all, and raises DiagnosticError if one is an error."""

    def __init__(self, module: IRModule | None, renderer: DiagnosticRenderer | None = None) -> None:
        self.module, self.renderer = module, renderer if renderer is not None else get_renderer()
        self.diagnostics: list[Diagnostic] = []

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add a finding."""
        self.diagnostics.append(diagnostic)

    def render(self) -> None:
        """Show the findings. Raises DiagnosticError with the text of the errors, if there are any."""
        self.renderer.render(self)
        errors = [d for d in self.diagnostics if d.level <= DiagnosticLevel.ERROR]
        if errors:
            raise DiagnosticError("\n".join([_text(d) for d in errors]))


def _text(d: Diagnostic) -> str:
    if isinstance(d.span, Span) and d.span.line:
        return f"{d.span.source_name.name}:{d.span.line}:{d.span.column}: {d.message}"
    return d.message


def _print(ctx: DiagnosticContext) -> None:
    for d in ctx.diagnostics:
        print(f"{d.level.name.lower()}: {_text(d)}", file=sys.stderr)


_override: list[Callable[[DiagnosticContext], Any]] = []


def override_renderer(render_func: Callable[[DiagnosticContext], Any] | None) -> None:
    """From now on the parsers (of TVMScript and of relay) and type inference give their findings to this function before they raise
    DiagnosticError; None: to no one."""
    _override[:] = [render_func] if render_func is not None else []


def get_renderer() -> DiagnosticRenderer:
    """The renderer in use: the function of `override_renderer`, else one that prints to stderr."""
    return DiagnosticRenderer(_override[0] if _override else _print)


@contextmanager
def told() -> Iterator[None]:
    """DiagnosticErrors of the block are given to the renderer that the user set, before they are raised."""
    try:
        yield
    except DiagnosticError as error:
        if _override:
            ctx = DiagnosticContext(None)
            span, message = error.finding or (None, str(error))
            ctx.emit(Diagnostic(DiagnosticLevel.ERROR, span, message))
            ctx.renderer.render(ctx)
        raise


def refuse(
    text: str, findings: Sequence[tuple[BaseSpan | None, str]], module: IRModule | None = None
) -> DiagnosticError:
    """The error with this text, after its findings were given to the renderer that the user set."""
    if _override:
        ctx = DiagnosticContext(module)
        for span, message in findings:
            ctx.emit(Diagnostic(DiagnosticLevel.ERROR, span, message))
        ctx.renderer.render(ctx)
    return DiagnosticError(text)
