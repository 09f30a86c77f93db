"""Boards from here: what their accelerators are to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.runtime.ndarray import empty
from tilewright.vta.bitstream import description
from tilewright.vta.environment import get_env


def remote_function(remote: Any, name: str) -> Any:
    """The function `vta.device.<name>` of a session, whose process opens the library of accelerators at the first use of a device."""
    empty((1,), "int8", remote.ext_dev(0))
    return remote.get_function(f"vta.device.{name}")


def reconfig_runtime(remote: Any) -> None:
    """Makes the simulated board of a session the accelerator of the current environment. TVMError where that is of a real board."""
    remote_function(remote, "configure")(0, description(get_env()))


def program_fpga(remote: Any, bitstream: str | None = None) -> None:
    """Makes the board of a session the accelerator in a file; by default that of the current environment. ValueError for a file of another
    configuration."""
    wanted = description(get_env())
    given = wanted if bitstream is None else Path(bitstream).read_text()
    if given != wanted:
        raise ValueError(f"{bitstream} is not for the accelerator of the current environment, {get_env().MODEL}")
    remote_function(remote, "configure")(0, given)


__all__ = ["program_fpga", "reconfig_runtime", "remote_function"]
