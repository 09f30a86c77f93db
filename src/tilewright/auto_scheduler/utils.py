"""Keys of workloads, and small helpers with classic names."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from tilewright.ir import IntImm
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.te.compute import placeholder
from tilewright.te.tensor import Tensor

lazy.declare(
    __name__,
    {
        name: f"tilewright.auto_scheduler.calls:{name}"
        for name in (
            "MAX_TRACEBACK_INFO_LEN", "PropagatingThread", "call_func_with_thread", "call_func_with_timeout", "check_remote",
            "kill_child_processes", "make_traceback_info", "request_remote",
        )
    },
)  # fmt: skip
__getattr__, __dir__ = lazy.late(__name__)


def array_mean(arr: Sequence[Any]) -> float:
    """The mean of numbers, constants among them."""
    return statistics.fmean([float(getattr(x, "value", x)) for x in arr])


def to_str_round(x: Any, decimal: int = 6) -> str:
    """Numbers, and lists of them, as a text of so many decimals; texts as they are."""
    if isinstance(x, str):
        return x
    if isinstance(x, (list, tuple)) or hasattr(x, "tolist"):
        return "[" + ", ".join([to_str_round(y, decimal) for y in x]) + "]"
    if isinstance(x, dict):
        return str({k: to_str_round(v, decimal) for k, v in x.items()})
    return str(x) if isinstance(x, int) else f"{float(x):.{decimal}f}"


def get_func_name(func: Any) -> str:
    """The name of a function."""
    return str(func.func_name if hasattr(func, "func_name") else func.__qualname__)


def get_const_int(exp: Any) -> int:
    """The value of a constant. Raises ValueError for anything else."""
    if isinstance(exp, int):
        return exp
    if isinstance(exp, IntImm):
        return int(exp.value)
    raise ValueError(f"a constant is needed, but this is {exp}")


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int, ...]:
    """The values of constants."""
    return tuple([get_const_int(x) for x in in_tuple])


def list_to_tuple(x: Any) -> Any:
    """Lists, and the lists in them, as tuples."""
    return tuple([list_to_tuple(y) for y in x]) if isinstance(x, (list, tuple)) else x


def serialize_args(args: Any) -> tuple[Any, ...]:
    """Arguments of a workload as keys have them: tensors become ("TENSOR", shape, dtype)."""
    many = args if isinstance(args, (list, tuple)) else [args]
    return tuple(
        [
            ("TENSOR", get_const_tuple(a.shape), str(a.dtype)) if isinstance(a, Tensor) else list_to_tuple(a)
            for a in many
        ]
    )


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """The arguments that `serialize_args` wrote. Tensors become placeholders."""
    return [
        placeholder(shape=a[1], dtype=a[2]) if isinstance(a, (list, tuple)) and a and a[0] == "TENSOR" else a
        for a in args
    ]


def decode_workload_key(workload_key: str) -> tuple[str | None, tuple[Any, ...] | None]:
    """The name (or the hash) of a workload, and its arguments; (None, None) for keys of another form."""
    try:
        key = json.loads(workload_key)
    except ValueError:
        return None, None
    if not isinstance(key, list) or not key or not isinstance(key[0], str):
        return None, None
    return key[0], list_to_tuple(key[1:])


def calc_workload_dis_factor(target_workload_pair: Any, workload_pair: Any) -> float:
    """How much more work the first workload, a pair of hash and arguments, has than the second one; infinite if they are of different
    kinds, or the second does not divide the first."""
    (name, args), (other_name, other_args) = target_workload_pair, workload_pair
    if name != other_name or len(args) != len(other_args):
        return float("inf")
    factor = 1.0
    for a, b in zip(_flat(args), _flat(other_args), strict=False):
        if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
            if b == 0 or a % b:
                return float("inf") if a != b else factor
            factor *= a / b
        elif a != b:
            return float("inf")
    return factor


def _flat(args: Any) -> list[Any]:
    return [x for a in args for x in (_flat(a) if isinstance(a, (list, tuple)) else [a])]


def key_error(workload_key: str) -> TVMError:
    """That nothing is known of a workload."""
    return TVMError(
        f"the workload {workload_key} is not registered: decorate its function by auto_scheduler.register_workload, and import its module"
        " first"
    )
