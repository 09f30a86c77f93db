"""One operator of the database with one element type: its samples exported, imported, run, and held against PyTorch."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tilewright import relay
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.frontend.pytorch.dtypes import dtype_name, tensor_array

TYPES = ("float32", "int64", "bool", "bfloat16", "complex64")
"""Element types that are tried of those that an operator has."""
UNSET = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}
"""Operators whose elements nobody set."""
DRAWN = (
    "rand", "normal", "bernoulli", "multinomial", "cauchy", "exponential", "geometric", "log_normal", "uniform", "svd_lowrank",
    "pca_lowrank", "fractional",
)  # fmt: skip
"""How names of operators begin that draw random numbers, whatever seed their samples set."""
UP_TO_SIGNS = ("svd", "eig", "eigh", "qr", "geqrf", "pca_lowrank", "svd_lowrank", "ormqr", "householder_product")
"""Factors whose columns may as well have the other sign; and of pairs of numbers that are conjugate either may stand first."""
OF_EQUALS = ("sort", "topk", "argsort", "kthvalue", "mode", "median", "nanmedian")
"""Operators that tell places: which one of equal elements is meant is nobody's promise."""
FAR_APART = ("matrix_exp",)
"""Operators whose results are sums of far larger numbers: in float32 PyTorch loses the small ones."""
MOST = 1 << 16
"""Most elements that a sample's tensors may have."""
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4, "float64": 1e-6}


RESULTS = (torch.Tensor, int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
"""What is compared of an operator's results."""


class NotExported(Exception):
    """torch.export itself takes none of an operator's samples; or the operator has none."""


class Call(torch.nn.Module):
    """A call as a model of its tensors. Complex numbers go in and out as pairs."""

    def __init__(self, op: Callable[..., Any], leaves: list[Any], spec: Any) -> None:
        super().__init__()
        self.op, self.spec = op, spec
        self.leaves = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.complex = [isinstance(x, torch.Tensor) and x.is_complex() for x in leaves]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.leaves)
        for k, x in zip(self.places, tensors, strict=True):
            leaves[k] = torch.view_as_complex(x) if self.complex[k] else x
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        found = pytree.tree_leaves(self.op(*args, **kwargs))
        return tuple([as_real(x) for x in found if isinstance(x, RESULTS)])


def as_real(x: Any) -> Any:
    """A result, complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj()) if isinstance(x, torch.Tensor) and x.is_complex() else x


def spread(items: list[Any], count: int) -> list[Any]:
    """So many of the items, from the first to the last."""
    if len(items) <= count:
        return items
    return [items[round(k * (len(items) - 1) / max(count - 1, 1))] for k in range(count)]


def samples(op: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[list[Any], Any]]:
    """(leaves, structure) of arguments and keywords of some samples."""
    torch.manual_seed(0)
    for sample in spread(list(op.sample_inputs("cpu", dtype, requires_grad=False)), count):
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        if all([x.layout == torch.strided and x.numel() <= MOST for x in tensors]):
            yield leaves, spec


def check(op: Any, dtype: torch.dtype, count: int = 4, run: Callable[[Any, Any, Any], list[Any]] | None = None) -> None:
    """Raises AssertionError with the first sample that goes wrong, and how many do; NotExported if there is nothing to compare."""
    tried, wrong = 0, []
    refusal = "the database has no samples of dense tensors"
    for leaves, spec in samples(op, dtype, count):
        model = Call(op, leaves, spec).eval()
        inputs = [as_real(x).contiguous() for x in leaves if isinstance(x, torch.Tensor)]
        try:
            wanted, drawn = expected(model, inputs)
            if not wanted:
                continue
            program = exported(model, inputs)
        except Exception as error:
            refusal = f"{type(error).__name__}: {first_line(error)}"
            continue
        tried += 1
        try:
            found = (run or interpreted)(*relay.frontend.from_pytorch(program), inputs)
            compare(op, dtype, found, wanted, drawn)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {first_line(error)} in {described(leaves, spec)}")
    if wrong:
        raise AssertionError(f"{len(wrong)} of {tried} samples: {wrong[0]}")
    if not tried:
        raise NotExported(refusal)


def expected(model: Call, inputs: list[torch.Tensor]) -> tuple[list[Any], bool]:
    """What PyTorch answers, and whether it draws random numbers for it."""
    answers = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            answers.append(model(*[x.clone() for x in inputs]))
    first, second = answers
    drawn = not all([same(a, b) for a, b in zip(first, second, strict=True)])
    return list(first), drawn


def same(a: Any, b: Any) -> bool:
    """Whether two answers are the same, element for element."""
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and np.array_equal(tensor_array(a), tensor_array(b), equal_nan=a.is_floating_point())
    return bool(a == b)


def exported(model: Call, inputs: list[torch.Tensor]) -> Any:
    """The program that torch.export makes."""
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            return torch.export.export(model, tuple(inputs), strict=False)
        finally:
            logging.disable(logging.NOTSET)


def interpreted(mod: Any, params: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """What the program answers by the reference interpreter."""
    given = [*[tensor_array(x) for x in inputs], *params.values()]
    found = run_function(mod["main"], given, mod)
    return list(found) if isinstance(found, tuple) else [found]


def compare(op: Any, dtype: torch.dtype, found: list[Any], wanted: list[Any], drawn: bool) -> None:
    """Raises AssertionError where shapes, types or numbers differ."""
    assert len(found) >= len(wanted), f"{len(found)} results, but PyTorch has {len(wanted)}"
    name = op.name.rpartition(".")[2]
    for mine, theirs in zip(found, wanted, strict=False):
        mine = np.asarray(mine)
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs, f"{mine}, but PyTorch says {theirs}"
            continue
        have, want = (mine.dtype.name, mine.shape), (dtype_name(theirs.dtype), tuple(theirs.shape))
        assert have == want, f"{have[0]} {have[1]}, but PyTorch makes {want[0]} {want[1]}"
        if drawn or name in UNSET or name.startswith(DRAWN) or not mine.size:
            continue
        if name in OF_EQUALS and want[0] == "int64" and dtype not in (torch.float32, torch.float64):
            continue
        a, b = mine.astype("float64"), tensor_array(theirs).astype("float64")
        if name in UP_TO_SIGNS:
            a, b = np.abs(a), np.abs(b)
        limit = TOLERANCE.get(want[0], 0.0)
        scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
        top = scale if name in FAR_APART else 1.0
        close = np.isclose(a, b, rtol=limit, atol=limit * min(max(scale, 1e-3), top), equal_nan=True)
        assert close.all(), (
            f"{(~close).sum()} of {close.size} elements differ: {a[~close][0]}, but PyTorch makes {b[~close][0]}"
        )


def described(leaves: list[Any], spec: Any) -> str:
    """A sample in words."""
    short = [f"{dtype_name(x.dtype)}{list(x.shape)}" if isinstance(x, torch.Tensor) else x for x in leaves]
    args, kwargs = pytree.tree_unflatten(short, spec)
    return ", ".join([*map(str, args), *[f"{k}={v}" for k, v in kwargs.items()]])[:160]


def first_line(error: BaseException) -> str:
    """What an error says, shortly."""
    return " ".join(str(error).split())[:300]
