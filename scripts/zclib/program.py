# SPDX-License-Identifier: MIT
"""Calls of a Python program to libzc: the twin of zc.h, for programs that run under
it.  Without libzc everything says so, and nothing happens."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Iterator, NamedTuple


class _Memory(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("device_bytes", ctypes.c_int64), ("request", ctypes.c_char_p),
                ("place", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("rule", ctypes.c_char_p),
                ("site", ctypes.c_uint32), ("device", ctypes.c_int32)]


class Memory(NamedTuple):
    """A block; zc.h says what the fields mean."""

    address: int
    bytes: int
    device_bytes: int | None    # None where nobody knows.
    request: str
    place: str
    kind: str
    rule: str | None
    site: str                   # As the log has it.
    device: int


_library = ctypes.CDLL(None)


def present() -> bool:
    """Whether libzc is there."""
    return hasattr(_library, "zc_lib_query")


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """A range of the calling thread: its copies and allocations have the name in the log."""
    if not present():
        yield
        return
    _library.zc_lib_push(name.encode())
    try:
        yield
    finally:
        _library.zc_lib_pop()


def query(address: int) -> Memory | None:
    """The block that an address is in, such as a tensor's data_ptr(); None if it is not known."""
    memory = _Memory()
    if not present() or not _library.zc_lib_query(
            ctypes.c_void_p(address), ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(memory))):
        return None
    known = memory.device_bytes >= 0
    return Memory(memory.address, memory.bytes, memory.device_bytes if known else None,
                  memory.request.decode(), memory.place.decode(), memory.kind.decode(),
                  memory.rule.decode() if memory.rule else None, f"{memory.site:08x}",
                  memory.device)
