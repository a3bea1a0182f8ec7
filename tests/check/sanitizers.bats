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

@test "stress tests show helgrind no data race" {
    for source in tests/stress/*.c; do
        make_for_helgrind "${source%.c}"
        run -0 timeout 100 valgrind --tool=helgrind --fair-sched=yes --error-exitcode=9 \
            "build/helgrind/${source%.c}"
        [[ $output == *"ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)"* ]]
    done
}

# With its own malloc out of the way, valgrind sees the preloaded library's.
@test "sixteen threads, all of the malloc family and forks show helgrind no data race" {
    program=tests/preload/programs/host_stress
    make_for_helgrind libzc.so "$program"
    printf '[rule all]\napi = malloc, calloc, realloc, reallocarray, aligned_alloc, %s\n%s\n' \
        'posix_memalign, memalign, valloc, pvalloc' 'place = pinned' >"$BATS_TEST_TMPDIR/all.conf"
    export ZC_POLICY=$BATS_TEST_TMPDIR/all.conf ZC_LOG=off
    run -0 env LD_PRELOAD="$PWD/build/helgrind/libzc.so" timeout 100 valgrind --tool=helgrind \
        --fair-sched=yes --error-exitcode=9 --soname-synonyms=somalloc=nouserintercepts \
        "build/helgrind/$program" 150
    [[ $output == *"ERROR SUMMARY: 0 errors from 0 contexts"* ]]
}
