#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# libzc beside another preload, in both orders where that is allowed: jemalloc, and the address
# sanitizer, which wants to be first.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/async_free
    vecadd=$PWD/$ZC_BUILD/kernels/vecadd-shared
    need_built "$LIBZC" "$program" "$vecadd" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    export ZC_LOG=off ZC_SUMMARY=0
}

# Runs programs with an LD_PRELOAD in every place; nothing may be printed but their own lines.
run_beside() {
    local place
    for place in device mapped managed vmm; do
        write_policy "place = $place"
        export ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf
        echo "$1 in $place memory"
        run -0 --separate-stderr env LD_PRELOAD="$1" timeout 60 "$vecadd"
        [[ $(json_field verified <<<"$output") == true && -z $stderr ]]
        run -0 --separate-stderr env LD_PRELOAD="$1" timeout 60 "$program" many
        [[ -z $output && -z $stderr ]]
    done
}

@test "jemalloc, before libzc and behind it" {
    jemalloc=$(library libjemalloc.so.2) || skip 'libjemalloc2 is not installed'
    run_beside "$jemalloc $LIBZC"
    run_beside "$LIBZC $jemalloc"
}

@test "the address sanitizer first, under a program that is built with it" {
    asan=$("${CC:-gcc}" -print-file-name=libasan.so)
    [[ -e $asan ]] || skip 'the compiler has no address sanitizer'
    headers=$(sed -E 's/.*-isystem ([^ ]+).*/\1/' "$ZC_BUILD/command")
    "${CC:-gcc}" -D_GNU_SOURCE -fsanitize=address -O1 -g -Itests -isystem "$headers" -o \
        "$BATS_TEST_TMPDIR/program" tests/preload/programs/async_free.c "$SIM/libcuda.so.1" -pthread
    # As CUDA needs it: its addresses lie where the sanitizer guards its own.
    export ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0
    program=$BATS_TEST_TMPDIR/program
    run_beside "$(realpath "$asan") $LIBZC"
    # Behind libzc the sanitizer refuses to start by itself, with or without CUDA.
    run env LD_PRELOAD="$LIBZC" "$program" many
    [[ $status -ne 0 && $output == *ASan*'does not come first'* ]]
}

@test "libzc twice is libzc once" {
    run_beside "$LIBZC $LIBZC"
}

@test "another interposer of a driver call, before libzc and behind it" {
    headers=$(sed -E 's/.*-isystem ([^ ]+).*/\1/' "$ZC_BUILD/command")
    cat >"$BATS_TEST_TMPDIR/other.c" <<-'END'
	#include <dlfcn.h>
	#include <stdlib.h>
	#include <unistd.h>
	int cuMemFree_v2(unsigned long long p)
	{
	    int (*next)(unsigned long long);
	    *(void **)&next = dlsym(RTLD_NEXT, "cuMemFree_v2");
	    if (getenv("SAY_FREE") && write(1, "free\n", 5) != 5)
	        return 999;
	    return next(p);
	}
	END
    "${CC:-gcc}" -D_GNU_SOURCE -shared -fPIC -isystem "$headers" \
        -o "$BATS_TEST_TMPDIR/libother.so" "$BATS_TEST_TMPDIR/other.c"
    requests=$ZC_BUILD/tests/preload/programs/requests
    for preload in "$BATS_TEST_TMPDIR/libother.so $LIBZC" "$LIBZC $BATS_TEST_TMPDIR/libother.so"; do
        run_beside "$preload"
    done
    # In front it sees the program's own call, whatever libzc makes of it.
    write_policy 'place = vmm'
    run -0 env SAY_FREE=1 ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" \
        LD_PRELOAD="$BATS_TEST_TMPDIR/libother.so $LIBZC" "$requests" 1 2
    [[ $(grep -c '^free$' <<<"$output") == 2 && $(grep -c '^0$' <<<"$output") == 2 ]]
}

@test "blocks that dlsym itself asks for keep their bytes, and never reach libc" {
    cat >"$BATS_TEST_TMPDIR/dlsym.c" <<-'END'
	#include <dlfcn.h>
	#include <malloc.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	enum { FREED, GROWN, ARRAY, LARGE, BLOCKS };
	static char *blocks[BLOCKS];
	static int same(const char *p, char value)
	{
	    for (int i = 0; i < 100; i++)
	        if (p[i] != value)
	            return 0;
	    return 1;
	}
	static void ask(void)
	{
	    volatile size_t half = (size_t)-1 / 2 + 2;
	    if (calloc(half, 2))
	        abort();
	    for (int i = 0; i < BLOCKS; i++) {
	        blocks[i] = i % 2 ? malloc(60) : calloc(6, 10);
	        memset(blocks[i], 'a' + i, 60);
	        blocks[i] = realloc(blocks[i], 100);
	        memset(blocks[i] + 60, 'a' + i, 40);
	        free(realloc(NULL, 10));
	    }
	}
	void *dlsym(void *handle, const char *name)
	{
	    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	    static void *(*real)(void *, const char *);
	    for (int i = 0; i < 3 && !real; i++)
	        real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	    if (!strcmp(name, "realloc") && !blocks[0])
	        ask();
	    return real(handle, name);
	}
	__attribute__((destructor)) static void use(void)
	{
	    free(malloc(1));
	    for (int i = 0; i < BLOCKS; i++)
	        printf("%d %zu\n", same(blocks[i], 'a' + i), malloc_usable_size(blocks[i]));
	    free(blocks[FREED]);
	    blocks[GROWN] = realloc(blocks[GROWN], 1000);
	    blocks[ARRAY] = reallocarray(blocks[ARRAY], 100, 10);
	    blocks[LARGE] = realloc(blocks[LARGE], 1 << 20);
	    for (int i = GROWN; i < BLOCKS; i++)
	        printf("%d\n", same(blocks[i], 'a' + i));
	    fflush(stdout);
	    for (int i = GROWN; i < BLOCKS; i++)
	        free(blocks[i]);
	}
	END
    echo 'GLIBC_2.34 { global: dlsym; local: *; };' >"$BATS_TEST_TMPDIR/map"
    "${CC:-gcc}" -D_GNU_SOURCE -shared -fPIC -Wl,--version-script="$BATS_TEST_TMPDIR/map" \
        -o "$BATS_TEST_TMPDIR/libdlsym.so" "$BATS_TEST_TMPDIR/dlsym.c" -ldl
    write_policy $'api = realloc\nplace = pinned'
    for policy in off "$BATS_TEST_TMPDIR/policy.conf"; do
        run -0 --separate-stderr env ZC_POLICY="$policy" \
            LD_PRELOAD="$LIBZC $BATS_TEST_TMPDIR/libdlsym.so" /bin/true
        [[ $output == $'1 100\n1 100\n1 100\n1 100\n1\n1\n1' && -z $stderr ]]
    done
}

@test "libzc loads behind a library that watches the loader, and its programs run" {
    export ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf
    echo 'unsigned la_version(unsigned version) { return version; }' >"$BATS_TEST_TMPDIR/watch.c"
    ${CC:-cc} -shared -fPIC -o "$BATS_TEST_TMPDIR/watch.so" "$BATS_TEST_TMPDIR/watch.c"
    write_policy 'place = vmm'
    run -0 --separate-stderr env LD_AUDIT="$BATS_TEST_TMPDIR/watch.so" LD_PRELOAD="$LIBZC" \
        timeout 60 "$program" many
    [[ -z $output && -z $stderr ]]
}

@test "a program that the thread sanitizer watches starts behind libzc" {
    export ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf
    echo 'int main(void) { return 7; }' >"$BATS_TEST_TMPDIR/watched.c"
    ${CC:-cc} -fsanitize=thread -o "$BATS_TEST_TMPDIR/watched" "$BATS_TEST_TMPDIR/watched.c" ||
        skip 'the compiler has no thread sanitizer'
    run setarch -R "$BATS_TEST_TMPDIR/watched"
    [[ $status == 7 ]] || skip 'the thread sanitizer does not run here'
    write_policy $'api = malloc\nplace = pinned'
    run -7 env LD_PRELOAD="$LIBZC" setarch -R "$BATS_TEST_TMPDIR/watched"
}
