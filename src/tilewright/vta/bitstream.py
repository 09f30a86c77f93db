"""The file that makes a board the accelerator of the current environment. For simulated boards it is the description, which is written
here; files for real boards are made by their own tools."""

from __future__ import annotations

from pathlib import Path

from tilewright.support.cache import default_directory
from tilewright.support.errors import TVMError
from tilewright.vta.environment import Environment, get_env
from tilewright.vta.simulator.description import describe


def get_bitstream_path() -> str:
    """Where the file of the current environment belongs, in the folder of the cache; it need not be there."""
    env = get_env()
    return str(default_directory() / "vta" / env.TARGET / f"{env.BITSTREAM}.txt")


def download_bitstream() -> str:
    """Writes the file of the current environment, and returns its path. TVMError for targets that are no simulators."""
    path = Path(get_bitstream_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(description(get_env()))
    return str(path)


def description(env: Environment) -> str:
    """The description of a simulated board. TVMError for other targets."""
    if env.TARGET not in ("sim", "tsim"):
        raise TVMError(
            f"there is no hardware description for {env.TARGET!r} here: only the targets sim and tsim are made by this package;"
            " make the board's file with the vendor's tools and pass its path"
        )
    return describe(env.configuration)


__all__ = ["description", "download_bitstream", "get_bitstream_path"]
