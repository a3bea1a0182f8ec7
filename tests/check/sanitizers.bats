#!/usr/bin/env bats
# The library's own code under the compiler's sanitizers, in build folders of its own.

bats_require_minimum_version 1.5.0

setup() {
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    export ZC_STRESS_SECONDS=1
}

# Skips the test where the compiler has no runtime for a sanitizer.
need_sanitizer() {
    echo 'int main(void) { return 0; }' >"$BATS_TEST_TMPDIR/p.c"
    "${CC:-gcc}" -fsanitize="$1" -o "$BATS_TEST_TMPDIR/p" "$BATS_TEST_TMPDIR/p.c" &&
        "$BATS_TEST_TMPDIR/p" || skip "no -fsanitize=$1 here"
}

# Builds the programs of the given kinds with a sanitizer and runs them.  $1 sanitizer, $2... kinds
check_with() {
    local folder=build/san-$1 kind source
    local -a programs=()
    for kind in "${@:2}"; do
        for source in tests/"$kind"/*.c; do
            [[ $source != tests/unit/sim_* && $source != tests/unit/runtime_* ]] || continue
            programs+=("$folder/${source%.c}")
        done
    done
    make -s SAN="$1" "${programs[@]}"
    ZC_BUILD=$folder tests/run.sh "${programs[@]}"
}

@test "unit and stress tests show no bad access, leak or undefined behaviour" {
    need_sanitizer address,undefined
    UBSAN_OPTIONS=halt_on_error=1 check_with address,undefined unit stress
}

@test "stress tests show no data race" {
    need_sanitizer thread
    TSAN_OPTIONS=halt_on_error=1 check_with thread stress
}

# Builds for helgrind, which knows nothing of atomics but what tests/stress/helgrind.h tells it.
make_for_helgrind() {
    command -v valgrind >/dev/null || skip "no valgrind"
    make -s B=build/helgrind CFLAGS="-O1 -g -include $PWD/tests/stress/helgrind.h" \
        "${@/#/build/helgrind/}"
}

# Runs a program under helgrind.  No thread may end before the last one began, because helgrind does
# not see how glibc uses a stack again (Valgrind manual, "no-nptl-pthread-stackcache").
# $1 library to preload or nothing, $2... options and program
helgrind() {
    run -0 env LD_PRELOAD="$1" timeout 100 valgrind --tool=helgrind --fair-sched=yes \
        --error-exitcode=9 --suppressions=tests/stress/helgrind.supp "${@:2}"
    [[ $output == *"ERROR SUMMARY: 0 errors from 0 contexts"* ]]
}

# The ledger's stress test is not for valgrind: its signals come faster than handlers run there.
@test "the host heap's stress test shows helgrind no data race" {
    make_for_helgrind tests/stress/host_threads
    helgrind "" build/helgrind/tests/stress/host_threads
}

# With its own malloc out of the way, valgrind sees the preloaded library's.
@test "sixteen threads, all of the malloc family and forks show helgrind no data race" {
    program=tests/preload/programs/host_stress
    make_for_helgrind libzc.so "$program"
    printf '[rule all]\napi = malloc, calloc, realloc, reallocarray, aligned_alloc, %s\n%s\n' \
        'posix_memalign, memalign, valloc, pvalloc' 'place = pinned' >"$BATS_TEST_TMPDIR/all.conf"
    export ZC_POLICY=$BATS_TEST_TMPDIR/all.conf ZC_LOG=off
    helgrind "$PWD/build/helgrind/libzc.so" --soname-synonyms=somalloc=nouserintercepts \
        "build/helgrind/$program" 150
}
