"""PEP 517 backend: scikit-build-core, with ziglang as the compiler where the machine has none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as _backend

Config = dict[str, Any] | None


def _has_compiler() -> bool:
    if os.environ.get("CC") and os.environ.get("CXX"):
        return True
    c = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
    return c and any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def _fallbacks() -> list[str]:
    needs = [] if _has_compiler() else ["ziglang"]
    if not shutil.which("cmake"):
        needs.append("cmake>=3.18")
    if not shutil.which("ninja") and not shutil.which("make"):
        needs.append("ninja")
    return needs


def _merged(requires: list[str]) -> list[str]:
    return list(dict.fromkeys([*requires, *_fallbacks()]))


def _use_zig() -> None:
    """Points CC and CXX at small scripts that run `zig cc` and `zig c++` out of the ziglang wheel."""
    if _has_compiler() or importlib.util.find_spec("ziglang") is None:
        return
    folder = Path(tempfile.gettempdir()) / f"tilewright-zig-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for variable, name in (("CC", "cc"), ("CXX", "c++"), ("AR", "ar"), ("RANLIB", "ranlib")):
        script = folder / f"zig-{name}"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {name} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        os.environ[variable] = str(script)


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    return _merged(_backend.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    return _merged(_backend.get_requires_for_build_editable(config_settings))


def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    return list(_backend.get_requires_for_build_sdist(config_settings))


def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    _use_zig()
    return str(_backend.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    _use_zig()
    return str(_backend.build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    return str(_backend.build_sdist(sdist_directory, config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Config = None) -> str:
    return str(_backend.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Config = None) -> str:
    return str(_backend.prepare_metadata_for_build_editable(metadata_directory, config_settings))
