"""Identifiers of a text: names of programs, made to fit the language, each given out once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Language(NamedTuple):
    """Which identifiers a language has already. keywords: words that are no identifiers. library: functions that are known everywhere.
    reserved: what the beginning of an identifier must not match."""

    keywords: frozenset[str]
    library: frozenset[str]
    reserved: re.Pattern[str]


def plain(name: str, language: Language) -> str:
    """An identifier made from a name."""
    word = re.sub(r"[^a-zA-Z0-9_]", "_", name) or "v"
    if word[0].isdigit() or word in language.keywords or language.reserved.match(word):
        word = f"v_{word}"
    return word


class Names:
    """Gives out the identifiers of one function."""

    def __init__(self, language: Language, taken: Iterable[str] = ()) -> None:
        self._language = language
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """A new identifier of the function."""
        word = plain(name, self._language)
        found = word
        count = self._counts.get(word, 0)
        while found in self._taken or found in self._language.library:
            count += 1
            found = f"{word}_{count}"
        self._counts[word] = count
        self._taken.add(found)
        return found


__all__ = ["Language", "Names", "plain"]
