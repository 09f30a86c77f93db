"""Python functions at addresses, which executors call like machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.runtime.errors import error_kind
from tilewright.runtime.linking.symbols import CONTEXT, HELD_CODE, LIBRARY
from tilewright.support.errors import TVMError

Kernel = Callable[[Any], None]
"""A kernel: `args[i]` is the address of the data of tensor i, or of a number. An exception becomes the error of the call."""

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_PACKED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
_SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)
_SET_ERROR_FIELD, _FIELDS = 1, 8


class HostedCode:
    """Python functions as code of this process. kernels, packed: functions by symbol; slot: the variable in which the runtime stores the
    module of the code. Raises TVMError if an export is not defined."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        packed: Mapping[str, Callable[..., None]],
        exports: Iterable[str],
        slot: Any = None,
    ) -> None:
        context = (ctypes.c_void_p * _FIELDS)()
        slot = slot if slot is not None else (ctypes.c_void_p * 1)()
        self._kept: dict[str, Any] = {CONTEXT: context, LIBRARY: slot, HELD_CODE: (ctypes.c_void_p * 1)()}
        for table, signature in ((kernels, _KERNEL), (packed, _PACKED)):
            for name, function in table.items():
                self._kept[name] = signature(_guarded(function, context))
        wanted = [*dict.fromkeys([*exports, HELD_CODE])]
        missing = [name for name in wanted if name not in self._kept]
        if missing:
            raise TVMError(f"no object defines {', '.join(missing)}")
        self.symbols = {name: _address(self._kept[name]) for name in wanted}


def _address(item: Any) -> int:
    if isinstance(item, ctypes.Array):
        return ctypes.addressof(item)
    return int(ctypes.cast(item, ctypes.c_void_p).value or 0)


def _guarded(function: Callable[..., None], context: Any) -> Callable[..., int]:
    """The function as code: it returns 0, or passes its exception to the runtime and returns -1."""

    def call(*args: Any) -> int:
        try:
            function(*args)
        except BaseException as error:
            tell = context[_SET_ERROR_FIELD]
            if tell:
                text = str(error).replace("\0", "\\0")
                _SET_ERROR(tell)(error_kind(error).encode(), text.encode(errors="replace"))
            return -1
        return 0

    return call
