"""Parsers of parts of a command line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from tilewright.driver.tvmc.errors import TVMCException


class TVMCSuppressedArgumentParser(argparse.ArgumentParser):
    """A parser with the options of another one that prints no help and does not end the process: what is wrong is a TVMCException."""

    def __init__(self, parent: argparse.ArgumentParser, **kwargs: Any) -> None:
        super().__init__(parents=[parent], add_help=False, **kwargs)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise TVMCException((message or "").strip() or f"the arguments ended the parser with status {status}")
