#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc demo: one program bare, watched and under two policies, on the simulated GPU.

load programs

setup() {
    need_python
    need_built "$LIBZC" "$PWD/$ZC_BUILD/demo/gather"
    export ZC_BUILD
    TOP=$PWD
}

# Runs the demo of this tree in the test's folder, away from the simulated GPU of other tests.
demo() {
    cd "$BATS_TEST_TMPDIR"
    env -u LD_LIBRARY_PATH -u SIM_KERNELS "$TOP/scripts/zc" demo "$@"
}

@test "the demo shows in one screen what two policies spare an unmodified program" {
    run -0 demo --simulated
    [[ ${lines[0]} == *"simulated GPU"* && ${lines[1]} == *"Times are simulated"* ]]
    [[ $output == *"zc run ./gather 262144"*" are copies: 259 MiB in 3 copies."* ]]
    [[ $output == *"of simulated time"*"zc run --compare @everyday ./gather 262144"* ]]
    [[ $output == *Asked*Moved*"CPU copied"*Elided*"Simulated: copy to result"* ]]
    [ "$(grep -cE '^(bare|watched|pinned|shared) ' <<<"$output")" -eq 4 ]
    grep -qE '^watched +259 MiB +259 MiB +0 B +0 B ' <<<"$output"
    grep -qE '^shared +259 MiB +2.6 MiB +0 B +256 MiB ' <<<"$output"
    [[ $output == *"All four printed the same results"*"zc-demo/page.html: "*" KiB"* ]]
    [[ $output == *"on a machine with a GPU"*"zc run ./app"*"cd zc-demo; "* ]]
    ((${#lines[@]} < 24))
    grep -q "Simulated GPU" "$BATS_TEST_TMPDIR/zc-demo/page.html"
}

@test "what the demo says to do next without a GPU works as written, and after a second demo" {
    demo --simulated >/dev/null
    run -0 demo --simulated
    next=$(sed -n 's/^  \(cd zc-demo;.*\)/\1/p' <<<"$output")
    [[ -n $next ]]
    cd "$BATS_TEST_TMPDIR"
    PATH=$TOP/scripts:$PATH run -0 bash -c "$next"
    [[ $output == *"259 MiB in 3 copies"*"Simulated GPU"* ]]
    [[ $(ls zc-demo/*.jsonl) == *pinned*shared*watched.jsonl ]]
}

@test "the demo runs in a folder whose name LD_PRELOAD can't hold" {
    run -0 demo --simulated -o "my: lib zc"
    grep -qE '^pinned +259 MiB' <<<"$output"
}

@test "the demo tells on a GPU what it is measured to take there, as the README has it" {
    row=$(grep -F 'reads 1 % of the rows of a 1 GiB table: copy, kernel, result' README.md)
    PYTHONPATH=scripts run -0 python3 -c '
from zclib.commands import demo
print("| {} | {} |".format(*demo.MEASURED))'
    [[ $row == *"$output"* ]]
}

# A build folder with a program of the demo's that does what the test wants.
stand_in() {
    mkdir -p "$BATS_TEST_TMPDIR/b/demo"
    printf '#!/bin/sh\n%s\n' "$1" >"$BATS_TEST_TMPDIR/b/demo/gather"
    chmod +x "$BATS_TEST_TMPDIR/b/demo/gather"
    ln -sf "$SIM/../demo/libcuda.so.1" "$BATS_TEST_TMPDIR/b/demo"
    ln -sf "$LIBZC" "$BATS_TEST_TMPDIR/b"
    export ZC_BUILD=$BATS_TEST_TMPDIR/b
}

@test "the demo says so where its program fails, or where its result can't be read" {
    for line in '{"verified":true}' killed ''; do
        stand_in "echo '$line'"
        run -1 demo --simulated
        [[ $output == *"zc: the last line of the demo's program is no JSON object"* ]]
    done
    stand_in "exit 3"
    run -1 demo --simulated
    [[ $output == *"zc: the demo's program failed in the run 'bare', exit status 3"* ]]
}

@test "the demo does not end well where a run was not watched, or the results differ" {
    local real=$TOP/$ZC_BUILD/demo/gather
    stand_in 'echo "{\"checksum\":1,\"copy_ms\":1,\"kernel_ms\":1,\"result_ms\":1}"'
    run -1 demo --simulated
    [[ $output == *"zc: libzc left no log of the demo's run 'watched'"* ]]
    stand_in "$real 65536 1024 1 \$\$"
    run -1 demo --simulated
    [[ $output == *"zc: the results differ" ]]
}

@test "the demo names what is missing, and the option for another folder" {
    mkdir "$BATS_TEST_TMPDIR/empty"
    cp -r scripts "$BATS_TEST_TMPDIR/empty"
    run -1 "$BATS_TEST_TMPDIR/empty/scripts/zc" demo
    [[ $output == *"the demo's program is not in "*"packages bring it"*"make demo"* ]]
    : >"$BATS_TEST_TMPDIR/file"
    mkdir -m 777 "$BATS_TEST_TMPDIR/open"
    run -1 demo --simulated -o open
    [[ $output == *"zc: open: others may write there"* ]]
    run -1 demo --simulated -o file
    [[ $output == *"zc: file: no folder for the demo, name one by -o: "* ]]
}
