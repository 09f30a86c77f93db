"""Operators of the database that are not supported, by patterns of their names, and why."""

from __future__ import annotations

import re

EXPLAINED: dict[str, str] = {
    r"nn\.functional\.(feature_)?(alpha_)?dropout[23]?d?(_backward)?|native_dropout.*": "it draws what training leaves out",
    r"nn\.functional\.multi_head_attention_forward": "in training it drops weights",
    r"nn\.functional\.rrelu": "in training it draws its slopes",
    r"nn\.functional\.linear_cross_entropy\..*": "a function of training, written by chunks in Python",
    r"hash_tensor": "it is a checksum of bits",
}


def explanation(name: str) -> str:
    """Why an operator is not supported; "" for all others."""
    return next((why for pattern, why in EXPLAINED.items() if re.fullmatch(pattern, name)), "")
