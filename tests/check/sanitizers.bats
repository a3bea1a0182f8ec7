#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The library's own code under the compiler's sanitizers, in build folders of its own.

bats_require_minimum_version 1.5.0

setup() {
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    export ZC_STRESS_SECONDS=1
    export ZC_MODEL_STEPS=5000 # A seed; those of the plain build take ten times as long here.
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
    make -s -j"$(nproc)" SAN="$1" "${programs[@]}"
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
