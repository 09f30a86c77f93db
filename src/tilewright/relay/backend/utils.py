"""Names in generated code (classic `relay.backend.utils`)."""

from __future__ import annotations

__all__ = ["mangle_module_name"]


def mangle_module_name(mod_name: str | None) -> str:
    """The prefix of everything that is generated for a module: tvmgen_<name>, or tvmgen. Raises ValueError for names that are not ASCII."""
    if not mod_name:
        return "tvmgen"
    if not mod_name.isascii():
        raise ValueError(f"{mod_name} contains invalid characters: names of generated functions are ASCII")
    return f"tvmgen_{mod_name}"
