#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc tune against every combination of places, on the simulated GPU, and what is kept of that.

load bench.bash

@test "zc tune is held against every combination of places" {
    bench tune --rounds 3 --only "vectors of 64"
    [[ $status -eq 0 ]]
    python3 - "$BATS_TEST_TMPDIR/out/tune.jsonl" <<'PYTHON'
import json, sys
row, = map(json.loads, open(sys.argv[1]))
places = [part[:2] for part in row["places"]]
host = ["device", "pinned"], ["mapped", "managed"]
# Kernels that read all of their inputs get these in device memory, also under `shared`.
assert places == [[[*host[0], "shared read", *host[1]], "pinned"],
                  [[*host[0], *host[1]], "pinned"]], places
# Each place alone, and together those that are not slow alone: none, on a busy machine.
assert row["combinations"] >= 10 and not row["wrong"] and len(row["times_ms"]["tuned"]) == 3, row
assert row["tuned"] == "pinned, pinned", row["tuned"]
assert [rule["what"] for rule in row["rules"] if rule["kept"]] == [
    "malloc's blocks of 4 MiB and more are pinned"], row["rules"]
PYTHON
    run -2 tests/bench/run.sh keep-tune "$BATS_TEST_TMPDIR/out/tune.jsonl"
    [[ $output == "bench: times of a simulated GPU mean nothing and are not kept" ]]
    # The page has what is kept.
    cd tests
    run -0 python3 -B - <<'PYTHON'
import json
from bench import tuned_page
with open(tuned_page.DATA) as data, open(tuned_page.PAGE) as page:
    assert tuned_page.page(list(map(json.loads, data))) in page.read()
# A gain that is predicted is held against what was gained, and that against the runs after it.
rule = {"kept": True, "kind": "pinned", "ratio": [0.8, 0.7, 0.9], "gained_ms": 22,
        "predicted_ms": 20}
row = {"times_ms": {"bare": [98, 100, 101], "tuned": [79, 81, 80]}, "tune_s": 1}
assert tuned_page.Line({**row, "rules": [rule]}).again() == (22, 20)
assert tuned_page.Line({**row, "rules": [rule, rule]}).again() is None
assert tuned_page.Line({**row, "rules": [{**rule, "kind": "shared"}]}).again() is None
PYTHON
}

@test "programs that zc tune was held on at several times are kept together" {
    local tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/kernels"
    cp -r tests scripts "$tree"
    cp kernels/RESULTS.md "$tree/kernels"
    head -n 2 kernels/tuned.jsonl >"$tree/kernels/tuned.jsonl"
    tail -n 1 "$tree/kernels/tuned.jsonl" >"$BATS_TEST_TMPDIR/again.jsonl"
    sed 's/"name": "[^"]*"/"name": "memory of pools"/' "$BATS_TEST_TMPDIR/again.jsonl" \
        >"$BATS_TEST_TMPDIR/further.jsonl"
    sed -i 's/ libzc [^;]*;/ libzc 1234567;/' "$BATS_TEST_TMPDIR/"{again,further}.jsonl
    run -0 "$tree/tests/bench/run.sh" keep-tune "$BATS_TEST_TMPDIR/"{again,further}.jsonl
    [[ $(sed 's/.*"machine": "[^"]* libzc \([^;]*\);.*/\1/' "$tree/kernels/tuned.jsonl") == \
        "$(sed -n '1s/.*"machine": "[^"]* libzc \([^;]*\);.*/\1/p' kernels/tuned.jsonl)
1234567
1234567" ]]
    # A machine is named once, with all versions that were measured on it.
    machines=$(sed -n '/tuned: begin/,/tuned: end/p' "$tree/kernels/RESULTS.md" | grep '^- NVIDIA')
    [[ $(wc -l <<<"$machines") -eq 1 ]]
    grep ' libzc [^,]*, 1234567\.$' <<<"$machines"
    grep -q '^- 3 programs, ' "$tree/kernels/RESULTS.md"
    run -1 grep '^Not measured: .*memory of pools' "$tree/kernels/RESULTS.md"
}

@test "a search over places that a signal ends keeps the programs before, and can go on" {
    local bench out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err
    SIM=1 OUT_DIR=$out tests/bench/run.sh tune --rounds 3 --only saxpy >/dev/null 2>"$err" &
    bench=$!
    until grep -q "^saxpy by the driver's API: begun$" "$err"; do
        kill -0 "$bench"
        sleep 0.05
    done
    kill "$bench"
    status=0
    wait "$bench" || status=$?
    [[ $status -eq 143 ]]
    grep -qx "signal 15: go on by --from 'saxpy by the driver's API'" "$err"
    [[ $(wc -l <"$out/tune.jsonl") -eq 1 ]]
    bench tune --rounds 3 --from 'memory of pools'
    [[ $status -eq 0 ]] # The last program has no kernels for the simulated GPU.
    [[ $(wc -l <"$out/tune.jsonl") -eq 2 ]]
    bench tune --rounds 3 --from 'a captured graph' --seconds 0.1
    [[ $status -eq 0 && $stderr == *"the time is up: go on by --from 'memory of pools'"* ]]
}

@test "combinations of places are run in the order of what their places take alone" {
    (cd tests && python3 -B - <<'PYTHON'
from bench.tuned import MOST, Combination, Part, promising

places = ["device", "pinned", "shared read", "mapped", "managed"]
parts = [Part([str(at)], [], places, at == 0) for at in range(4)]
nothing = ("device",) * 4
alone = {Combination(nothing, False): 100.0, Combination(nothing, True): 90.0}
for at in range(4):
    for place, time in zip(places[1:], (80, 85, 130, 170)):
        alone[Combination((*nothing[:at], place, *nothing[at + 1:]), False)] = time
found = promising(parts, alone)
assert len(found) == len(set(found)) == MOST and not set(found) & set(alone)
assert found[0] == Combination(("pinned",) * 4, False)
assert all(set(one.places) <= {"device", "pinned", "shared read"} for one in found), found
# A part with no place left makes no other combination.
assert Combination.of(parts, ("pinned", *nothing[1:]), True) == Combination.of(
    parts, ("pinned", *nothing[1:]), False)
assert Combination.of(parts, nothing, True).parallel
PYTHON
)
}
