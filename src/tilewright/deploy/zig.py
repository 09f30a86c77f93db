"""zig, the C++ compiler for all machines that the package ziglang brings: its command, its version, its own sources, and how it is run."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.deploy.machines import Machine
from tilewright.support import linker
from tilewright.support.errors import TVMError


def compiler(machine: Machine) -> list[str]:
    """The command that compiles and links C++ for a machine. Raises TVMError where zig is missing."""
    return [*command("c++"), "-target", machine.zig, *([f"-mcpu={machine.cpu}"] if machine.cpu else [])]


def command(*arguments: str) -> list[str]:
    """A command of zig. Raises TVMError where it is missing."""
    found = linker.zig(*arguments)
    if found is None:
        raise TVMError(
            "building the runtime needs zig, a C++ compiler for all machines: `pip install 'tilewright[cross]'` (the package ziglang)"
        )
    return found


def version() -> str:
    """The version of zig. Raises TVMError where it is missing or does not run."""
    return _version(tuple(command()))


@functools.cache
def _version(program: tuple[str, ...]) -> str:
    return _said([*program, "version"])


def _said(line: Sequence[str]) -> str:
    """What a command of zig prints. Raises TVMError with its words where it fails."""
    done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode or not done.stdout.strip():
        words = done.stderr.strip()[-4000:] or _nothing(done.returncode)
        raise TVMError(
            f"zig does not run: `{' '.join(line)}` says\n{words}\nInstall the package ziglang again: pip install --force-reinstall"
            " ziglang"
        )
    return done.stdout.strip()


def source_folders(machine: Machine) -> list[Path]:
    """Folders of zig's own sources that those of the runtime include. Raises TVMError where zig does not tell their place."""
    names = machine.system.zig_sources
    if not names:
        return []
    said = _said(command("env"))
    found = re.search(r'"?lib_dir"?\s*[:=]\s*"([^"]+)"', said)
    if found is None:
        raise TVMError(
            f"building {machine.name} needs sources of zig, but `zig env` does not say where they are: {said[:400]}"
        )
    return [Path(found[1]) / name for name in names]


def run(line: Sequence[str], output: Path, what: str) -> bytes:
    """The file that a command writes. Raises TVMError with its words."""
    done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0 and output.is_file():
        return output.read_bytes()
    said = (done.stderr.strip() or done.stdout.strip())[-4000:]
    # zig aborts without a word where it cannot write its output.
    full = not said and shutil.disk_usage(output.parent).free < 1 << 20
    if full or "NoSpaceLeft" in said or "No space left" in said:
        raise TVMError(
            f"building {what} failed: a disk is full, that of temporary files ({output.parent}; TMPDIR sets another) or that of zig's"
            f" own cache ({os.environ.get('ZIG_GLOBAL_CACHE_DIR', '~/.cache/zig')}; ZIG_GLOBAL_CACHE_DIR sets another)"
        )
    raise TVMError(f"building {what} failed: zig says\n{said or _nothing(done.returncode)}")


def _nothing(status: int) -> str:
    return f"nothing, and ends with status {status}"
