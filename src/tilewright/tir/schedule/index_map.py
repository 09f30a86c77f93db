"""Index maps: new layouts of the elements of a buffer, or of the points of a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.node import Def, Node, structural_equal
from tilewright.runtime.ndarray import NDArray, array
from tilewright.script.doc import Expr, lambda_, literal, tuple_
from tilewright.script.printer import Printer, expr_hook
from tilewright.tir import Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.linear_forms import ZERO, Forms, shift
from tilewright.tir.schedule.facts.solve import solve
from tilewright.tir.stmt_functor import substitute


class IndexMap(Node, key="tir.IndexMap"):
    """New indices as functions of the old ones. `inverse_index_map` overrides the computed inverse."""

    initial_indices: Def[tuple[Var, ...]]
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: Any = None

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int32",
    ) -> IndexMap:
        """Make a map from a Python function of the indices. With `ndim`, `*args` takes the remaining indices."""
        found, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise ValueError("IndexMap.from_func: the function has axis separators; use from_func_with_separators")
        return found

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """The map, and the positions of `IndexMap.AXIS_SEPARATOR` in its result."""
        args: list[Var] = []
        kinds = inspect.Parameter
        for p in inspect.signature(mapping_function).parameters.values():
            if p.kind is kinds.VAR_POSITIONAL:
                if ndim is None:
                    raise ValueError("IndexMap.from_func needs ndim when the function takes *args")
                args += [Var(f"{p.name}_{i}", index_dtype) for i in range(ndim - len(args))]
            elif p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
                args.append(Var(p.name, index_dtype))
        if ndim is not None and len(args) != ndim:
            raise ValueError(f"the index map takes {len(args)} indices, but there are {ndim} dimensions")
        result = mapping_function(*args)
        result = list(result) if isinstance(result, (list, tuple)) else [result]
        final: list[PrimExpr] = []
        separators: list[int] = []
        for r in result:
            if isinstance(r, str) and r == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            else:
                final.append(as_prim_expr(r, "index map", index_dtype))
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(inverse_index_map, len(final), index_dtype=index_dtype)
        return IndexMap(tuple(args), tuple(final), inverse_index_map), separators

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        return len(self.initial_indices) == len(other_map.initial_indices) and structural_equal(
            IndexMap(self.initial_indices, self.final_indices),
            IndexMap(other_map.initial_indices, other_map.final_indices),
        )

    def map_indices(self, indices: Sequence[Var | int]) -> list[PrimExpr]:
        """The new indices of an element."""
        env = dict(zip(self.initial_indices, [as_prim_expr(i) for i in indices], strict=True))
        forms = Forms()
        return [forms.simplify(substitute(i, env)) for i in self.final_indices]

    def map_shape(self, shape: Sequence[PrimExpr | int]) -> list[PrimExpr]:
        """The shape of the new buffer: the ranges of the new indices."""
        forms = self._forms(shape)
        relaxed = {
            v: (ZERO, shift(forms.of(as_prim_expr(n)), -1)) for v, n in zip(self.initial_indices, shape, strict=True)
        }
        out: list[PrimExpr] = []
        for i in self.final_indices:
            bounds = forms.bounds(forms.of(i), relaxed)
            if bounds is None:
                refuse(f"the new dimension {i} must be bounded")
            out.append(forms.emit(forms.merge_digits(shift(bounds[1], 1)), str(i.dtype)))
        return out

    def _forms(self, shape: Sequence[PrimExpr | int]) -> Forms:
        forms = Forms()
        for v, n in zip(self.initial_indices, shape, strict=True):
            size = as_prim_expr(n)
            if isinstance(size, IntImm):
                forms.ranges[v] = (0, size.value - 1)
        return forms

    def inverse(self, shape: Sequence[int]) -> IndexMap:
        """The inverse map. Raises ValueError if an element of the new layout has no source, or two of them."""
        found, padding = self.non_surjective_inverse(shape)
        if not (isinstance(padding, IntImm) and padding.value == 0):
            raise ValueError(f"the index map has no inverse: the new layout has padding where {padding}")
        return found

    def non_surjective_inverse(self, shape: Sequence[PrimExpr | int]) -> tuple[IndexMap, PrimExpr]:
        """The inverse map, and the condition on the new indices under which an element is padding."""
        from tilewright.tir import Not
        from tilewright.tir.schedule.facts.leaves import conjunction

        sizes = [n.extent if isinstance(n, Range) else n for n in shape]
        forms = self._forms(sizes)
        new = [Var(f"axis{i}", i_.dtype) for i, i_ in enumerate(self.final_indices)]
        new_shape = self.map_shape(sizes)
        for v, n in zip(new, new_shape, strict=True):
            if isinstance(n, IntImm):
                forms.ranges[v] = (0, n.value - 1)

        def no(why: str) -> NoReturn:
            raise ValueError(f"the index map has no inverse: {why}")

        extents = {v: as_prim_expr(n) for v, n in zip(self.initial_indices, sizes, strict=True)}
        analyzer = Analyzer()
        for v, n in zip(new, new_shape, strict=True):
            analyzer.bind(v, Range.from_min_extent(IntImm(v.dtype, 0), n))
        equations = [(forms.of(i), forms.var(v)) for i, v in zip(self.final_indices, new, strict=True)]
        env, guards = solve(forms, equations, extents, no, analyzer.can_prove)
        padding: PrimExpr = Not(conjunction(guards)) if guards else IntImm("bool", 0)
        if self.inverse_index_map is not None:
            return self.inverse_index_map, padding
        back = tuple([forms.emit(env[v], v.dtype) for v in self.initial_indices])
        return IndexMap(tuple(new), back), padding

    def map_ndarray(self, arr_src: Any) -> Any:
        """Convert an array, of NumPy or an NDArray, to the new layout. Padding is zero; the result is of the same kind."""
        if isinstance(arr_src, NDArray):
            return array(self.map_ndarray(arr_src.numpy()), arr_src.device)
        source = np.asarray(arr_src)
        out = np.zeros([n.value for n in self.map_shape(source.shape)], source.dtype)  # type: ignore[attr-defined]
        for index in np.ndindex(*source.shape):
            out[tuple([i.value for i in self.map_indices(list(index))])] = source[index]  # type: ignore[attr-defined]
        return out

    def as_python(self) -> str:
        names = ", ".join([v.name for v in self.initial_indices])
        return f"lambda {names}: ({', '.join([str(i) for i in self.final_indices])},)"


@expr_hook(IndexMap)
def _print(p: Printer, m: IndexMap) -> Expr:
    """`T.index_map(lambda i, j: (j, i))`, as it is printed in annotations."""
    with p.scope():
        names = [str(p.define(v, v.name)) for v in m.initial_indices]
        body = lambda_(names, tuple_([p.expr(e) for e in m.final_indices]))
    kwargs: dict[str, Expr] = {}
    if m.inverse_index_map is not None:
        kwargs["inverse_index_map"] = p.expr(m.inverse_index_map)
    if m.initial_indices and m.initial_indices[0].dtype != "int32":
        kwargs["index_dtype"] = literal(str(m.initial_indices[0].dtype))
    return p.prefix("tir_prefix", "index_map").call(body, **kwargs)
