"""Two folders change places in one step, so that whoever looks sees the one or the other."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from pathlib import Path

from .errors import WarehouseError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


class CannotExchange(WarehouseError):
    """The system or the file system has no such step."""


def exchange(first: Path, second: Path) -> None:
    """Let two folders on one file system change places; CannotExchange where that is not one step, OSError otherwise."""
    rename = _renameat2()
    if rename is None:
        raise CannotExchange(f"{second} stays as it is: this system cannot exchange two folders in one step.")
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            raise CannotExchange(f"{second} stays as it is: its file system cannot exchange two folders in one step.")
        raise OSError(number, os.strerror(number), str(second))


@functools.cache
def _renameat2() -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function
