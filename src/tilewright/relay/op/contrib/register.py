"""Pattern tables by compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, overload

from tilewright.support.errors import TVMError
from tilewright.target.kinds import register_external_kind

if TYPE_CHECKING:
    from tilewright.relay.dataflow_pattern import DFPattern
    from tilewright.relay.expr import Expr

Table: TypeAlias = "Sequence[tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Expr], bool]]]"
Maker: TypeAlias = Callable[[], Table]

_tables: dict[str, Table] = {}


KNOWN = ("arm_compute_lib", "dnnl")
"""Compilers with a built-in table. Its module is imported at the first use."""


def load_known(compiler: str) -> None:
    """Registers the built-in pattern table of a compiler, unless a program has registered one."""
    if compiler in KNOWN and compiler not in _tables:
        import_module(f"{__package__}.{compiler}")


@overload
def register_pattern_table(compiler: str, table: None = None) -> Callable[[Maker], Maker]: ...
@overload
def register_pattern_table(compiler: str, table: Maker) -> Maker: ...
def register_pattern_table(compiler: str, table: Maker | None = None) -> Maker | Callable[[Maker], Maker]:
    """Registers the pattern table of a compiler. Decorates a function that returns the table for MergeComposite: a list of (name,
    pattern) or (name, pattern, check), with names that begin with "<compiler>.". The compiler becomes a kind of target.

    Raises TVMError if the function returns anything else.
    """
    if not isinstance(compiler, str):
        raise TVMError(
            f'register_pattern_table takes the name of a compiler: @register_pattern_table("dnnl"); it was given'
            f" {type(compiler).__name__}"
        )

    def register(function: Maker) -> Maker:
        from tilewright.relay.transform.byoc.merge_composite import checked_table

        made = function()
        checked_table(made, f'register_pattern_table("{compiler}")')
        _tables[compiler] = made
        register_external_kind(compiler)
        return function

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Table | None:
    """The pattern table of a compiler, in order; None for an unknown compiler."""
    load_known(compiler)
    return _tables.get(compiler)
