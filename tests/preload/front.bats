#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Whose malloc a program reaches: host rules take effect in every kind of executable, and an
# allocator that comes before libzc, or behind it, keeps all requests.

load host.bash

BYTES=$((4 << 20))
HOST="[rule device]
api = cudaMalloc
place = device
[rule host]
$PINNED"

setup() {
    host_setup
    log=$BATS_TEST_TMPDIR/log.jsonl
    export SIM_DEVICES=1
}

# Builds a program, pie or no-pie, that takes the addresses of malloc, realloc and free in its code:
# in one that is not position-independent these lie in its own procedure linkage table.
#   build pie|no-pie [ARGUMENT OF gcc...]
build() {
    "${CC:-gcc}" -O1 -fno-builtin "-f$1" "-$1" -w -Wl,--no-as-needed -xc \
        -o "$BATS_TEST_TMPDIR/program" - -xnone "$SIM/libcuda.so.1" "${@:2}" <<-'END'
	#include <malloc.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	enum { BYTES = 4 << 20 };
	int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
	int cuMemAlloc_v2(unsigned long *, size_t), cuMemcpyHtoD_v2(unsigned long, void *, size_t);
	int cuMemcpyDtoH_v2(void *, unsigned long, size_t);
	int main(void)
	{
	    void *(*volatile get)(size_t) = malloc;
	    void *(*volatile resize)(void *, size_t) = realloc;
	    void (*volatile put)(void *) = free;
	    void *context;
	    unsigned long device;
	    int error = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
	    char *p = get(BYTES);
	    memset(p, 7, BYTES);
	    error |= cuMemAlloc_v2(&device, BYTES) | cuMemcpyHtoD_v2(device, p, BYTES);
	    memset(p, 0, BYTES);
	    error |= cuMemcpyDtoH_v2(p, device, BYTES);
	    p = resize(p, 2 * BYTES);
	    printf("%d %d %d\n", error, p[0], p[BYTES - 1]);
	    put(p);
	    free(malloc(3 * BYTES));
	}
	END
}

# Bytes moved from host memory to the device, by kind of the host memory: "KIND BYTES" a line.
moved() {
    moved_by_kind "$log" | awk '$1 == "HtoD" { print $2, $5 }'
}

# Runs a command under libzc with the policy, and these libraries in LD_PRELOAD.
run_under() {
    rm -f "$log"
    run -0 --separate-stderr env ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" ZC_LOG="$log" \
        LD_PRELOAD="$1" timeout 60 "${@:2}"
    echo "$output; $stderr; $(moved)"
}

expect_placed() {
    run_under "$@"
    [[ $output == '0 7 7' && -z $stderr && $(moved) == "Pinned $BYTES" ]]
}

# expect_left_alone REASON LIBRARIES COMMAND...
expect_left_alone() {
    run_under "${@:2}"
    [[ $output == '0 7 7' && $stderr == *' rule host ('*" stay pageable: $1"* ]]
    [[ $(grep -c . <<<"$stderr") == 1 && $(moved) == "Pageable $BYTES" ]]
    [[ $(grep -c '"type":"warn"' "$log") == 1 ]]
}

before='another allocator comes before libzc'

# An allocator with functions of its own, which end the program if they are given a block that it
# did not make; with -DPASSES a library that counts requests, and passes them on.
build_other() {
    "${CC:-gcc}" -D_GNU_SOURCE -O1 -fno-builtin -fPIC -shared "$@" -xc - <<-'END'
	#include <dlfcn.h>
	#include <stdlib.h>
	#include <string.h>
	#ifdef PASSES
	static size_t counted;
	void *malloc(size_t n)
	{
	    static void *(*next)(size_t);
	    if (!next)
	        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
	    counted++;
	    return next(n);
	}
	void free(void *p)
	{
	    static void (*next)(void *);
	    if (!next)
	        *(void **)&next = dlsym(RTLD_NEXT, "free");
	    next(p);
	}
	#else
	static char memory[256 << 20] __attribute__((aligned(4096)));
	static size_t used;
	void *malloc(size_t n)
	{
	    size_t at = __atomic_fetch_add(&used, ((n + 31) & ~(size_t)15) + 16, __ATOMIC_RELAXED);
	    memcpy(memory + at, &n, sizeof(n));
	    return memory + at + 16;
	}
	void other_free(void *p)
	{
	    if (p && ((char *)p < memory || (char *)p >= memory + sizeof(memory)))
	        abort();
	}
	void free(void *p) { other_free(p); }
	void *calloc(size_t count, size_t n) { return malloc(count * n); }
	size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-2] : 0; }
	void *realloc(void *p, size_t n)
	{
	    size_t had = malloc_usable_size(p);
	    return p ? memcpy(malloc(n), p, had < n ? had : n) : malloc(n);
	}
	void *aligned_alloc(size_t boundary, size_t n)
	{
	    char *p = malloc(n + boundary + 16);
	    p += (boundary - (size_t)p % boundary) % boundary + (boundary < 16 ? 16 : boundary);
	    memcpy(p - 16, &n, sizeof(n));
	    return p;
	}
	#endif
	END
}

@test "blocks of an allocator before or behind libzc stay its own" {
    local name flag other
    write_policy "$HOST"
    build_other -o "$BATS_TEST_TMPDIR/libother.so"
    for name in "$BATS_TEST_TMPDIR/libother.so" libjemalloc.so.2 libtcmalloc_minimal.so.4 \
        libmimalloc.so.2; do
        other=$name
        [[ $name == /* ]] || other=$(library "$name") || continue
        for flag in pie no-pie; do
            echo "$name $flag"
            build "$flag"
            expect_left_alone "$before" "$other $LIBZC" "$BATS_TEST_TMPDIR/program"
            expect_left_alone "$other serves malloc behind libzc" "$LIBZC $other" \
                "$BATS_TEST_TMPDIR/program"
            build "$flag" "$other"
            expect_left_alone '' "$LIBZC" "$BATS_TEST_TMPDIR/program"
            [[ $stderr == *"${name##*/}"*' serves malloc behind libzc'* ]]
            expect_left_alone "$before" "$other $LIBZC" "$BATS_TEST_TMPDIR/program"
        done
    done
}

@test "an allocator behind libzc is given no block of libzc's by its own functions" {
    local name call other policy
    write_policy "$HOST"
    build_other -o "$BATS_TEST_TMPDIR/libother.so"
    while read -r name call; do
        other=$name
        [[ $name == /* ]] || other=$(library "$name") || continue
        echo "$name $call"
        "${CC:-gcc}" -O1 -fno-builtin -w -DCALL="$call" -xc -o "$BATS_TEST_TMPDIR/program" \
            - <<-'END'
	#include <dlfcn.h>
	#include <stdlib.h>
	#include <string.h>
	#define TEXT2(x) #x
	#define TEXT(x) TEXT2(x)
	int main(void)
	{
	    void (*own_free)(void *, size_t, int) = dlsym(RTLD_DEFAULT, TEXT(CALL));
	    void *blocks[] = {malloc(20 << 20), calloc(5, 4 << 20), realloc(malloc(10), 20 << 20),
	                      aligned_alloc(64, 20 << 20)};
	    for (int i = 0; i < 4; i++) {
	        memset(blocks[i], 1, 20 << 20);
	        own_free(blocks[i], 20 << 20, i == 3 ? 6 : 0);
	    }
	}
	END
        for policy in "$BATS_TEST_TMPDIR/policy.conf" policy/presets/everyday.conf; do
            run -0 env ZC_POLICY="$policy" LD_PRELOAD="$LIBZC $other" \
                "$BATS_TEST_TMPDIR/program"
            [[ -z $output ]]
        done
    done <<-END
	$BATS_TEST_TMPDIR/libother.so other_free
	libjemalloc.so.2 sdallocx
	libmimalloc.so.2 mi_free
	libtcmalloc_minimal.so.4 tc_free
	END
}

@test "a preload that passes requests on to libzc changes nothing" {
    local flag
    write_policy "$HOST"
    build_other -DPASSES -o "$BATS_TEST_TMPDIR/libother.so"
    for flag in pie no-pie; do
        build "$flag"
        expect_placed "$BATS_TEST_TMPDIR/libother.so $LIBZC" "$BATS_TEST_TMPDIR/program"
    done
}

@test "a program's own allocator keeps libzc's blocks away, whether position-independent or not" {
    local flag style
    write_policy "$HOST"
    cat >"$BATS_TEST_TMPDIR/own.c" <<-'END'
	#include <stddef.h>
	#include <string.h>
	static char memory[64 << 20] __attribute__((aligned(4096)));
	static size_t used;
	void *malloc(size_t n)
	{
	    char *p = memory + used + 16;
	    memcpy(p - 16, &n, sizeof(n));
	    used += (n + 31) & ~(size_t)15;
	    return p;
	}
	void free(void *p) { (void)p; }
	void *calloc(size_t count, size_t n) { return malloc(count * n); }
	void *realloc(void *p, size_t n)
	{
	    size_t had = 0;
	    if (p)
	        memcpy(&had, (char *)p - 16, sizeof(had));
	    return p ? memcpy(malloc(n), p, had < n ? had : n) : malloc(n);
	}
	size_t malloc_usable_size(void *p) { return ((size_t *)p)[-2]; }
	END
    "${CC:-gcc}" -O1 -fno-builtin -fPIC -c -o "$BATS_TEST_TMPDIR/own.o" "$BATS_TEST_TMPDIR/own.c"
    for flag in pie no-pie; do
        for style in gnu sysv; do
            build "$flag" "$BATS_TEST_TMPDIR/own.o" -Wl,--hash-style=$style
            expect_left_alone "$before" "$LIBZC" "$BATS_TEST_TMPDIR/program"
            build "$flag" -Wl,--hash-style=$style
            expect_placed "$LIBZC" "$BATS_TEST_TMPDIR/program"
        done
    done
}

# The distribution's Python copies a bytearray twice to the device and once back.  The bytearray
# asks for a byte more than it has.
python_copies() {
    run_under "$LIBZC" /usr/bin/python3 -c '
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
context, device, size = ctypes.c_void_p(), ctypes.c_void_p(), int(sys.argv[1])
check(cu.cuInit(0))
check(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cu.cuCtxSetCurrent(context))
data = bytearray(size)
data[0] = data[-1] = 7
view = (ctypes.c_char * size).from_buffer(data)
check(cu.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(size + 1)))
for _ in range(2):
    check(cu.cuMemcpyHtoD_v2(device, view, ctypes.c_size_t(size)))
check(cu.cuMemcpyDtoH_v2(view, device, ctypes.c_size_t(size)))
print(data[0], data[-1], data.count(0) == size - 2)' $((BYTES - 1))
    [[ $output == '7 7 True' && -z $stderr ]]
}

@test "the distribution's Python copies from pinned memory, and shares what it copies" {
    [[ -x /usr/bin/python3 ]] || skip 'no /usr/bin/python3'
    write_policy "$PINNED"
    python_copies
    [[ $(moved) == "Pinned $((2 * BYTES - 2))" ]]
    write_policy "[rule host]
api = $FAMILY
place = shared
[rule device]
api = cudaMalloc
place = shared
access = read"
    python_copies
    [[ -z $(moved) ]]
    tail -n 1 "$log" | grep -qF "\"elided_calls\":3,\"elided_bytes\":$((3 * (BYTES - 1)))"
}

@test "the distribution's Python copies from pinned memory under the preset for any program" {
    [[ -x /usr/bin/python3 ]] || skip 'no /usr/bin/python3'
    cp policy/presets/everyday.conf "$BATS_TEST_TMPDIR/policy.conf"
    for BYTES in $((8 << 20)) $(((16 << 20) + 1)); do # Copied by threads, and placed.
        python_copies
        [[ $(moved) == "Pinned $((2 * BYTES - 2))" ]]
    done
}

@test "the distribution's Node.js copies from pinned memory" {
    [[ -x /usr/bin/node ]] || skip 'no /usr/bin/node'
    "${CC:-gcc}" -O1 -fPIC -shared -xc -o "$BATS_TEST_TMPDIR/copies.node" - \
        -xnone "$SIM/libcuda.so.1" <<-'END'
	#include <stddef.h>
	#include <stdio.h>
	int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
	int cuMemAlloc_v2(unsigned long *, size_t), cuMemcpyHtoD_v2(unsigned long, void *, size_t);
	int napi_get_buffer_info(void *env, void *value, void **data, size_t *length);
	/* `exports` is the buffer. */
	void *napi_register_module_v1(void *env, void *exports)
	{
	    void *context, *data;
	    size_t bytes = 0;
	    unsigned long device;
	    int error = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
	    error |= napi_get_buffer_info(env, exports, &data, &bytes);
	    error |= cuMemAlloc_v2(&device, bytes) | cuMemcpyHtoD_v2(device, data, bytes);
	    printf("%d %zu\n", error, bytes);
	    fflush(stdout);
	    return exports;
	}
	END
    write_policy "$PINNED"
    run_under "$LIBZC" /usr/bin/node -e \
        "process.dlopen({exports: Buffer.alloc($BYTES, 7)}, '$BATS_TEST_TMPDIR/copies.node')"
    [[ $output == "0 $BYTES" && -z $stderr && $(moved) == "Pinned $BYTES" ]]
}

# A library behind libzc whose pvalloc is chosen by an IFUNC resolver, which the loader calls while
# libzc looks for the functions behind its own: what the resolver gets, no allocator knows.
build_resolver() {
    "${CC:-gcc}" -O1 -fno-builtin -fPIC -shared -w -o "$BATS_TEST_TMPDIR/libresolver.so" \
        -xc - <<-'END'
	#include <errno.h>
	#include <malloc.h>
	#include <stdlib.h>
	#include <string.h>
	char *kept[5];
	int failed;
	static void *whole_pages(size_t n) { return valloc(n + 4095 & ~(size_t)4095); }
	static void *resolver(void)
	{
	    for (int i = 0; i < 4; i++)
	        memset(kept[i] = i ? malloc(100 + i) : realloc(NULL, 100), 'a' + i, 100 + i);
	    kept[4] = calloc(10, 10);
	    for (int i = 0; i < 100; i++)
	        failed |= kept[4][i];
	    memset(kept[4], 'e', 100);
	    kept[3] = realloc(kept[3], 200);
	    failed |= kept[3][102] != 'd' || malloc_usable_size(kept[0]) - 100 > 100;
	    errno = 0;
	    failed |= malloc(20000) || errno != ENOMEM;
	    errno = 0;
	    failed |= calloc((size_t)-1, 2) || errno != ENOMEM;
	    free(malloc(50));
	    return whole_pages;
	}
	void *pvalloc(size_t) __attribute__((ifunc("resolver")));
	END
    "${CC:-gcc}" -O1 -fno-builtin -w -o "$BATS_TEST_TMPDIR/program" -xc - -xnone \
        -L"$BATS_TEST_TMPDIR" -lresolver -Wl,-rpath,"$BATS_TEST_TMPDIR" <<-'END'
	#include <malloc.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	extern char *kept[5];
	extern int failed;
	void __libc_free(void *);
	void *__libc_realloc(void *, size_t);
	static int differs(const char *p, int c, int n)
	{
	    while (n && *p == c)
	        p++, n--;
	    return n;
	}
	/* Blocks of libc's are freed all the same while one of the resolver's is there. */
	static size_t grown(void)
	{
	    size_t before = mallinfo2().uordblks;
	    for (int i = 0; i < 1000; i++) {
	        free(malloc(1000));
	        __libc_free(malloc(1000));
	    }
	    return mallinfo2().uordblks - before;
	}
	int main(void)
	{
	    for (int i = 0; i < 5; i++)
	        failed |= differs(kept[i], 'a' + i, i == 4 ? 100 : 100 + i) ? 2 << i : 0;
	    failed |= grown() < 100000 ? 0 : 128;
	    failed |= malloc_usable_size(kept[1]) - 101 > 100 ? 256 : 0;
	    char *larger = realloc(kept[1], 5000);
	    failed |= differs(larger, 'b', 101) ? 512 : 0;
	    free(larger);
	    larger = __libc_realloc(kept[2], 50);
	    failed |= differs(larger, 'c', 50) ? 1024 : 0;
	    free(larger);
	    free(kept[0]);
	    __libc_free(kept[3]);
	    failed |= realloc(kept[4], 0) ? 2048 : 0;
	    failed |= grown() < 100000 ? 0 : 4096;
	    printf("%d\n", failed);
	}
	END
}

@test "what a resolver allocates while libzc looks for the allocator is memory like any other" {
    build_resolver
    write_policy "$HOST"
    run_under "$LIBZC" "$BATS_TEST_TMPDIR/program"
    [[ $output == 0 && -z $stderr ]]
}
