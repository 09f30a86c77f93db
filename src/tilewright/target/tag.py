"""Names of machines: what `Target` may be made of besides kinds of targets. `tags/` has those of this package, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tilewright.support import lazy


class Tag(NamedTuple):
    """The options of a target as a dictionary, and words about the machine."""

    config: Mapping[str, Any]
    about: str = ""


_registered: dict[str, Tag] = {}


@cache
def _shipped() -> Mapping[str, Tag]:
    """The tags in the files of `tags/`. Each `[[target]]` has `names`, perhaps `about`, and options; `[common]` has options of all."""
    found: dict[str, Tag] = {}
    for file in sorted((files("tilewright.target") / "tags").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".toml"):
            continue
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        for entry in table["target"]:
            config = {**table.get("common", {}), **entry}
            names, about = config.pop("names"), config.pop("about", "")
            tag = Tag(config, about)
            found |= dict.fromkeys(names, tag)
    return found


def known_tags() -> dict[str, Tag]:
    """All tags by name."""
    return {**_shipped(), **_registered}


def tag_named(name: str) -> Tag | None:
    """The tag of a name. The files are read for names of machines only, which have a slash."""
    found = _registered.get(name)
    return found if found is not None or "/" not in name else _shipped().get(name)


def remember(name: str, config: Mapping[str, Any]) -> None:
    """Adds a tag, or replaces it."""
    _registered[name] = Tag(dict(config))


# The classic module has the functions that make targets of tags as well.
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["Tag", "known_tags", "remember", "tag_named"]
