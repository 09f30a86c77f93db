"""Fresh names: `NameSupply` for strings, `GlobalVarSupply` for functions of modules."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir.expr import GlobalVar
from tilewright.ir.module import IRModule


class NameSupply:
    """Gives names that it has not given before; a second `x` is `x_1`."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._counts: dict[str, int] = {}

    def _full(self, name: str, add_prefix: bool) -> str:
        full = f"{self.prefix}_{name}" if add_prefix and self.prefix and not name.startswith(self.prefix) else name
        return "".join([c if c.isalnum() or c == "_" else "_" for c in full])

    def fresh_name(self, name: str, add_prefix: bool = True, add_underscore: bool = True) -> str:
        """A name that is not taken, `name` itself if it is free; now it is taken."""
        base = found = self._full(name, add_prefix)
        count = self._counts.get(base, 0)
        while found in self._counts:
            count += 1
            found = f"{base}_{count}" if add_underscore else f"{base}{count}"
        self._counts[base] = count
        self._counts.setdefault(found, 0)
        return found

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Reserves a name, even if it is reserved already; returns the name as reserved."""
        full = self._full(name, add_prefix)
        self._counts.setdefault(full, 0)
        return full

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """Whether the name is taken."""
        return self._full(name, add_prefix) in self._counts


class GlobalVarSupply:
    """Gives GlobalVars that are unique among those given and those of the modules that it starts from."""

    def __init__(self, value: NameSupply | IRModule | Iterable[IRModule] | None = None) -> None:
        self.name_supply = value if isinstance(value, NameSupply) else NameSupply()
        self._known: dict[str, GlobalVar] = {}
        if isinstance(value, IRModule):
            value = [value]
        for mod in () if value is None or isinstance(value, NameSupply) else value:
            for gvar in mod.functions:
                self.reserve_global(gvar, allow_conflict=True)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """A GlobalVar of a name that was not taken."""
        found = self.name_supply.fresh_name(name, add_prefix)
        return self._known.setdefault(found, GlobalVar(found))

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The one GlobalVar of this name; made when it is first asked for."""
        full = self.name_supply.reserve_name(name, add_prefix)
        return self._known.setdefault(full, GlobalVar(full))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take the name of a GlobalVar. Raises ValueError when another object has it, unless that is allowed."""
        held = self._known.get(global_var.name_hint)
        if held is not None and held is not global_var and not allow_conflict:
            raise ValueError(f"the name {global_var.name_hint!r} is taken by another GlobalVar")
        self._known[global_var.name_hint] = global_var
        self.name_supply.reserve_name(global_var.name_hint, add_prefix=False)
