#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every route to a driver entry point ends in the wrapper of exactly the variant that the driver
# itself would have given, and a caller of RTLD_NEXT keeps its place in the search order.

load common.bash

setup() {
    programs=$PWD/$ZC_BUILD/tests/preload/programs
    need_built "$LIBZC" "$programs/routes"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
    unset ZC_POLICY
}

# Runs the program `routes` under libzc.
routes() {
    env LD_PRELOAD="$LIBZC" "$programs/routes" "$@"
}

# All routes to a name must end in the given symbols: legacy, then per-thread.
expect_routes() {
    local legacy="libzc.so $2" per_thread="libzc.so $3"
    run -0 routes to "$1" "$2"
    for route in handle default v1 'v2 flags 0' 'v2 flags 1' runtime \
        'runtime without version'; do
        echo "$1 by $route"
        grep -qxF "$route: $legacy" <<<"$output"
    done
    for route in 'v2 flags 2' 'runtime per thread'; do
        echo "$1 by $route"
        grep -qxF "$route: $per_thread" <<<"$output"
    done
}

@test "a directly bound call reaches the wrapper" {
    run -0 routes bound
    [[ $output == "bound: libzc.so cuMemAlloc_v2" ]]
}

@test "all routes give the same wrapper, and per-thread twins their own" {
    expect_routes cuMemAlloc cuMemAlloc_v2 cuMemAlloc_v2
    expect_routes cuMemcpyHtoD cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds
    expect_routes cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz
    expect_routes cuMemAllocAsync cuMemAllocAsync cuMemAllocAsync_ptsz
    expect_routes cuMemsetD8Async cuMemsetD8Async cuMemsetD8Async_ptsz
}

@test "every launch is caught on all routes" {
    expect_routes cuLaunchKernel cuLaunchKernel cuLaunchKernel_ptsz
    expect_routes cuLaunchKernelEx cuLaunchKernelEx cuLaunchKernelEx_ptsz
    expect_routes cuLaunchCooperativeKernel cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz
    expect_routes cuGraphLaunch cuGraphLaunch cuGraphLaunch_ptsz
    for name in cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchCooperativeKernelMultiDevice; do
        expect_routes "$name" "$name" "$name"
    done
}

@test "a name that has several versions gives the wrapper of the version asked for" {
    while read -r name version symbol; do
        run -0 routes ask "$name" "$version" 0
        echo "$name $version: $output"
        [[ $output == "0 0 libzc.so $symbol" ]]
    done <<-END
	cuLaunchHostFunc 10000 cuLaunchHostFunc
	cuLaunchHostFunc 13010 cuLaunchHostFunc_v2
	cuMemcpyWithAttributesAsync 13020 cuMemcpyWithAttributesAsync
	cuMemAdvise 8000 cuMemAdvise
	cuMemAdvise 12020 cuMemAdvise_v2
	cuMemPrefetchAsync 8000 cuMemPrefetchAsync
	cuMemPrefetchAsync 12020 cuMemPrefetchAsync_v2
	cuMemcpyBatchAsync 12080 cuMemcpyBatchAsync
	cuMemcpyBatchAsync 13000 cuMemcpyBatchAsync_v2
	cuMemcpy3DBatchAsync 12080 cuMemcpy3DBatchAsync
	cuMemcpy3DBatchAsync 13000 cuMemcpy3DBatchAsync_v2
	cuIpcOpenMemHandle 4010 cuIpcOpenMemHandle
	cuIpcOpenMemHandle 11000 cuIpcOpenMemHandle_v2
	cuGetProcAddress 11030 cuGetProcAddress
	cuGetProcAddress 12000 cuGetProcAddress_v2
	END
}

@test "the empty name and an unknown one get the driver's own answer" {
    for name in '' cuNoSuchEntryPoint; do
        run -0 "$programs/routes" ask "$name" 0 0
        bare=$output
        run -0 routes ask "$name" 0 0
        [[ $output == "$bare" ]]
    done
}

@test "every request of real programs gets the driver's function or its own wrapper" {
    "$programs/routes" requests tests/preload/driver-requests.tsv >"$BATS_TEST_TMPDIR/bare"
    routes requests tests/preload/driver-requests.tsv >"$BATS_TEST_TMPDIR/caught"
    [[ $(grep -c 'libcuda.so.1' "$BATS_TEST_TMPDIR/bare") -gt 500 ]]
    # Name, version, flags, code, status and symbol agree; of objects only libzc's may be another.
    diff <(awk '{ $6 = "" } 1' "$BATS_TEST_TMPDIR/bare") \
        <(awk '{ $6 = "" } 1' "$BATS_TEST_TMPDIR/caught")
    run ! grep -F '(inside)' "$BATS_TEST_TMPDIR/caught"
    # Whatever libzc exports it must also have handed out.
    nm -D --defined-only "$LIBZC" | awk '$3 ~ /^cu[A-Z]/ { print $3 }' | sort \
        >"$BATS_TEST_TMPDIR/wrappers"
    awk '$6 == "libcuda.so.1" { print $7 }' "$BATS_TEST_TMPDIR/caught" | sort -u \
        >"$BATS_TEST_TMPDIR/passed"
    [[ -z $(comm -12 "$BATS_TEST_TMPDIR/wrappers" "$BATS_TEST_TMPDIR/passed") ]]
    [[ $(grep -c 'libzc.so' "$BATS_TEST_TMPDIR/caught") -gt 200 ]]
    # The tables name all of them: caught, called by libzc itself, or left alone for a reason.
    "${CC:-gcc}" -E -P -x c -I shim -DCUDA_VERSION=99999 - <<-'END' |
	#define ZC_USE(name, base) name
	#include "driver.def"
	#define ZC_PASSTHROUGH(why, ...) __VA_ARGS__
	#include "passthrough.def"
	END
        grep -oE '\<cu[A-Z]\w*' | sort - "$BATS_TEST_TMPDIR/wrappers" >"$BATS_TEST_TMPDIR/known"
    [[ -z $(uniq -d "$BATS_TEST_TMPDIR/known") ]]
    [[ -z $(comm -23 "$BATS_TEST_TMPDIR/passed" "$BATS_TEST_TMPDIR/known") ]]
}

@test "the tables name all that the newest headers declare" {
    run -0 python3 -B tests/driver_names.py missing
    [[ -z $output ]]
    # As make check-headers tells of headers that are newer still.
    mkdir "$BATS_TEST_TMPDIR/include"
    echo 'typedef int CUresult; CUresult cuMemNotThere_v2(void); CUresult cuInit(unsigned int f);' \
        >"$BATS_TEST_TMPDIR/include/cuda.h"
    run -1 python3 -B tests/driver_names.py missing 99.9 "$BATS_TEST_TMPDIR/include"
    [[ $output == 'cuMemNotThere_v2: declared by CUDA 99.9, and in neither table:'*'driver.def'* ]]
}

@test "the recorded symbol of a request is the one whose wrapper it gets" {
    routes requests tests/preload/driver-requests.tsv >"$BATS_TEST_TMPDIR/caught"
    awk '/^[^#]/ && $4 != "-" { print $1, $2, $3, $4 }' tests/preload/driver-requests.tsv \
        >"$BATS_TEST_TMPDIR/recorded"
    [[ -s $BATS_TEST_TMPDIR/recorded ]]
    awk 'NR == FNR { got[$1, $2, $3] = $7; next }
        got[$1, $2, $3] != $4 { print $0 ": got " got[$1, $2, $3]; bad = 1 } END { exit bad }' \
        "$BATS_TEST_TMPDIR/caught" "$BATS_TEST_TMPDIR/recorded"
}

@test "every wrapper calls the driver's function of its own name, twins and versions apart" {
    need_built "$programs/forwards"
    # cuInit and the resolvers answer before cuInit, and are tested above.
    entry_points() {
        nm -D --defined-only "$1" | awk '$3 ~ /^cu[A-Z]/ { print $3 }' | sort |
            grep -vE '^cu(Init|GetProcAddress)'
    }
    local -a names
    mapfile -t names < <(comm -12 <(entry_points "$LIBZC") <(entry_points "$SIM/libcuda.so.1"))
    [[ ${#names[@]} -gt 200 ]]
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    run -0 env LD_PRELOAD="$LIBZC" "$programs/forwards" "${names[@]}"
    # In this order, each once; libzc's own questions may stand between them.
    run diff <(printf '%s\n' "${names[@]}") <(cut -d ' ' -f 1 "$SIM_TRACE")
    [[ $output != *'< cu'* ]]
}

@test "an entry point that the driver withholds stays withheld" {
    export SIM_WITHOUT=cuMemAlloc,cuMemcpyHtoDAsync
    for request in 'cuMemAlloc 3020 0' 'cuMemcpyHtoDAsync 7000 2'; do
        run -0 "$programs/routes" ask $request
        bare=$output
        [[ $bare == 500* ]]
        run -0 routes ask $request
        [[ $output == "$bare" ]]
    done
}

# Builds the program and its libraries: rtld_next OPTIMISATION
rtld_next() {
    local cc=${CC:-gcc} name
    local source=tests/preload/programs
    for name in first second linked; do
        "$cc" "$1" -fPIC -shared -DNAME="$name" -D_GNU_SOURCE -o "$BATS_TEST_TMPDIR/lib$name.so" \
            "$source/librtldnext.c"
    done
    "$cc" "$1" -D_GNU_SOURCE -isystem "$(cuda_headers)" -o "$BATS_TEST_TMPDIR/rtld_next" \
        "$source/rtld_next.c" -rdynamic -L"$BATS_TEST_TMPDIR" -Wl,--no-as-needed -llinked \
        -Wl,--as-needed "$SIM/libcuda.so.1"
    LD_LIBRARY_PATH+=:$BATS_TEST_TMPDIR
}

# The folder of cuda.h that the build used.
cuda_headers() {
    sed -nE 's/.*-isystem ([^ ]+).*/\1/p' "$ZC_BUILD/command"
}

@test "RTLD_NEXT keeps its caller: program, library, and interposers on both sides of libzc" {
    for optimisation in -O0 -O2; do
        rtld_next "$optimisation"
        local dir=$BATS_TEST_TMPDIR
        run -0 env LD_PRELOAD="$dir/libfirst.so $dir/libsecond.so" "$dir/rtld_next"
        bare=$output
        [[ $bare == *'program marker first'*'first marker second'*'second marker linked'* ]]
        run -0 env LD_PRELOAD="$dir/libfirst.so $LIBZC $dir/libsecond.so" "$dir/rtld_next"
        # Only where libzc is next may the answer differ from the bare one.
        [[ $output == "$(sed -E '/^(program|first) cuMem/s/libcuda.so.1/libzc.so/' <<<"$bare")" ]]
    done
}

@test "a process without a driver finds no entry point of it" {
    need_built "$programs/no_driver"
    unset LD_LIBRARY_PATH
    PATH=$PATH:/usr/sbin ldconfig -p | grep -q 'libcuda.so.1' && skip "this machine has a driver"
    run -0 "$programs/no_driver"
    bare=$output
    [[ $bare == *'default: none, undefined symbol: cuInit'* ]]
    run -0 env LD_PRELOAD="$LIBZC" "$programs/no_driver"
    [[ $output == "$bare" ]]
}

# Builds a library from standard input: build_library NAME
build_library() {
    "${CC:-gcc}" -D_GNU_SOURCE -xc -fPIC -shared -o "$BATS_TEST_TMPDIR/lib$1.so" -
}

# Builds a program from standard input.
build_program() {
    "${CC:-gcc}" -D_GNU_SOURCE -xc -o "$BATS_TEST_TMPDIR/program" -
}

@test "a library that is no driver is not taken for one, whatever its names begin with" {
    build_library file <<<'int cuFileDriverOpen(void) { return 5000; }'
    build_program <<-'END'
	#include <dlfcn.h>
	#include <stdio.h>
	int main(int argc, char **argv)
	{
	    Dl_info info;
	    void *file = dlopen(argv[1], RTLD_NOW);
	    int (*open)(void) = (int (*)(void))dlsym(file, "cuFileDriverOpen");
	    printf("%d %d\n", argc, open ? open() : 0);
	    dlclose(file);
	    printf("still there: %d\n", !!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD));
	    void *alloc = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
	    if (alloc && dladdr(alloc, &info))
	        puts(info.dli_fname);
	}
	END
    run -0 env LD_PRELOAD="$LIBZC" "$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/libfile.so"
    [[ $output == "2 5000
still there: 0
$LIBZC" ]]
}


@test "RTLD_DEFAULT keeps its caller too: a plugin finds what only it sees" {
    build_library plugin <<-'END'
	#include <dlfcn.h>
	#include <stdio.h>
	int cuOfPlugin(void) { return 7; }
	void ask(void)
	{
	    int (*own)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cuOfPlugin");
	    printf("%d\n", own ? own() : 0);
	    dlsym(RTLD_DEFAULT, "cuOfNobody");
	    puts(dlerror());
	}
	END
    build_program <<-'END'
	#include <dlfcn.h>
	int main(int argc, char **argv)
	{
	    ((void (*)(void))dlsym(dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL), "ask"))();
	}
	END
    run -0 "$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/libplugin.so"
    bare=$output
    [[ $bare == 7* ]]
    run -0 env LD_PRELOAD="$LIBZC" "$BATS_TEST_TMPDIR/program" "$BATS_TEST_TMPDIR/libplugin.so"
    [[ $output == "$bare" ]]
}
