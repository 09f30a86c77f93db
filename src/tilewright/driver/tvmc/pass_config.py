"""Options of passes as text: `tir.disable_vectorize=1`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.driver.tvmc.errors import TVMCException

BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


def load_function(full_name: str) -> Callable[..., Any]:
    """The function of a dotted name, such as my_package.passes.my_pass."""
    module, _, name = full_name.rpartition(".")
    if not module:
        raise TVMCException(f"no function {full_name!r}: name its module, too, as in my_module.{full_name}")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TVMCException(f"no function {full_name!r}: {error}") from error
    return found


def get_pass_config_value(name: str, value: str, config_type: Any) -> Any:
    """A value of a type: a number, a truth value, a text, or for the option tir.add_lower_pass a list of passes."""
    kinds = config_type if isinstance(config_type, tuple) else (config_type,)
    wrong = f"--pass-config {name}={value}: the value must be"
    if name == "tir.add_lower_pass":
        parts = [part.strip() for part in value.split(",")]
        if len(parts) % 2 or not all([part.isdecimal() for part in parts[::2]]):
            raise TVMCException(f"{wrong} of the form opt_level1,pass1,opt_level2,pass2")
        return [(int(level), load_function(one)) for level, one in zip(parts[::2], parts[1::2], strict=True)]
    if bool in kinds and value.lower() in BOOLEANS:
        return BOOLEANS[value.lower()]
    if int in kinds:
        try:
            return int(value)
        except ValueError:
            raise TVMCException(f"{wrong} an integer") from None
    if bool in kinds:
        raise TVMCException(f"{wrong} one of {', '.join(BOOLEANS)}")
    if str in kinds:
        return value
    raise TVMCException(
        f"--pass-config {name}: options that are no numbers or texts are set in Python, by PassContext(config=...)"
    )


def parse_configs(input_configs: Sequence[str] | None) -> dict[str, Any]:
    """The configuration of a PassContext that texts `name=value` make. Raises TVMCException for options that there are not."""
    from tilewright.ir.transform import PassContext

    known, found = PassContext.list_configs(), {}
    for text in input_configs or ():
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise TVMCException(
                f"--pass-config takes name=value, such as tir.disable_vectorize=1, but was given {text!r}"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or sorted(known)
            raise TVMCException(f"there is no option of passes {name!r}; near it: {', '.join(near)}")
        found[name] = get_pass_config_value(name, value, known[name])
    return found
