"""The builder of packages for `RPCRunnerMicro`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilewright.meta_schedule.builder.local_builder import LocalBuilder
from tilewright.micro.model_library_format import export_model_library_format
from tilewright.runtime import Module


def get_local_builder_micro() -> LocalBuilder:
    """A builder whose results are packages in the model library format."""
    return LocalBuilder(f_export=export_package)


def export_package(mod: Module) -> str:
    """The path of a package with a runtime module, in a new folder."""
    return export_model_library_format(mod, Path(tempfile.mkdtemp(prefix="tilewright-kernel-")) / "model.tar")


__all__ = ["export_package", "get_local_builder_micro"]
