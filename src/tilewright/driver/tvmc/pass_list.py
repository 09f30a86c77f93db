"""Lists of passes as text."""

from __future__ import annotations

import argparse


def parse_pass_list_str(input_string: str) -> list[str]:
    """The names of passes in a list with commas. Raises argparse.ArgumentTypeError for names that no pass has."""
    names = [name.strip() for name in input_string.split(",") if name.strip()]
    unknown = [name for name in names if not _is_pass(name)]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no pass {', '.join(map(repr, unknown))}; the pages of passes list them, and --print-pass-times shows those that run"
        )
    return names


def _is_pass(name: str) -> bool:
    from tilewright.relay import transform
    from tilewright.relay.qnn import transform as qnn
    from tilewright.tir import transform as tir

    room, _, last = name.rpartition(".")
    rooms = {"": (transform, qnn), "relay": (transform,), "qnn": (qnn,), "tir": (tir,)}.get(room, ())
    return last[:1].isupper() and any([callable(getattr(found, last, None)) for found in rooms])
