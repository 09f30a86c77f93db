"""Networks of Darknet for `relay.frontend.from_darknet`, read from their files; Darknet's own library is not needed."""

from __future__ import annotations

import os
from typing import Any

from tilewright.formats.darknet import LAYERTYPE, Network, load_network

__all__ = ["LAYERTYPE", "Network", "load_network"]


class DarknetLibrary:
    """What programs call of Darknet's library before they import a network."""

    @staticmethod
    def load_network(cfg: bytes | str, weights: bytes | str | None, clear: int = 0) -> Network:
        """The network of a configuration with its weights. clear: accepted, as in Darknet."""
        return load_network(cfg, weights, clear)


class DarknetInterface:
    """Stands where classic programs open Darknet's library: networks are read from their files instead."""

    NULL: Any = None

    @staticmethod
    def dlopen(path: str | os.PathLike[str] = "") -> DarknetLibrary:
        """The functions that read networks. The library at `path` is not opened."""
        return DarknetLibrary()


__darknetffi__ = DarknetInterface()
