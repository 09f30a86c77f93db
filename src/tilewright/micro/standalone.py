"""Where the runtime's sources and the template projects are."""

from __future__ import annotations

import difflib
import os
from enum import Enum
from pathlib import Path

from tilewright.micro.device_runtime import source_folder
from tilewright.micro.errors import MicroError


class CrtNotFoundError(MicroError):
    """The sources of the runtime for microcontrollers are not there."""


class MicroTVMTemplateProjectNotFoundError(MicroError):
    """There is no template of that name."""


class MicroTVMTemplateProject(Enum):
    """The templates: a process of this machine, boards that QEMU emulates, and folders for Zephyr and for the Arduino IDE."""

    CRT = "crt"
    QEMU = "qemu"
    ZEPHYR = "zephyr"
    ARDUINO = "arduino"

    @classmethod
    def list(cls) -> list[str]:
        """Their names."""
        return [template.value for template in cls]


def get_standalone_crt_dir() -> str:
    """The folder of the sources of the runtime for microcontrollers. Raises CrtNotFoundError."""
    folder = source_folder()
    if not (folder / "src" / "runtime.c").is_file():
        raise CrtNotFoundError(f"the sources of the runtime are not in {folder}; install the package again")
    return os.fspath(folder)


def get_microtvm_template_projects(platform: str) -> str:
    """The folder of a template: "crt" (a process), "qemu", "zephyr" or "arduino". Raises MicroTVMTemplateProjectNotFoundError."""
    known = MicroTVMTemplateProject.list()
    if platform not in known:
        close = difflib.get_close_matches(platform, known, n=1)
        nearest = f"; nearest: {close[0]}" if close else ""
        raise MicroTVMTemplateProjectNotFoundError(
            f"there is no template {platform!r}{nearest}; there are {', '.join(known)}"
        )
    return os.fspath(Path(__file__).parent / "templates" / platform)


__all__ = [
    "CrtNotFoundError", "MicroTVMTemplateProject", "MicroTVMTemplateProjectNotFoundError", "get_microtvm_template_projects",
    "get_standalone_crt_dir",
]  # fmt: skip
