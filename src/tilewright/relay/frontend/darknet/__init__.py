"""The importer of networks of Darknet: `formats.darknet` reads them; `layers` has one converter per kind of layer."""

from __future__ import annotations

from tilewright.relay.frontend.darknet.frontend import from_darknet

__all__ = ["from_darknet"]
