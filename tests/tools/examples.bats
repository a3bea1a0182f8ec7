#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The code blocks of README.md and docs/ can be pasted: each is run, or parsed.

load programs

setup() {
    need_gpu_programs
    need_built "$SIM/libcudart.so.13" "$SIM_KERNELS"
    command -v jq >/dev/null || skip "no jq"
}

# Runs the blocks of a page.
examples() {
    run -0 python3 tests/tools/examples.py "$1" "$BATS_TEST_TMPDIR/${1//\//-}"
}

@test "the blocks of README.md do what they say" {
    examples README.md
}

@test "the blocks of the tour do what they say" {
    examples docs/tour.md
}

@test "the blocks of the other pages do what they say" {
    for page in docs/*.md docs/*/*.md; do
        [[ $page == docs/tour.md ]] || examples "$page"
    done
}

@test "hardly a block is left out" {
    run -0 python3 tests/tools/examples.py --skipped README.md docs/*.md docs/*/*.md
    [[ ${#lines[@]} -le 2 ]]
}

@test "a block that fails, is faulty or prints something else is reported" {
    page=$BATS_TEST_TMPDIR/page.md
    report() {
        printf '%s\n' "$@" >"$page"
        rm -rf "$BATS_TEST_TMPDIR/page.md.d"
        run -1 python3 tests/tools/examples.py "$page" "$BATS_TEST_TMPDIR/page.md.d"
    }
    report '```sh' 'zc frobnicate' '```'
    [[ $output == *"page.md:1: failed"* ]]
    report '```sh' 'echo 64 MiB in 3 ms' '```' '' '```text' '65 MiB in 4 ms' '```'
    [[ $output == *"page.md:5: the block before printed:"* ]]
    report '```conf' '[rule a]' 'plcae = mapped' '```'
    [[ $output == *"page.md:1: failed"*"unknown key 'plcae'"* ]]
    report '```c' 'cudaFree(d, 1);' '```'
    [[ $output == *"page.md:1: "*"too many arguments"* ]]
    report '```' 'what is this' '```'
    [[ $output == *"page.md:1: what is a block of"* ]]
    printf '%s\n' '```sh' 'echo 64 MiB in 3 ms, and more' '```' '```text' '64 MiB in 4 us...' \
        '```' >"$page"
    run -0 python3 tests/tools/examples.py "$page" "$BATS_TEST_TMPDIR/right"
}

@test "no more than 100 words of README stand before a newcomer's first command" {
    run -0 python3 -B -c 'import sys; sys.path.insert(0, "tests")
from bench.starts import STARTS, words_before
print(*(words_before(start.found) for start in STARTS if not start.needs))'
    for words in $output; do ((words <= 100)); done
    [[ $(wc -w <<<"$output") == 3 ]]
}
