"""What the importers share."""

from __future__ import annotations
