# SPDX-License-Identifier: MIT
# Programs for the tests of zc that run something: the simulated GPU, and a program that copies.

load ../preload/common
load common

# Gives the test the simulated GPU and programs to run on it; skips it where they were not built.
need_gpu_programs() {
    need_python
    GATHER=$PWD/$ZC_BUILD/kernels/gather-shared
    KILLED=$PWD/$ZC_BUILD/tests/preload/programs/killed
    need_built "$LIBZC" "$GATHER" "$KILLED" "$SIM/libcuda.so.1"
    sim_env gather
    ZC=$PWD/scripts/zc
    unset ZC_POLICY ZC_LOG ZC_LOG_LEVEL
}

# Writes copier.py, which copies 1 MiB to the device ten times, prints "ready", and then does the
# same for each line of its input until that ends.
write_copier() {
    cat >"$BATS_TEST_TMPDIR/copier.py" <<'PYTHON'
import ctypes
import sys

SIZE = ctypes.c_size_t(1 << 20)
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
host = ctypes.create_string_buffer(SIZE.value)
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), SIZE) == 0
while True:
    for _ in range(10):
        assert cuda.cuMemcpyHtoD_v2(block, host, SIZE) == 0
    print("ready", flush=True)
    if not sys.stdin.readline():
        break
PYTHON
}

# Builds a program of tests/tools that copies: build_program NAME FOLDER
build_program() {
    ${CC:-gcc} -o "$2/$1" -isystem "${CUDA_HOME:-/usr/local/cuda}/include" "tests/tools/$1.c" \
        "$SIM/libcuda.so.1"
}
