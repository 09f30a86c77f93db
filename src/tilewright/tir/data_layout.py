"""Data layouts by name ("NCHW16c") and the index maps between two of them."""

from __future__ import annotations

import re
from typing import Any

from tilewright.ir import IntImm, PrimExpr, as_prim_expr
from tilewright.node import Node
from tilewright.tir.arithmetic import floordiv, floormod

_AXIS = re.compile(r"[A-Z]|(\d+)([a-z])")


class Layout(Node, key="tir.Layout"):
    """The order of axes: capital letters are whole (or outer) axes, a number and a small letter inner parts of one.

    "NCHW16c" holds blocks of 16 channels last. Raises ValueError for names that are no layout.
    """

    name: str

    def _derive(self) -> None:
        if self.name in ("__undef__", ""):
            return
        parts = self._parts()
        if "".join([m.group(0) for m in parts]) != self.name:
            raise ValueError(
                f"layout {self.name!r}: axes are capital letters, or a number and a small letter, such as NCHW16c"
            )
        letters = self.axes()
        for k, a in enumerate(letters):
            if a in letters[:k]:
                raise ValueError(f"layout {self.name!r} names the axis {a} twice")
            if a.islower() and a.upper() not in letters:
                raise ValueError(
                    f"layout {self.name!r} has inner parts of the axis {a.upper()}, but not the axis itself"
                )

    def _parts(self) -> list[re.Match[str]]:
        return list(_AXIS.finditer(self.name)) if self.name != "__undef__" else []

    def axes(self) -> list[str]:
        """The letters of the axes, in order."""
        return [m.group(2) or m.group(0) for m in self._parts()]

    def __len__(self) -> int:
        return len(self.axes())

    def __contains__(self, axis: str) -> bool:
        return axis in self.axes()

    def __getitem__(self, index: int) -> str:
        axes = self.axes()
        if not -len(axes) <= index < len(axes):
            raise IndexError("Layout index out of range")
        return axes[index]

    def __str__(self) -> str:
        return self.name

    def index_of(self, axis: str) -> int:
        """Where an axis stands; -1 where it is none of the layout's."""
        axes = self.axes()
        return axes.index(axis) if axis in axes else -1

    def factor_of(self, axis: str) -> int:
        """The size of the inner part of an axis (given by either letter); -1 where there is none."""
        for m in self._parts():
            if m.group(2) == axis.lower():
                return int(m.group(1))
        return -1

    def ndim(self) -> int:
        return len(self)


class BijectiveLayout(Node, key="tir.BijectiveLayout"):
    """The map from indices and shapes of one layout to those of another, and back."""

    src_layout: Layout
    dst_layout: Layout

    def _derive(self) -> None:
        for a, b in ((self.src_layout, self.dst_layout), (self.dst_layout, self.src_layout)):
            whole = {x for x in a.axes() if x.isupper()}
            missing = sorted(whole - set(b.axes()))
            if missing or not whole:
                raise ValueError(
                    f"layouts {self.src_layout} and {self.dst_layout} differ in the axes {', '.join(missing) or 'none'}"
                )

    @staticmethod
    def _convert_index(indices: Any, old: Layout, new: Layout) -> list[PrimExpr]:
        given = [as_prim_expr(i, "index") for i in indices]
        _check(given, old)
        at = dict(zip(old.axes(), given, strict=True))
        out: list[PrimExpr] = []
        for axis in new.axes():
            whole = at[axis.upper()]
            inner = old.factor_of(axis)
            if inner > 0:
                whole = whole * inner + at[axis.lower()]
            factor = new.factor_of(axis)
            out.append(floormod(whole, factor) if axis.islower() else floordiv(whole, factor) if factor > 0 else whole)
        return out

    @staticmethod
    def _convert_shape(shape: Any, old: Layout, new: Layout) -> list[PrimExpr]:
        given = [as_prim_expr(i, "dimension") for i in shape]
        _check(given, old)
        dims = dict(zip(old.axes(), given, strict=True))
        out: list[PrimExpr] = []
        for axis in new.axes():
            factor = new.factor_of(axis)
            if axis.islower():
                out.append(IntImm(dims[axis.upper()].dtype, factor))
                continue
            whole = dims[axis]
            inner = old.factor_of(axis)
            if inner > 0:
                whole = whole * inner
            if factor > 0:
                if isinstance(whole, IntImm) and whole.value % factor:
                    raise ValueError(
                        f"axis {axis} has {whole.value} elements, which {factor} does not divide, as {new} wants"
                    )
                whole = floordiv(whole, factor)
            out.append(whole)
        return out

    def forward_index(self, index: Any) -> list[PrimExpr]:
        """Indices in the source layout -> in the destination layout."""
        return self._convert_index(index, self.src_layout, self.dst_layout)

    def backward_index(self, index: Any) -> list[PrimExpr]:
        """Indices in the destination layout -> in the source layout."""
        return self._convert_index(index, self.dst_layout, self.src_layout)

    def forward_shape(self, shape: Any) -> list[PrimExpr]:
        """A shape in the source layout -> in the destination layout."""
        return self._convert_shape(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape: Any) -> list[PrimExpr]:
        """A shape in the destination layout -> in the source layout."""
        return self._convert_shape(shape, self.dst_layout, self.src_layout)


def _check(given: list[PrimExpr], of: Layout) -> None:
    if len(given) != len(of):
        raise ValueError(f"layout {of} has {len(of)} axes, but was given {len(given)}: {given}")


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of that name."""
    return Layout(layout_str)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout:
    """The map between two layouts of the same axes."""
    first, second = (x if isinstance(x, Layout) else Layout(x) for x in (src_layout, dst_layout))
    return BijectiveLayout(first, second)
