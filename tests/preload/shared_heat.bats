#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The place `shared`: kernels that use a block for long give it device memory.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/kernels/bfs-shared

setup() {
    pairs_setup
    need_built "$SIM/kernels/bfs.so"
    sim_env bfs
}

# reads SIZE COMMAND...: runs it, whose device blocks of that size and more kernels only read.
reads() {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "$host_rule
[rule device]
api = cudaMalloc
size = $1..
place = shared
access = read" "${@:2}"
    [[ $output == *'"verified":true'* ]]
    pairs=$(grep '"type":"pair"' "$ZC_LOG")
    echo "$stderr$pairs"
}

# of_kernels NAME: PROGRAM is another one of kernels/.
of_kernels() {
    PROGRAM=$PWD/$ZC_BUILD/kernels/$1-shared
    need_built "$PROGRAM" "$SIM/kernels/$1.so"
    export SIM_KERNELS=$SIM/kernels/$1.so
}

# search MICROSECONDS: a graph search whose kernels take that long each.  They read 32 MiB of
# lists, by a thread for each 128 bytes.
search() {
    local bare
    bare=$("$PROGRAM" 18 32 | json_field checksum)
    export SIM_KERNEL_US=$1
    reads 2M "$PROGRAM" 18 32
    [[ $(json_field checksum <<<"$output") == "$bare" ]]
}

@test "a block that kernels use for a moment stays the host block's memory" {
    search 1
    [[ $(json_field backing <<<"$pairs") == one && $(sum elided_copies) -eq 1 ]]
}

@test "a block that kernels use for longer than its change takes gets device memory, once" {
    search 900
    [[ $(json_field backing <<<"$pairs") == own && $(json_field why <<<"$pairs") == *"for long" ]]
    [[ $(sum elided_copies) -eq 1 ]]
    # The copy of the change was nobody's, and crossed the link all the same.  So did the offsets.
    moved_by_kind "$ZC_LOG" | grep "^HtoD Pinned Device 2 $((33554432 + 1048580))$"
}

@test "without device memory for it a block stays as it is, and no call fails" {
    export SIM_FAIL=cuMemCreate:2:1,cuMemCreate:2:2,cuMemCreate:2:3,cuMemCreate:2:4
    search 900
    [[ $(json_field backing <<<"$pairs") == one && $(sum elided_copies) -eq 1 ]]
}

@test "the second launch waits for the first to know its time, so that queued launches gain" {
    of_kernels pagerank
    export SIM_KERNEL_US=150000 SIM_DELAY_US=60000
    reads 1M "$PROGRAM" 16 32 1 3
    [[ $(json_field why <<<"$pairs") == "kernels used it for long" ]]
}

# adds: vectors of 4 MiB are added by one launch, of a thread for each 4 bytes.
adds() {
    of_kernels vecadd
    reads 1M "$PROGRAM" 1048576
}

@test "a kernel with threads enough to read all of a block finds it in device memory" {
    adds
    [[ $(ended own "threads enough") -eq 2 && $(sum elided_copies) -eq 2 ]]
    moved_by_kind "$ZC_LOG" | grep "^HtoD Pinned Device 2 8388608$"
}

@test "so does one with a thread for each row of 16 words, but not for each of 32" {
    of_kernels pagerank
    reads 4M "$PROGRAM" 16 16 1 1
    [[ $(ended own "threads enough") -eq 1 && $(sum elided_copies) -eq 1 ]]
    carried=$(moved_by_kind "$ZC_LOG" | awk '/^HtoD Pinned Device/ { print $5 }')
    reads 4M "$PROGRAM" 16 32 1 1
    [[ $(ended own "threads enough") -eq 0 && $(sum elided_copies) -eq 1 ]]
    # All but the lists moves alike.
    left=$(moved_by_kind "$ZC_LOG" | awk '/^HtoD Pinned Device/ { print $5 }')
    [[ $((carried - ${left:-0})) -eq 4194304 ]]
}

@test "so it is in Debian's python3, whose forked child has the block as well" {
    [[ -x /usr/bin/python3 ]] || skip 'no /usr/bin/python3'
    need_built "$SIM/kernels/driver_saxpy.so"
    export SIM_KERNELS=$SIM/kernels/driver_saxpy.so
    reads 4M /usr/bin/python3 -c '
import ctypes, os
cuda, size = ctypes.CDLL("libcuda.so.1"), 4 << 20
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
context, module, function, x, y = (ctypes.c_void_p() for _ in range(5))
host = ctypes.create_string_buffer(b"libzc" * (size // 5), size)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), b"")
call("cuModuleGetFunction", ctypes.byref(function), module, b"saxpy")
call("cuMemAlloc_v2", ctypes.byref(x), ctypes.c_size_t(size))
call("cuMemAlloc_v2", ctypes.byref(y), ctypes.c_size_t(1 << 20))
call("cuMemcpyHtoD_v2", x, host, ctypes.c_size_t(size))
threads = size // 64
values = ctypes.c_float(0), x, y, ctypes.c_uint(threads)
arguments = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
call("cuLaunchKernel", function, threads // 128, 1, 1, 128, 1, 1, 0, None, arguments, None)
call("cuCtxSynchronize")
child = os.fork()
if child == 0:
    os._exit(host.raw[:5] != b"libzc")
assert os.waitpid(child, 0)[1] == 0
print("{\"verified\":true}")'
    [[ $(ended own "threads enough") -eq 1 && $(sum elided_bytes) -eq 4194304 ]]
    moved_by_kind "$ZC_LOG" | grep "^HtoD Pinned Device 1 4194304$"
}

@test "without device memory such a block stays as it is, and no call fails" {
    export SIM_FAIL=cuMemCreate:2:2,cuMemCreate:2:3,cuMemCreate:2:4,cuMemCreate:2:5
    adds
    [[ $(ended one) -eq 2 && $(sum elided_copies) -eq 2 ]]
}

@test "where one block of a site was used for long, the next ones begin with device memory" {
    PROGRAM=$PWD/$ZC_BUILD/tests/gpu/pair_model-shared
    need_built "$PROGRAM" "$SIM/kernels/pair_model.so"
    export SIM_KERNELS=$SIM/kernels/pair_model.so SIM_KERNEL_US=2000
    reads 1M "$PROGRAM" 15000 3
    grep -q '"why":"kernels used it for long"' "$ZC_LOG"
    later='"why":"an earlier block of its site got memory for its kernels"'
    grep "$later" "$ZC_LOG" | grep -q '"elided_copies":0'
}
