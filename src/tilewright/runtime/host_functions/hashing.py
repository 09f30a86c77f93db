"""The hashes of strings that models' buckets are numbered by: FarmHash's Fingerprint64, SipHash-2-4 and MurmurHash64A."""

from __future__ import annotations

from collections.abc import Sequence

WORD = (1 << 64) - 1
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
"""FarmHash's odd constants."""
MURMUR = 0xC6A4A7935BD1E995
TENSORFLOW_SEED = 0xDECAFCAFFE
"""Default keys of TensorFlow's hashes."""


def _right(x: int, by: int) -> int:
    return (x >> by | x << (64 - by)) & WORD


def _left(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & WORD


def _mixed(x: int) -> int:
    return x ^ x >> 47


def _joined(u: int, v: int, by: int) -> int:
    """One word of two."""
    a = _mixed((u ^ v) * by & WORD)
    b = _mixed((v ^ a) * by & WORD)
    return b * by & WORD


def fingerprint64(data: bytes) -> int:
    """FarmHash's Fingerprint64 (Pike, 2014), which never changes: a number of 64 bits."""
    n = len(data)
    by = K2 + n * 2 & WORD

    def at(k: int) -> int:
        return int.from_bytes(data[k : k + 8], "little")

    if n == 0:
        return K2
    if n < 4:
        first = data[0] + (data[n >> 1] << 8)
        return _mixed((first * K2 ^ (n + (data[-1] << 2)) * K0) & WORD) * K2 & WORD
    if n < 8:
        return _joined(n + (int.from_bytes(data[:4], "little") << 3), int.from_bytes(data[-4:], "little"), by)
    if n <= 16:
        a, b = at(0) + K2 & WORD, at(n - 8)
        return _joined(_right(b, 37) * by + a & WORD, (_right(a, 25) + b) * by & WORD, by)
    if n > 64:
        return _long(data)
    a, b = at(0) * (K1 if n <= 32 else K2) & WORD, at(8)
    c, d = at(n - 8) * by & WORD, at(n - 16) * K2 & WORD
    y = _right(a + b & WORD, 43) + _right(c, 30) + d & WORD
    z = a + _right(b + K2 & WORD, 18) + c & WORD
    if n <= 32:
        return _joined(y, z, by)
    z = _joined(y, z, by)
    e, f = at(16) * by & WORD, at(24)
    g, h = (y + at(n - 32)) * by & WORD, (z + at(n - 24)) * by & WORD
    return _joined(_right(e + f & WORD, 43) + _right(g, 30) + h & WORD, e + _right(f + a & WORD, 18) + g & WORD, by)


def _long(data: bytes) -> int:
    """Fingerprint64 of more than 64 bytes: blocks of 64, the last one ending with the data."""
    n = len(data)
    x, y = 81, 81 * K1 + 113 & WORD
    z = _mixed(y * K2 + 113 & WORD) * K2 & WORD
    v, w = (0, 0), (0, 0)
    words = int.from_bytes

    def block(at: int, by: int, nine: int) -> None:
        nonlocal x, y, z, v, w
        m = [words(data[at + k : at + k + 8], "little") for k in range(0, 64, 8)]
        x = _right(x + y + v[0] + m[1] & WORD, 37) * by & WORD
        y = _right(y + v[1] + m[6] & WORD, 42) * by & WORD
        x ^= w[1] * nine & WORD
        y = y + v[0] * nine + m[5] & WORD
        z = _right(z + w[0] & WORD, 33) * by & WORD
        v = _weak(m[:4], v[1] * by & WORD, x + w[0] & WORD)
        w = _weak(m[4:], z + w[1] & WORD, y + m[2] & WORD)
        z, x = x, z

    x = x * K2 + words(data[:8], "little") & WORD
    for at in range(0, (n - 1) // 64 * 64, 64):
        block(at, K1, 1)
    by = K1 + ((z & 255) << 1) & WORD
    w = (w[0] + (n - 1 & 63) & WORD, w[1])
    v = (v[0] + w[0] & WORD, v[1])
    w = (w[0] + v[0] & WORD, w[1])
    block(n - 64, by, 9)
    return _joined(_joined(v[0], w[0], by) + _mixed(y) * K0 + z & WORD, _joined(v[1], w[1], by) + x & WORD, by)


def _weak(m: Sequence[int], a: int, b: int) -> tuple[int, int]:
    """Two words of four and two seeds."""
    a = a + m[0] & WORD
    b = _right(b + a + m[3] & WORD, 21)
    c = a
    a = a + m[1] + m[2] & WORD
    return a + m[3] & WORD, b + _right(a, 44) + c & WORD


def joined_fingerprints(a: int, b: int) -> int:
    """The fingerprint of two together, as crossed features have it."""
    made = (a ^ MURMUR) ^ _mixed(b * MURMUR & WORD) * MURMUR & WORD
    return _mixed(_mixed(made * MURMUR & WORD) * MURMUR & WORD)


def murmur64(data: bytes, seed: int = TENSORFLOW_SEED) -> int:
    """MurmurHash64A (Appleby, 2008)."""
    n = len(data)
    h = seed ^ n * MURMUR & WORD
    for k in range(0, n // 8 * 8, 8):
        m = int.from_bytes(data[k : k + 8], "little") * MURMUR & WORD
        h = (h ^ _mixed(m) * MURMUR & WORD) * MURMUR & WORD
    if n % 8:
        h = (h ^ int.from_bytes(data[n // 8 * 8 :], "little")) * MURMUR & WORD
    return _mixed(_mixed(h) * MURMUR & WORD)


def siphash(data: bytes, key: Sequence[int]) -> int:
    """SipHash-2-4 (Aumasson and Bernstein, 2012) with a key of two words."""
    v = [
        key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573,
    ]  # fmt: skip

    def rounds(n: int) -> None:
        for _ in range(n):
            v[0] = v[0] + v[1] & WORD
            v[1] = _left(v[1], 13) ^ v[0]
            v[0] = _left(v[0], 32)
            v[2] = v[2] + v[3] & WORD
            v[3] = _left(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & WORD
            v[3] = _left(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & WORD
            v[1] = _left(v[1], 17) ^ v[2]
            v[2] = _left(v[2], 32)

    end = len(data) // 8 * 8
    last = data[end:].ljust(7, b"\0") + bytes([len(data) & 255])
    for word in [*[data[k : k + 8] for k in range(0, end, 8)], last]:
        m = int.from_bytes(word, "little")
        v[3] ^= m
        rounds(2)
        v[0] ^= m
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]
