#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Exports, needs and effects of libzc.so in a process that never calls CUDA.

bats_require_minimum_version 1.5.0

setup() {
    ZC_BUILD=${ZC_BUILD:-build}
    lib=$ZC_BUILD/libzc.so
    [[ $lib == /* ]] || lib=$PWD/$lib
}

exported() { nm -D --defined-only "$lib" | awk '{ print $3 }' | sort; }

# The functions of libc that the export map names one by one.
interposed() {
    sed -n '/global:/,/local:/p' shim/exports.map | grep -oE '^ *[a-z_][A-Za-z0-9_]*;' | tr -d ' ;'
}

# Functions that NVTX calls, and zc.h.
own() { printf '%s\n' InitializeInjectionNvtx2 zc_lib_{pop,push,query}; }

# The entry points of the driver's table that have wrappers, twins included, as the compiler sees
# the table with the headers of this build.
rows() {
    local -a command
    read -r -a command <"$ZC_BUILD/command"
    printf '%s\n' '#include <cuda.h>' '#define ZC_ROW(name, base, params) A_ROW name' \
        '#include "driver.def"' |
        "${command[@]}" -E -P -x c - | grep -oE 'A_ROW [A-Za-z0-9_]+' | cut -d ' ' -f 2
}

@test "it exports the table's entry points, the libc functions it stands for, and nothing else" {
    diff <({ rows; interposed; own; } | sort) <(exported)
}

@test "no entry point has two rows in the table" {
    [ -z "$(rows | sort | uniq -d)" ]
}

@test "what it interposes beside the driver are functions of libc" {
    libc=$(ldd "$lib" | awk '/libc\.so/ { print $3 }')
    diff <(interposed | sort) \
        <(interposed | sort | comm -12 - <(nm -D --defined-only "$libc" | awk '{ print $3 }' |
            sed 's/@.*//' | sort -u))
}

@test "it needs libc alone" {
    run -0 readelf -dW "$lib"
    needed=$(sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' <<<"$output" | grep -vE '^ld-linux' || true)
    [ "$needed" = libc.so.6 ]
}

@test "every undefined symbol is libc's or the compiler's own weak one" {
    run -0 nm -D --undefined-only "$lib"
    undefined=$(awk '$1 == "U" && $2 !~ /@GLIBC_/ { print $2 }
             $1 == "w" && $2 !~ /^(__cxa_finalize|__gmon_start__|_ITM_|_dl_find_object)/ {
                 print $2
             }' <<<"$output")
    [ -z "$undefined" ] || { echo "$undefined"; false; }
}

@test "it never calls the public dlsym, which it is itself" {
    run -0 nm -D --undefined-only "$lib"
    run -1 grep -wE 'dlsym|__libc_dlsym|_dl_sym' <<<"$output"
    exported | grep -qx dlsym
}

@test "it is linked read-only after relocation, bound at load, without text relocations" {
    run -0 readelf -lW "$lib"
    [[ $output == *GNU_RELRO* ]]
    [[ $output =~ GNU_STACK[^$'\n']*\ RW\  ]]
    run -0 readelf -dW "$lib"
    [[ $output == *NOW* ]]
    [[ $output == *NODELETE* ]]
    [[ $output != *TEXTREL* ]]
}

@test "it has one constructor at most" {
    # The compiler's start file takes one of the entries, of 8 bytes each.
    run -0 readelf -dW "$lib"
    [ "$(awk '/INIT_ARRAYSZ/ { print $3 }' <<<"$output")" -le 16 ]
}

@test "its thread-local storage is in the initial image" {
    run -0 readelf -rW "$lib"
    [[ $output != *DTPMOD64* && $output != *TLSDESC* ]]
}

# Prints what a program without CUDA opens, connects to and starts.
traced() {
    strace -f -qq -e trace=openat,open,creat,socket,connect,clone,clone3,fork,vfork -o "$1" \
        "${@:2}" /bin/true
    sed -E 's/^[0-9]+ +//; s/ = .*//' "$1" | grep -vF "$lib" || true
}

@test "a program without CUDA opens no file and starts no thread on its account" {
    command -v strace >/dev/null || skip "no strace"
    strace -o /dev/null /bin/true 2>/dev/null || skip "strace may not trace here"
    traced "$BATS_TEST_TMPDIR/bare" env >"$BATS_TEST_TMPDIR/bare.calls"
    traced "$BATS_TEST_TMPDIR/with" env LD_PRELOAD="$lib" >"$BATS_TEST_TMPDIR/with.calls"
    grep -qF "$lib" "$BATS_TEST_TMPDIR/with"
    diff <(sort -u "$BATS_TEST_TMPDIR/bare.calls") <(sort -u "$BATS_TEST_TMPDIR/with.calls")
}

@test "programs without CUDA run under it as without it, and nothing is printed" {
    for program in "bash -c 'echo \$((6 * 7))'" "python3 -c 'import ctypes, threading; print(42)'" \
        "perl -e 'print 6 * 7, qq(\\n)'"; do
        command -v "${program%% *}" >/dev/null || continue
        run -0 --separate-stderr env LD_PRELOAD="$lib" bash -c "$program"
        [ "$output" = 42 ]
        [ -z "$stderr" ]
    done
}

@test "a policy that is named but missing is no matter to a program without CUDA" {
    run -0 --separate-stderr env LD_PRELOAD="$lib" ZC_POLICY=/nonexistent ZC_LOG=/nonexistent/log \
        ZC_STRICT=1 /bin/echo fine
    [ "$output" = fine ]
    [ -z "$stderr" ]
}

@test "a statically linked program ignores it" {
    command -v "${CC:-gcc}" >/dev/null || skip "no compiler"
    echo 'int main(void) { return 0; }' >"$BATS_TEST_TMPDIR/p.c"
    "${CC:-gcc}" -static -o "$BATS_TEST_TMPDIR/static" "$BATS_TEST_TMPDIR/p.c" 2>/dev/null ||
        skip "no static libc"
    run -0 env LD_PRELOAD="$lib" "$BATS_TEST_TMPDIR/static"
    [ -z "$output" ]
}

# Constants that hold addresses are written by the loader alone.
writable() {
    nm -f sysv "$ZC_BUILD/libzc.a" |
        awk -F '|' '$3 ~ /[bBdD]/ && $7 !~ /rel\.ro/ { gsub(/ /, "", $1); print $1 }'
}

@test "modules keep their writable variables together: there are at most 180" {
    grep -q -e -fsanitize -e --coverage "$ZC_BUILD/command" && skip "the compiler adds its own"
    writable | tee /dev/stderr | wc -l | { read -r n && ((n > 100 && n <= 180)); }
}

@test "libzc takes less than 1 KiB of each thread's stack" {
    run -0 readelf -lW "$lib"
    (($(awk '$1 == "TLS" { print $6 }' <<<"$output") < 1024))
}
