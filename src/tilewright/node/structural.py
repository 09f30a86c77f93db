"""Structural equality and hash over field tables, with variables bound by `Def` fields mapped onto each other."""

from __future__ import annotations

import hashlib
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from tilewright.node.base import GRAPH, VARIABLE, Node
from tilewright.node.field_values import equal_floats, find_leaf
from tilewright.node.object_path import ArrayIndexPath, AttributeAccessPath, MapValuePath, ObjectPath
from tilewright.support import frames
from tilewright.support.errors import DepthError

DEPTH = 200_000
_lock = threading.Lock()
_entered = 0
_found: int | None = None
"""The limit to go back to, while it is raised."""
_evaluator: int | None = None
"""The evaluator of frames that was set before, while CPython is."""
SHALLOW = 200


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Lets pure Python recursion go as deep as a program is; CPython, which then evaluates all of them, keeps those frames on the heap.

    What is deeper yet is a DepthError.
    The limit is one for all threads, and lowering it under one that is deep ends the process. So it goes back only when all others are
    shallow; else the next to end this takes it back.
    """
    global _entered, _evaluator, _found
    with _lock:
        _entered += 1
        if _entered == 1:
            _evaluator = frames.evaluate_frames()
        limit = sys.getrecursionlimit()
        if limit < DEPTH:
            _found = limit
            sys.setrecursionlimit(DEPTH)
    try:
        yield
    except DepthError:
        raise
    except RecursionError:
        raise DepthError(
            f"the program is nested deeper than the compiler follows ({DEPTH} calls of its own). Give values of inner expressions"
            " names (let), or pass tuples flat"
        ) from None
    finally:
        with _lock:
            _entered -= 1
            if not _entered:
                frames.give_back(_evaluator)
                _evaluator = None
            if not _entered and _found is not None and _others_are_shallow():
                sys.setrecursionlimit(_found)
                _found = None


def _others_are_shallow() -> bool:
    """Whether all other threads are few calls deep."""
    mine = threading.get_ident()
    for ident, frame in sys._current_frames().items():
        depth: Any = frame if ident != mine else None
        for _ in range(SHALLOW):
            if depth is None:
                break
            depth = depth.f_back
        if depth is not None:
            return False
    return True


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or tuples, dicts and plain values of them) have the same content up to bound names."""
    if lhs is rhs:
        return True
    try:
        return _Comparer(map_free_vars).compare(lhs, rhs, map_free_vars)
    except RecursionError:
        with deep_recursion():
            return _Comparer(map_free_vars).compare(lhs, rhs, map_free_vars)


def first_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> str | None:
    """The path of the first difference with both sides, such as `.body.extent: 8 != 16`; None when equal."""
    comparer = _Comparer(map_free_vars)
    with deep_recursion():
        if comparer.compare(lhs, rhs, map_free_vars):
            return None
    path = "".join(reversed([_step_text(*step) for step in comparer.path])) or "<root>"
    left, right = comparer.found
    return f"{path}: {_brief(left)} != {_brief(right)}"


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False, skip_ndarray_content: bool = False
) -> tuple[ObjectPath, ObjectPath] | None:
    """The paths to the first difference in both nodes; None when they are equal. Arrays are always compared."""
    comparer = _Comparer(map_free_vars)
    with deep_recursion():
        if comparer.compare(lhs, rhs, map_free_vars):
            return None
    left = right = ObjectPath.root()
    for kind, key, other in reversed(comparer.path):
        left, right = kind(key, left), kind(other, right)
    a, b = comparer.found
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) != len(b):
        n = min(len(a), len(b))
        return (
            left.array_index(n) if n < len(a) else left.missing_array_element(n),
            right.array_index(n) if n < len(b) else right.missing_array_element(n),
        )
    return left, right


def _step_text(kind: type[ObjectPath], key: Any, other: Any) -> str:
    return f".{key}" if kind is AttributeAccessPath else f"[{key!r}]"


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raises ValueError with the path of the first difference and both programs."""
    mismatch = first_mismatch(lhs, rhs, map_free_vars)
    if mismatch is not None:
        raise ValueError(f"StructuralEqual check failed at {mismatch}\nlhs:\n{lhs}\nrhs:\n{rhs}")


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash of the content, the same in every process; equal structures have equal hashes."""
    return int.from_bytes(structural_digest(node, map_free_vars)[:8], "little")


def structural_digest(value: Any, map_free_vars: bool = False) -> bytes:
    """A 32-byte digest of the content, for content-addressed caches."""
    hasher = _Hasher(map_free_vars)
    with deep_recursion():
        hasher.feed(value, map_free_vars)
    return hashlib.blake2b(hasher.out, digest_size=32).digest()


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def bound_by(scope: Node) -> list[Any]:
    """The variables and buffers of which a node is the scope."""
    if scope._binder:
        return [getattr(scope, scope._binder)]
    return [] if scope._binds is None else type(scope)._binds(scope)  # type: ignore[misc]


def rests_on(node: Node, variables: Mapping[int, Any]) -> bool:
    """Whether a field of a shared node is one of the variables, given by their ids."""
    return any([id(getattr(node, name)) in variables for name, _ in node._compared])


class _Comparer:
    def __init__(self, map_free_vars: bool) -> None:
        self.forward: dict[int, Node] = {}
        self.backward: dict[int, Node] = {}
        self.graphs: list[tuple[Node, Node]] = []
        self.renamed = False
        self.path: list[tuple[type[ObjectPath], Any, Any]] = []
        self.found: tuple[Any, Any] = (None, None)

    def differ(self, a: Any, b: Any) -> bool:
        self.found = (a, b)
        return False

    def compare(self, a: Any, b: Any, binding: bool) -> bool:
        # An identical subtree is equal to itself only while no variable in it stands for another one.
        if a is b and not self.renamed and not binding:
            return True
        if isinstance(a, Node):
            return self.compare_nodes(a, b, binding)
        if type(a) in (tuple, list):
            return self.compare_sequences(a, b, binding)
        if isinstance(a, Mapping):
            return self.compare_mappings(a, b, binding)
        return compare_plain(a, plain_form(b)) or self.differ(a, b)

    def compare_nodes(self, a: Node, b: Any, binding: bool) -> bool:
        if type(a) is not type(b):
            return compare_plain(plain_form(a), plain_form(b)) or self.differ(a, b)
        if a._identity is not VARIABLE and a._identity is not GRAPH:
            return self.compare_fields(a, b, binding)
        mapped = self.forward.get(id(a))
        if mapped is not None or id(b) in self.backward:
            return mapped is b or self.differ(a, b)
        if a._identity is VARIABLE and not binding:
            return a is b or self.differ(a, b)
        if not self.compare_fields(a, b, binding):
            return False
        self.forward[id(a)], self.backward[id(b)] = b, a
        if a._identity is GRAPH:
            self.graphs.append((a, b))
        self.renamed = self.renamed or a is not b
        return True

    def compare_fields(self, a: Node, b: Node, binding: bool) -> bool:
        if a._binder or a._binds is not None:
            return self.compare_scope(a, b, binding)
        return self.compare_all(a, b, binding)

    def compare_scope(self, a: Node, b: Node, binding: bool) -> bool:
        """A scope binds its variables anew, whatever they stood for outside of it."""
        old = self.set_aside(bound_by(a), self.forward)
        back = self.set_aside(bound_by(b), self.backward)
        equal = self.compare_all(a, b, binding)
        if equal and old:
            self.forward.update(old)
        if equal and back:
            self.backward.update(back)
        return equal

    def set_aside(self, bound: list[Any], mapping: dict[int, Node]) -> dict[int, Node]:
        """Takes what a scope binds out of a mapping, and with a variable the buffers that are views of it."""
        out = {id(v): mapping.pop(id(v)) for v in bound if id(v) in mapping}
        if out and self.graphs:
            side = mapping is self.backward
            for pair in self.graphs:
                key = id(pair[side])
                if key in mapping and rests_on(pair[side], out):
                    out[key] = mapping.pop(key)
        return out

    def compare_all(self, a: Node, b: Node, binding: bool) -> bool:
        for name, defines in a._compared:
            if not self.compare(getattr(a, name), getattr(b, name), binding or defines):
                self.path.append((AttributeAccessPath, name, name))
                return False
        return True

    def compare_sequences(self, a: Any, b: Any, binding: bool) -> bool:
        if type(b) not in (tuple, list):
            return self.differ(a, b)
        for i in range(min(len(a), len(b))):
            if not self.compare(a[i], b[i], binding):
                self.path.append((ArrayIndexPath, i, i))
                return False
        return len(a) == len(b) or self.differ(a, b)

    def compare_mappings(self, a: Mapping[Any, Any], b: Any, binding: bool) -> bool:
        if not isinstance(b, Mapping) or len(a) != len(b):
            return self.differ(a, b)
        by_content: dict[Any, list[Any]] | None = None
        for key, value in a.items():
            other: Any = self.forward.get(id(key), key) if isinstance(key, Node) else key
            if isinstance(other, Node) and other not in b:
                if by_content is None:
                    # Keys of one content, such as free variables, correspond in order.
                    by_content = {}
                    for k in b:
                        by_content.setdefault(structural_digest(k), []).append(k)
                alike = by_content.get(structural_digest(key))
                other = alike.pop(0) if alike else None
            if other is None or other not in b:
                self.path.append((MapValuePath, key, other))
                return self.differ(value, None)
            if not self.compare(value, b[other], binding):
                self.path.append((MapValuePath, key, other))
                return False
        return True


_plain_forms: dict[type, Callable[[Any], Any]] = {}


def register_plain_form(cls: type[Node], form: Callable[[Any], Any]) -> None:
    """Nodes of `cls` are equal to the plain value `form(node)`, and have its hash, unless it is None."""
    _plain_forms[cls] = form


def plain_form(value: Any) -> Any:
    """The plain value that a node is equal to, or the value itself."""
    form = _plain_forms.get(type(value))
    plain = form(value) if form is not None else None
    return value if plain is None else plain


def compare_plain(a: Any, b: Any) -> bool:
    if isinstance(a, Node) or isinstance(b, Node):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return equal_floats(a, b)
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    leaf = None if isinstance(a, (str, int, type(None))) else find_leaf(type(a))
    if leaf is not None:
        return find_leaf(type(b)) is leaf and leaf.equal(a, b)
    return bool(a == b)


class _Hasher:
    def __init__(self, map_free_vars: bool) -> None:
        self.out = bytearray()
        self.seen: dict[int, int] = {}
        self.graphs: list[Node] = []
        self.count = 0
        self.free: dict[int, int] = {}

    def feed(self, v: Any, binding: bool) -> None:
        feed = _feeds.get(type(v))
        if feed is None:
            feed = _feeds[type(v)] = _feed_of(type(v))
        feed(self, v, binding)

    def feed_items(self, v: tuple[Any, ...] | list[Any], binding: bool) -> None:
        self.out += b"(%d" % len(v)
        feeds = _feeds
        for item in v:
            feed = feeds.get(type(item))
            if feed is None:
                self.feed(item, binding)
            else:
                feed(self, item, binding)

    def feed_node(self, v: Node, binding: bool) -> None:
        if v._identity is VARIABLE or v._identity is GRAPH:
            number = self.seen.get(id(v))
            if number is not None:
                self.out += b"#%d;" % number
                return
            if v._identity is VARIABLE and not binding:
                # Free variables of one name are told apart by the order of their first use.
                self.out += b"free%d;" % self.free.setdefault(id(v), len(self.free))
                for name in sorted(v._cosmetic):
                    self.feed(getattr(v, name), False)
                return
            self.feed_fields(v, binding)
            self.seen[id(v)] = self.count
            self.count += 1
            if v._identity is GRAPH:
                self.graphs.append(v)
        else:
            self.feed_fields(v, binding)

    def feed_fields(self, v: Node, binding: bool) -> None:
        self.out += _opening(v.type_key)
        outside = self.set_aside(bound_by(v)) if v._binder or v._binds is not None else None
        feeds = _feeds
        for name, defines in v._compared:
            value = getattr(v, name)
            feed = feeds.get(type(value))
            if feed is None:
                self.feed(value, binding or defines)
            else:
                feed(self, value, binding or defines)
        if outside:
            self.seen.update(outside)

    def feed_plain_form(self, v: Node, binding: bool) -> None:
        plain = plain_form(v)
        if plain is v:
            self.feed_fields(v, binding)
        else:
            self.feed(plain, binding)

    def set_aside(self, bound: list[Any]) -> dict[int, int]:
        out = {id(v): self.seen.pop(id(v)) for v in bound if id(v) in self.seen}
        if out:
            for node in self.graphs:
                if id(node) in self.seen and rests_on(node, out):
                    out[id(node)] = self.seen.pop(id(node))
        return out

    def feed_mapping(self, v: Mapping[Any, Any], binding: bool) -> None:
        """Entries in an order of their own."""
        self.out += b"<%d" % len(v)
        for key in sorted(v, key=self.key_order):
            self.feed(key, binding)
            self.feed(v[key], binding)

    def key_order(self, key: Any) -> tuple[int, int, bytes]:
        """Mappings are equal in any order, so their hash takes one of its own."""
        if not isinstance(key, Node):
            return 0, 0, str(key).encode()
        number = self.seen.get(id(key))
        return (2, 0, structural_digest(key)) if number is None else (1, number, b"")

    def feed_text(self, v: str, binding: bool) -> None:
        self.out += _text(str(v))

    def feed_word(self, v: bool | None, binding: bool) -> None:
        self.out += repr(v).encode()

    def feed_int(self, v: int, binding: bool) -> None:
        self.out += b"i%d;" % v

    def feed_float(self, v: float, binding: bool) -> None:
        self.out += b"f" + (b"nan" if v != v else struct.pack("<d", v))

    def feed_leaf(self, v: Any, binding: bool) -> None:
        leaf = find_leaf(type(v))
        if leaf is None:
            raise TypeError(f"a {type(v).__name__} cannot be in a node: {v!r}")
        self.out += leaf.tag.encode() + leaf.digest(v)


@lru_cache(maxsize=4096)
def _text(v: str) -> bytes:
    raw = v.encode()
    return b"s%d:" % len(raw) + raw


@cache
def _opening(type_key: str) -> bytes:
    return type_key.encode() + b"{"


def _feed_of(kind: type) -> Callable[[Any, Any, bool], None]:
    """How values of a type are hashed."""
    if kind in _plain_forms:
        return _Hasher.feed_plain_form
    if issubclass(kind, Node):
        return _Hasher.feed_node if kind._identity is VARIABLE or kind._identity is GRAPH else _Hasher.feed_fields
    if kind is tuple or kind is list:
        return _Hasher.feed_items
    for base, feed in (
        (Mapping, _Hasher.feed_mapping),
        (str, _Hasher.feed_text),
        (bool, _Hasher.feed_word),
        (type(None), _Hasher.feed_word),
        (int, _Hasher.feed_int),
        (float, _Hasher.feed_float),
    ):
        if issubclass(kind, base):
            return feed
    return _Hasher.feed_leaf


_feeds: dict[type, Callable[[Any, Any, bool], None]] = {}
