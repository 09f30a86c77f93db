"""AutoTVM on boards with accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.autotvm.measure.remote import DefaultModuleLoader, default_module_loader
from tilewright.vta.bitstream import description
from tilewright.vta.environment import get_env
from tilewright.vta.rpc_client import remote_function


class _Programmed:
    """Makes the board of a session the accelerator of a description, before a library comes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, remote: Any, build_result: Any) -> None:
        remote_function(remote, "configure")(0, self.text)


def module_loader(bitstream: str | None = None) -> DefaultModuleLoader:
    """A loader for the parameter module_loader of runners: each board becomes the accelerator of a file, by default that of the current
    environment, before it gets a library. TVMError where the environment is of a real board."""
    return default_module_loader(
        _Programmed(Path(bitstream).read_text() if bitstream is not None else description(get_env()))
    )


__all__ = ["module_loader"]
