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

# helgrind knows nothing of atomics but what tests/stress/helgrind.h tells it.
@test "stress tests show helgrind no data race" {
    command -v valgrind >/dev/null || skip "no valgrind"
    folder=build/helgrind
    for source in tests/stress/*.c; do
        program=$folder/${source%.c}
        make -s B="$folder" CFLAGS="-O1 -g -include $PWD/tests/stress/helgrind.h" "$program"
        run -0 timeout 100 valgrind --tool=helgrind --error-exitcode=9 "$program"
        [[ $output == *"ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)"* ]]
    done
}
