"""Texts and fields of nodes as functions, under their classic names."""

from __future__ import annotations

from typing import Any

from tilewright.node import load_json as LoadJSON
from tilewright.node import save_json as SaveJSON

AsRepr = repr


def NodeGetAttr(obj: Any, name: str) -> Any:
    """A field of a node. Raises AttributeError if there is none."""
    return getattr(obj, name)


def NodeListAttrNames(obj: Any) -> Any:
    """A function of a place: the name of the field there; of -1: how many there are."""
    names = [f.name for f in obj._fields]
    return lambda place: len(names) if place < 0 else names[place]


__all__ = ["AsRepr", "LoadJSON", "NodeGetAttr", "NodeListAttrNames", "SaveJSON"]
