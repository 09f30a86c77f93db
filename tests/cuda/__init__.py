"""Devices of CUDA by a driver without a GPU, which is compiled here (folder fake): its kernels run on the CPU, and what streams are given
is done when somebody waits. The system's loader finds it by its name, so each file on_*.py runs in a process of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from tilewright.runtime.linking.c_source import compiler_command

HERE = Path(__file__).parent
DRIVER, NVRTC = "libcuda.so.1", "libnvrtc.so.12"


def build_fakes(folder: Path) -> Path:
    """Compiles the driver and NVRTC into a folder."""
    sources = sorted((HERE / "fake").glob("*.cc"))
    nvrtc = HERE / "fake" / "nvrtc.cc"
    for name, files in ((DRIVER, [s for s in sources if s != nvrtc]), (NVRTC, [nvrtc])):
        options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
        command = [
            *compiler_command("c++"),
            *options,
            f"-Wl,-soname,{name}",
            *map(str, files),
            "-o",
            str(folder / name),
            "-ldl",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def run_beside(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program of Python whose loader finds the libraries of a folder first."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    settings = {**os.environ, "LD_LIBRARY_PATH": path, **env}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=settings)


class Fake:
    """The driver of this process, for tests: what it was asked, and what it is to answer."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(DRIVER)
        self.library.fake_calls.restype = ctypes.c_char_p
        self.library.fake_live.restype = ctypes.c_long

    def set(self, **settings: int) -> None:
        """devices, pools, peers, cooperative; major and minor, of the compute capability; shared: bytes that a block may have; room: MiB of
        a device."""
        for name, value in settings.items():
            self.library.fake_set(name.encode(), value)

    def refuse(self, name: str, code: int) -> None:
        """What the next call of a function answers."""
        self.library.fake_refuse(name.encode(), code)

    def calls(self, *names: str) -> list[str]:
        """The calls since the last time; only those of some functions."""
        lines: list[str] = self.library.fake_calls().decode().splitlines()
        return [line for line in lines if not names or line.split()[0] in names]

    def live(self, what: str) -> int:
        """What was not given back: bytes, streams, events, modules, host."""
        found: int = self.library.fake_live(what.encode())
        return found

    def heal(self, device: int) -> None:
        """Makes a device work again that is lost."""
        self.library.fake_heal(device)
