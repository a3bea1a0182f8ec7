#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The bench harness on the simulated GPU: its suites run, and a run that fails or gives other
# results fails the bench.

load bench.bash

# A build folder in which vecadd is another program, given on standard input.
other_vecadd() {
    BUILD=$BATS_TEST_TMPDIR/build
    mkdir -p "$BUILD/kernels"
    ln -s "$PWD/$ZC_BUILD/libzc.so" "$PWD/$ZC_BUILD/sim" "$BUILD"
    ln -s "$PWD/$ZC_BUILD/kernels/"*-shared "$BUILD/kernels"
    rm "$BUILD/kernels/vecadd-shared"
    cat >"$BUILD/kernels/vecadd-shared"
    chmod +x "$BUILD/kernels/vecadd-shared"
}

# Fails unless every row of a suite was measured and none of its goals is judged by simulated times.
whole_suite() {
    bench "$1" --rounds 1
    [[ $status -eq 0 ]]
    [[ $output == *"a simulated GPU, whose times mean nothing"* ]]
    [[ $output != *"**no**"* && $output != *": yes"* ]]
    [[ $stderr != *FAILED* ]]
    diff "$BATS_TEST_TMPDIR/out/$1.md" - <<<"$output"
    python3 - "$BATS_TEST_TMPDIR/out/$1.json" <<'PYTHON'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert rows and all(all(row["samples"].values()) for row in rows)
PYTHON
}

@test "the suite of the place shared elides what its presets promise on the simulated GPU" {
    whole_suite shared
    python3 - "$BATS_TEST_TMPDIR/out/shared.json" <<'PYTHON'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
elided = [row["log"]["libzc"]["elided"] / 2**20 for row in rows]
assert elided == [16, 16, 8, 40, 4, 0, 4], elided
PYTHON
}

@test "the suite of programs under the presets of shared finds slow phases on the simulated GPU" {
    whole_suite presets
    [[ $output =~ "Of 1"[0-9]+" phases "[0-9]+" take more than 2.0 times" ]]
    grep -E "^\| vecadd 16777216 \| shared-tables \| [0-9.]+ \| (bare|everyday|pinned|hand) \| " \
        <<<"$output"
    [[ $output == *"everyday / bare, processes of 18 programs: "* ]]
}

@test "the suite of auto learns for each row apart, and its results are those of the bare runs" {
    bench auto --warm 1 --rounds 1 --only vecadd --only transfer
    [[ $status -eq 0 && $output == *"auto / everyday, processes of 2 programs: "* ]]
}

@test "slow copies and kernels of a preset stand beside their sum, and are judged by it, too" {
    run -0 python3 -B -c "
from tests.bench.preset_rows import slow_phases
bound = ('alloc', 2.0, 2.0)
print(slow_phases([bound, ('copy', 0.1, 5.0), ('kernel', 6.0, 0.5)]))
print(slow_phases([bound, ('copy', 9.0, 5.0), ('kernel', 6.0, 0.5)]))
print(slow_phases([('alloc', 9.0, 2.0), ('copy', 5.0, 5.0), ('kernel', 1.0, 0.5)]))"
    [[ ${lines[0]} == "(['kernel 6.00 (0.50)', 'copy + kernel 6.10 (5.50)'], 1, 1)" ]]
    [[ ${lines[1]} == "(['kernel 6.00 (0.50)', 'copy + kernel 15.00 (5.50)'], 1, 0)" ]]
    [[ ${lines[2]} == "(['alloc 9.00 (2.00)'], 1, 0)" ]]
}

@test "the suite of classic experiments runs on the simulated GPU" { whole_suite classic; }

# Starts the classic suite with the given options, and kills it when it has said $1.
killed_when() {
    SIM=1 OUT_DIR=$BATS_TEST_TMPDIR/out tests/bench/run.sh classic --rounds 1 "${@:2}" \
        2>"$BATS_TEST_TMPDIR/err" >/dev/null &
    local bench=$!
    until grep -q "$1" "$BATS_TEST_TMPDIR/err" 2>/dev/null; do
        kill -0 "$bench"
        sleep 0.05
    done
    kill -KILL "$bench"
    wait "$bench" || true
}

@test "a bench that is ended early leaves the rows that it has measured" {
    killed_when "4 KiB: measured"
    grep -q "^| 4 KiB |" "$BATS_TEST_TMPDIR/out/classic.md"
    python3 -m json.tool "$BATS_TEST_TMPDIR/out/classic.json" >/dev/null
}

@test "a bench that is ended within a long row leaves the runs that have ended" {
    killed_when "10000000 targets.*: libzc, [0-9.]* s$" --only "10000000 targets"
    grep -q "^| 10000000 targets.* | process, ms | [0-9.]* | [0-9.]* | " \
        "$BATS_TEST_TMPDIR/out/classic.md"
    python3 -m json.tool "$BATS_TEST_TMPDIR/out/classic.json" >/dev/null
}

@test "wrong results fail the bench, and the other rows are measured all the same" {
    other_vecadd <<<'#!/bin/sh
echo "{\"program\":\"vecadd\",\"checksum\":\"0\",\"verified\":false}"; exit 1'
    bench shared --rounds 1
    [[ $status -eq 1 ]]
    [[ $stderr == *"one pass over 3 x 256 MiB, bare: wrong results"*vecadd-shared* ]]
    [[ $output == *"| graph search"* && $output != *"| one pass"* ]]
}

# The summary of a program that copied nothing.
empty_summary='{"type":"summary","places":[],"flows":[],"moved_by_kind":[],"asked_bytes":0,
"moved_bytes":0,"cpu_copied_bytes":0,"elided_bytes":0}'
empty_summary=${empty_summary//$'\n'/}

@test "results that differ from the bare program's fail the bench" {
    other_vecadd <<SH
#!/bin/sh
echo "{\"program\":\"vecadd\",\"checksum\":\"0\${LD_PRELOAD:+1}\",\"verified\":true}"
echo '$empty_summary' >"\${ZC_LOG:-/dev/null}"
SH
    bench shared --rounds 1 --only 'one pass'
    [[ $status -eq 1 ]]
    [[ $stderr == *"one pass over 3 x 256 MiB, libzc: checksum 01, not 0 as the others"* ]]
}

@test "a limit that keeps a rule from its place fails the bench" {
    other_vecadd <<SH
#!/bin/sh
echo '{"program":"vecadd","checksum":"0","verified":true}'
echo '{"type":"warn","code":"fallback","text":"rule a stays pageable: over max_pinned"}
$empty_summary' >"\${ZC_LOG:-/dev/null}"
SH
    bench shared --rounds 1 --only 'one pass'
    [[ $status -eq 1 ]]
    [[ $stderr == *"one pass over 3 x 256 MiB, libzc: rule a stays pageable: over max_pinned"* ]]
}

@test "a program that cannot run fails the bench with its message" {
    other_vecadd <<<'#!/bin/sh
echo "cudaFree(0): no CUDA-capable device is detected" >&2; exit 3'
    bench shared --rounds 1 --only 'one pass'
    [[ $status -eq 1 ]]
    [[ $stderr == *"exit status 3"*"no CUDA-capable device"* ]]
}

@test "the unmodified programs run under other libraries, and the tables say where one fails" {
    bench shared --rounds 1 --only 'one pass' --also "idle=$LIBZC,ZC_POLICY=off,ZC_LOG=off" \
        --also "failing=$LIBZC,ZC_POLICY=off,ZC_LOG=off,SIM_FAIL=cuMemAlloc_v2:2:1"
    [[ $status -eq 0 ]]
    [[ $output == *"| job | what | bare | libzc | hand | idle | failing |"* ]]
    [[ $output =~ "one pass over 3 x 256 MiB | process, ms |"( [0-9.]+ \|){4}" - |" ]]
    [[ $output == *"failing has no figures of one pass over 3 x 256 MiB: "*"out of memory"* ]]
    bench shared --rounds 1 --also "gone=$BATS_TEST_TMPDIR/gone.so"
    [[ $status -eq 2 && $stderr == *gone.so* ]]
}

@test "what crossed the link is parted into copies and a rest" {
    (cd tests && python3 -B - <<'PYTHON')
from bench.result import Result
from bench.shared_rows import ROWS
from bench.tables import link_table

MIB = 2**20
log = {"asked": 120 * MIB, "moved": 100 * MIB, "cpu_copied": 0, "elided": 20 * MIB,
       "asked_to": 120 * MIB, "asked_from": 0, "moved_to": 100 * MIB, "moved_from": 0,
       "device": 7 * MIB}
result = Result(ROWS[0], {"bare": [], "libzc": [], "hand": []},
                {"bare": [139 * MIB, 30 * MIB], "libzc": [150 * MIB, 30 * MIB],
                 "hand": [60 * MIB, 20 * MIB]}, {"libzc": log}, [10 * MIB, 15 * MIB])
bare, libzc, hand = (line.split(" | ")[1:] for line in link_table([result])[2:])
# 10 MiB are the start's; copies take what the driver moves, in a bare run all that is asked.
assert bare[:7] == ["bare", "139", "129", "-0.360", "30.0", "11.5", "3.54"], bare
assert libzc[:7] == ["libzc", "150", "108", "32.2", "30.0", "9.55", "5.45"], libzc
assert libzc[7:] == ["120", "100", "0", "20.0", "device 7.00 |"], libzc
assert hand[:7] == ["hand", "60.0", "-", "50.0", "20.0", "-", "5.00"], hand
PYTHON
}

@test "a row may say how many rounds it takes at most, and what memory has to be available" {
    (cd tests && python3 -B - <<'PYTHON')
from bench.row import Row, Way
from bench.runner import Runner, Skipped

class Counting(Runner):
    runs = 0

    def run(self, row, way):
        self.runs += 1
        return {"checksum": "0", "x_ms": 1.0}, {}

def measured(simulated, warm, rounds, **limits):
    runner = Counting(".", ".", ".", simulated, False)
    ended = []
    result = runner.measure(Row("", "", "", "", "", (Way("bare", ""),), (), **limits), (), warm,
                            rounds, lambda *run: ended.append(run))
    assert len(ended) == (runner.runs if limits.get("most_rounds") else 0)
    return runner.runs, len(result.samples["bare"])

assert measured(False, 1, 5) == (6, 5)
assert measured(False, 1, 5, most_rounds=2) == (2, 2)
assert measured(False, 1, 1, most_rounds=2) == (1, 1)
assert measured(True, 0, 1, host_gib=1 << 40) == (1, 1)
try:
    measured(False, 0, 1, host_gib=1 << 40)
    raise SystemExit("a row ran without its memory")
except Skipped as why:
    assert "needs 1099511627776 GiB of memory, " in str(why), why
PYTHON
}

@test "unknown suites, rows and rounds are refused with status 2" {
    bench nonsense
    [[ $status -eq 2 && $stderr == *nonsense* ]]
    bench shared --only nonsense
    [[ $status -eq 2 && $stderr == *nonsense* ]]
    bench shared --rounds 0
    [[ $status -eq 2 && $stderr == *rounds* ]]
    bench shared --rounds x
    [[ $status -eq 2 && $stderr == *rounds* ]]
}

@test "after the seconds that are given no row is begun, and no round of the first but one" {
    bench shared --rounds 3 --seconds 0.000001
    [[ $status -eq 0 && $output == *"medians of 1 interleaved runs"* ]]
    [[ $stderr == *"graph search"*"left out"* ]]
}

@test "without a GPU the bench is skipped with status 77" {
    python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null && skip "there is a driver"
    run -77 env ZC_BUILD="$ZC_BUILD" tests/bench/run.sh shared
    [[ $output == *"no GPU answers here"* ]]
}

# A copy of the harness with a page of its own, and a session that counts as measured on a GPU.
kept_tree() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/tests" "$tree/kernels"
    cp -r tests/bench "$tree/tests"
    printf '# Page\n\n<!-- results: begin -->\n<!-- results: end -->\n\nTail.\n' \
        | tee "$tree/README.md" >"$tree/kernels/RESULTS.md"
    bench shared --rounds 2 --only 'one pass'
    [[ $status -eq 0 ]]
    sed 's/"simulated": true/"simulated": false/' "$BATS_TEST_TMPDIR/out/shared.json" \
        >"$BATS_TEST_TMPDIR/first.json"
}

@test "results are kept in a page, and newer ones of a row replace it" {
    kept_tree
    sed 's/20[0-9-]* [0-9:]* UTC/a later day/' "$BATS_TEST_TMPDIR/first.json" \
        >"$BATS_TEST_TMPDIR/second.json"
    "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/first.json"
    grep -q "; medians .*libzc .* on 20.*, 2 runs after 1: 1 rows\.$" "$tree/kernels/RESULTS.md"
    "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/second.json"
    grep -q "a later day" "$tree/kernels/RESULTS.md"
    run -1 grep "libzc .* on 20" "$tree/kernels/RESULTS.md"
    [[ $(grep -c "one pass over 3 x 256 MiB | whole program" "$tree/kernels/RESULTS.md") -eq 1 ]]
    [[ $(head -n 1 "$tree/kernels/RESULTS.md") == "# Page" ]]
    [[ $(tail -n 1 "$tree/kernels/RESULTS.md") == "Tail." ]]
    run -1 grep "| one pass over 3 x 256 MiB | libzc |" "$tree/kernels/RESULTS.md"
    "$tree/tests/bench/run.sh" keep --print | grep -q "| one pass over 3 x 256 MiB | libzc |"
}

@test "what another library gave before stays where a newer run lacks it, with its day" {
    kept_tree
    sed 's/"samples": {"bare": \(\[[^]]*\]\)/"samples": {"other": \1, "bare": \1/
         s/20[0-9-]* [0-9:]* UTC/an earlier day/' "$BATS_TEST_TMPDIR/first.json" \
        >"$BATS_TEST_TMPDIR/earlier.json"
    "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/earlier.json"
    "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/first.json"
    "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/first.json" # Stays what it was.
    grep -q "^| job | what | bare | libzc | hand | other |" "$tree/kernels/RESULTS.md"
    grep -q "^Measured an earlier day, libzc .*: other, one pass over 3 x 256 MiB\.$" \
        "$tree/kernels/RESULTS.md"
}

@test "simulated times and other files are not kept" {
    kept_tree
    run -2 "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/out/shared.json"
    [[ $output == *"mean nothing and are not kept"* ]]
    run -2 "$tree/tests/bench/run.sh" keep "$tree/kernels/RESULTS.md"
    [[ $output == *"not a session of a suite"* ]]
    run -2 "$tree/tests/bench/run.sh" keep "$PWD/kernels/results.jsonl"
    [[ $output == *"not a session of a suite"* ]]
    run -2 "$tree/tests/bench/run.sh" keep "$BATS_TEST_TMPDIR/none.json"
    [[ $output == *"none.json"* ]]
    [[ ! -e $tree/kernels/results.jsonl ]]
}

@test "the kept page and the figures that README quotes are those of the kept results" {
    local kept tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/tests" "$tree/kernels"
    cp -r tests/bench "$tree/tests"
    cp kernels/RESULTS.md kernels/results.jsonl "$tree/kernels"
    cp README.md "$tree"
    run -0 "$tree/tests/bench/run.sh" keep
    diff README.md "$tree/README.md"
    for kept in RESULTS.md results.jsonl pictures/{overview,programs}.svg; do
        diff "kernels/$kept" "$tree/kernels/$kept"
    done
    [[ $(grep -c '^| .*policy/presets' README.md) -ge 5 ]]
    # A newcomer reads figures first, and a picture of them.
    run -0 head -c 1200 README.md
    [[ $output == *" s → "*" % of "*"](kernels/pictures/programs.svg)"* ]]
    [[ $(grep -c '→' kernels/pictures/programs.svg) -ge 15 ]]
    [[ $(wc -l <kernels/RESULTS.md) -lt 300 ]]
}

# Runs overhead.sh, which must end with a status and leave a line that says why, where its table
# goes as well as on standard error: no_table STATUS TEXT
no_table() {
    run "-$1" --separate-stderr timeout 60 env ROUNDS=1 ZC_BUILD="${BUILD:-$ZC_BUILD}" \
        tests/bench/overhead.sh
    [[ $output == *"$2"* && $stderr == *"$2"* ]]
}

@test "the cost of watching is not measured without the simulated driver" {
    BUILD=$BATS_TEST_TMPDIR/build
    mkdir -p "$BUILD/tests"
    ln -s "$LIBZC" "$BUILD"
    ln -s "$PWD/$ZC_BUILD/tests/bench" "$BUILD/tests"
    need_built "$BUILD/tests/bench/sim_overhead"
    no_table 2 "no $BUILD/sim/libcuda.so.1: run 'make bench-overhead'"
}

@test "a table of what watching costs that is not whole says why" {
    need_built "$ZC_BUILD/tests/bench/sim_overhead"
    SIM_FAIL=cuMemAlloc_v2:1:2 no_table 3 "cuMemAlloc returned 1
overhead: ended with status 3 before the table was whole"
}

@test "a table of what watching costs says that a signal ended it" {
    BUILD=$BATS_TEST_TMPDIR/build
    mkdir -p "$BUILD/tests/bench"
    ln -s "$LIBZC" "$SIM" "$BUILD"
    printf '#!/bin/sh\nkill -TERM $PPID\n' >"$BUILD/tests/bench/sim_overhead"
    chmod +x "$BUILD/tests/bench/sim_overhead"
    no_table 143 "ended with status 143 before the table was whole"
}

@test "the bench of places says why it measures nothing" {
    need_built "$ZC_BUILD/tests/preload/programs/managed_speed"
    places() {
        run "-$1" --separate-stderr env LD_LIBRARY_PATH="$SIM" ZC_BUILD="${BUILD:-$ZC_BUILD}" \
            tests/bench/places.py "${@:3}"
        [[ $output == *"places: $2"* && $stderr == *"places: $2"* ]]
    }
    places 2 "no row contains 'nonsense'" managed 1 nonsense
    places 2 "not a number of rounds: '0'" managed 0
    places 2 "not a number of rounds: 'x'" vmm x
    places 77 "$PWD/$ZC_BUILD/tests/preload/programs/managed_speed fresh 256: exit status" \
        managed 1 untouched
    BUILD=$BATS_TEST_TMPDIR places 2 "[Errno 2]" managed 1 untouched
}
