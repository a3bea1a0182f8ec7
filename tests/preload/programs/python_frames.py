# SPDX-License-Identifier: MIT
"""Copies from Python functions of many kinds, each with a size of its own by which the log's lines
are told apart: python_frames.py [child|daemon]"""

import atexit
import ctypes
import os
import sys
import threading

HOST = ctypes.create_string_buffer(1 << 16)
BLOCK = ctypes.c_uint64()


def start(library):
    context = ctypes.c_void_p()
    assert library.cuInit(0) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert library.cuCtxSetCurrent(context) == 0
    assert library.cuMemAlloc_v2(ctypes.byref(BLOCK), ctypes.c_size_t(len(HOST))) == 0
    return context


def copy(library, size):
    assert library.cuMemcpyHtoD_v2(BLOCK, HOST, ctypes.c_size_t(size)) == 0


RELEASES = ctypes.CDLL("libcuda.so.1")  # Gives up the GIL around a call.
HOLDS = ctypes.PyDLL("libcuda.so.1")    # Keeps it.
CONTEXT = start(RELEASES)
COPIED = threading.Event()


def one_line(first, second):
    for _ in range(3):
        copy(RELEASES, first)
    copy(RELEASES, second)


class Loader:
    def load(self, size):
        copy(HOLDS, size)

    def __del__(self):  # Of KEPT, while the interpreter ends.
        RELEASES.cuMemcpyHtoD_v2(BLOCK, HOST, ctypes.c_size_t(800))


def batches():
    for size in (300, 301):
        copy(RELEASES, size)
        yield size


def deep(depth):
    return deep(depth - 1) if depth else copy(RELEASES, 400)


def in_thread(size):
    assert RELEASES.cuCtxSetCurrent(CONTEXT) == 0
    copy(RELEASES, size)


def größe():
    copy(RELEASES, 600)


def forever():
    assert RELEASES.cuCtxSetCurrent(CONTEXT) == 0
    while True:
        RELEASES.cuMemcpyHtoD_v2(BLOCK, HOST, ctypes.c_size_t(4))
        COPIED.set()


def main():
    one_line(100, 101)
    KEPT.load(200)
    list(batches())
    deep(40)
    threads = [threading.Thread(target=in_thread, args=(500 + i,)) for i in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    größe()
    exec(compile("copy(RELEASES, 601)", "<made>", "exec"), globals())
    (lambda: copy(RELEASES, 602))()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, __file__, "child"])
    os.wait()
    atexit.register(copy, RELEASES, 801)


if sys.argv[1:] == ["child"]:
    copy(RELEASES, 700)
elif sys.argv[1:] == ["daemon"]:
    threading.Thread(target=forever, daemon=True).start()
    COPIED.wait()
    copy(RELEASES, 802)
else:
    KEPT = Loader()
    main()
