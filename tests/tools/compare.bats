#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc run --compare: bare and under several policies, side by side.

load programs

setup() {
    need_gpu_programs
    PRESETS=$PWD/policy/presets
    export TREE=$PWD
    GOLDEN=$PWD/tests/tools/golden
    cd "$BATS_TEST_TMPDIR"
    # Prints what is the same each time, so that runs can be compared.
    printf '#!/bin/sh\n"%s" | grep -o "checksum[^,]*"\n' "$GATHER" >program
    chmod +x program
}

# Times and the peak that hangs on them, and shares of times, out of the way.
masked() {
    sed -E 's/[0-9.]+ (ns|us|ms|s)\b/T/g; s/[0-9.]+ %/N %/g; s/ +/ /g'
}

@test "a program is run bare and under each policy, and all is put side by side" {
    run -0 --separate-stderr "$ZC" run -c "$PRESETS/read-mostly-table.conf,off" -- ./program
    [[ -z $stderr ]]
    masked <<<"$output" >out
    if [[ -n ${ZC_WRITE_GOLDEN:-} ]]; then
        cp out "$GOLDEN/compare.txt"
    fi
    diff "$GOLDEN/compare.txt" out
}

@test "with -o each run keeps its output and its logs" {
    run -0 "$ZC" run -r 2 -o kept -c @read-mostly-table -- ./program
    [[ $(ls kept) == bare$'\n'read-mostly-table ]]
    [[ $(echo $(ls kept/bare)) == \
        "stderr stderr.2 stderr.warm-up stdout stdout.2 stdout.warm-up" ]]
    cmp kept/bare/stdout kept/read-mostly-table/stdout.2
    [[ $(ls kept/read-mostly-table/*.jsonl | wc -l) == 2 ]]
}

@test "output that differs from the bare run's is told, and may be ignored" {
    run -0 "$ZC" run -r 1 -c off -- sh -c 'echo "$LD_PRELOAD"'
    [[ ${lines[2]} == watched*differs ]]
    [[ ${lines[3]} == "Not all runs printed the same ('$LIBZC' instead of ''): with -o DIR "* ]]
    run -0 "$ZC" run -r 1 -o kept -c off -- sh -c 'echo "$LD_PRELOAD"'
    [[ ${lines[3]} == "Not all runs printed the same ("*"): diff "*/bare/stdout\ *watched/stdout ]]
    run -1 eval "${lines[3]##*: }"
    run -0 "$ZC" run -r 1 -c off --ignore '/.*libzc\.so$' -- sh -c 'echo "$LD_PRELOAD"; echo a'
    [[ ${lines[2]} == watched*same && ${lines[3]} == "All runs printed the same." ]]
    run -125 "$ZC" run -c off --ignore '(' -- touch ran
    [[ $output == "zc: --ignore: '(' is no pattern: "* && ! -e ran ]]
}

@test "runs that print nothing are not told to have printed the same" {
    run -0 "$ZC" run -r 1 -c off -- true
    [[ ${lines[3]} == "The runs printed nothing, so this can't tell whether the policies keep "* ]]
    run -0 "$ZC" run -r 1 -c off --ignore '.*' -- echo "$LIBZC"
    [[ ${lines[3]} == "The runs printed nothing but what --ignore names, so this can't tell "* ]]
}

@test "bare runs that differ from each other are told as that" {
    run -0 "$ZC" run -r 1 -c off -- sh -c 'printf "\033a"; echo $$'
    [[ ${lines[3]} == "The bare runs already print different things ('\\x1b"*"' instead of '\\x1b"*\
"'), so this can't tell"*"--ignore REGEX" ]]
}

@test "numbers that differ between bare runs are not compared, and all else is" {
    # A loss and a rate, which differ each time, and a result, which is other under libzc if asked.
    printf '#!/bin/sh\n%s\n' \
        'for epoch in 1 2; do echo "epoch $epoch loss 0.$$ 3.$(date +%N)it/s"; done' \
        'echo "sum ${LD_PRELOAD:+$1}7"; echo "epoch 9 done"' >noisy
    chmod +x noisy
    run -0 "$ZC" run -r 2 -c off -- ./noisy
    echo "$output"
    [[ ${lines[2]} == watched*same ]]
    [[ ${lines[3]} == "All runs printed the same, but for 2 numbers of lines such as 'epoch N "* ]]
    [[ ${lines[*]:3} == *"which differ between bare runs, too (--strict compares them)."* ]]
    run -0 "$ZC" run -r 2 -c off -- ./noisy 1
    [[ ${lines[2]} == watched*differs && $output == *"'sum 17' instead of 'sum 7'"* ]]
    run -0 "$ZC" run -r 2 --strict -c off -- ./noisy
    [[ $output == *"The bare runs already print different things ('epoch 1 loss"* ]]
    # Other words, or another number of lines, are no numbers.
    run -0 "$ZC" run -r 2 -c off -- sh -c 'echo "sum a$$"'
    [[ $output == *"The bare runs already print different things ('sum a"* ]]
    run -125 "$ZC" run --strict -- true
    [[ $output == *"--strict goes with --compare"* ]]
}

@test "lines that bare runs print in any order, as ranks do, are the same in any order" {
    printf '#!/bin/sh\n%s\n' 'if rm turn; then echo b; echo a; else >turn; echo a; echo b; fi' \
        'echo "${LD_PRELOAD:+$1}"' >turns
    chmod +x turns
    run -0 "$ZC" run -r 2 -c off -- ./turns
    [[ ${lines[3]} == "All runs printed the same." ]]
    run -0 "$ZC" run -r 2 -c off -- ./turns other
    [[ ${lines[1]} != *differs && ${lines[2]} == watched*differs ]]
}

@test "runs go on until the interval is tight, and noise names no winner" {
    run -0 python3 -B - <<'PYTHON'
import itertools, os, random, sys
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from types import SimpleNamespace as Some
from zclib import compare, race, spread
from zclib.trial import Plan

class Trials:
    """Stands in for programs: a time of each plan, with noise."""
    def __init__(self, times, noise, simulated=False):
        self.times, self.noise, self.simulated = times, noise, simulated
        self.dice, self.order = random.Random(2), []
    def run(self, plan, number, limit_s):
        self.order.append(plan.name)
        wall = self.times[plan.name] * self.dice.uniform(1 - self.noise, 1 + self.noise)
        return Some(ended=Some(wall_ns=int(wall), passed_on=0), status=0,
                    totals=Some(simulated=self.simulated))

def go(times, noise, rounds=None, simulated=False):
    trials = Trials(times, noise, simulated)
    contest = race.Race(trials, [Plan(name, None) for name in times], race.Limits(rounds),
                        once=lambda contest: contest.simulated)
    assert contest.go(lambda number, plan: None, lambda arm: True)
    return contest, trials.order

contest, order = go({"bare": 1e9, "p": 1.001e9}, 0.002)
assert order == ["bare", "p", "p", "bare"] * 2 + ["bare", "p"], order
contest, order = go({"bare": 1e9, "p": 0.5e9}, 0.05)    # A clear win needs no tight interval.
ratio = contest.ratio(contest.arms[1])
assert len(order) == 10 and ratio.differs and 0.45 < ratio.low < ratio.value < ratio.high < 0.55
contest, order = go({"bare": 1e9, "p": 1e9}, 0.3)       # Noise is not decided by more of it.
assert len(order) == 2 * race.MOST_ROUNDS
assert "no significant difference" in compare._faster("p", 30, contest.ratio(contest.arms[1]))
assert len(go({"bare": 1e9, "p": 1e9}, 0.3, rounds=2)[1]) == 4
assert len(go({"bare": 1e9, "p": 1e9}, 0.3, simulated=True)[1]) == 2
# Of many comparisons of one thing with itself few find a difference.
dice = random.Random(3)
found = sum(spread.ratio(*[[dice.gauss(100, 5) for _ in range(8)] for _ in "ab"]).differs
            for _ in range(200))
assert found <= 20, found
assert spread.ratio([1, 2], [1, 2]).differs is False
PYTHON
}

@test "bare is without libzc, though LD_PRELOAD names it already" {
    LD_PRELOAD=$LIBZC run -0 "$ZC" run -r 1 -o kept -c off -- sh -c 'echo "$LD_PRELOAD"'
    [[ -z $(<kept/bare/stdout) && $(<kept/watched/stdout) == "$LIBZC" ]]
}

@test "what many runs print alike takes room once" {
    mkdir tmp
    TMPDIR=$PWD/tmp run -0 "$ZC" run -r 3 -c off -- \
        sh -c 'head -c 4194304 /dev/zero; sync tmp; du -sk tmp >>sizes'
    [[ $output == *"All runs printed the same."* ]]
    [[ $(sort -n sizes | tail -n 1 | cut -f 1) -lt 10000 ]]
    [[ -z $(ls tmp) ]]
}

@test "times are exported in hyperfine's form" {
    run -0 "$ZC" run -r 3 -c off --export-json out.json --export-markdown out.md -- sh -c 'exit 0'
    run -0 python3 - <<'PYTHON'
import json, re
whole = json.load(open("out.json"))
for result, name in zip(whole["results"], ("bare", "watched")):
    assert result["command"] == name and len(result["times"]) == 3 == len(result["exit_codes"])
    assert result["min"] <= result["median"] <= result["max"] and result["stddev"] >= 0
    assert result["min"] <= result["mean"] <= result["max"]
    assert result["user"] >= 0 <= result["system"]
assert set(whole["zc_compare"]["ratios"]["watched"]) == {"of_bare", "low", "high"}
lines = open("out.md").read().splitlines()
heading = r"\| Command \| Mean \[ms\] \| Min \[ms\] \| Max \[ms\] \| Relative \|"
assert re.fullmatch(heading, lines[2])
number, spread = r"[\d.]+", r"[\d.]+ ± [\d.]+"
row = rf"\| `watched` \| {spread} \| {number} \| {number} \| {spread} \|"
assert re.fullmatch(row, lines[5]), lines
PYTHON
    run -0 "$ZC" run -r 1 -c off --export-json a.json --export-markdown a.md -- true $'a\xff'
    [[ $(head -n 1 a.md) == "\`true 'a"$'\xff'"'\`" ]]
    # No name ends a cell of the table, or its own code.
    cp "$PRESETS/watch-only.conf" 'a|`b.conf'
    run -0 "$ZC" run -r 1 -c 'a|`b.conf' --export-markdown a.md -- printf '`|`'
    [[ $(head -n 1 a.md) == "\`\` printf '\`|\`' \`\`" ]]
    [[ $(tail -n 1 a.md) == "| \`\` a\\|\`b \`\` | "* ]]
    run -125 "$ZC" run -c off --export-json nowhere/out.json -- touch ran
    [[ ! -e ran ]]
}

@test "the faults of the policies are told before the runs" {
    printf '[rule a]\nplcae = mapped\n' >faulty.conf
    run -0 --separate-stderr "$ZC" run -c "faulty.conf,$PRESETS/watch-only.conf" -- ./program
    [[ $stderr == "zc: "*"/faulty.conf:2:1: unknown key 'plcae' (nearest: place)" ]]
}

@test "a run that fails has its status and its last words told" {
    run -3 "$ZC" run -r 1 -c off -- sh -c 'echo broken >&2; exit 3'
    [[ $output == *"zc: run 'bare' ended with status 3"* && $output == *"  broken"* ]]
    [[ ${lines[-1]} == "Not all runs ended with status 0." ]]
    # Only the end of what it said is read.
    ulimit -v 4000000
    run -3 "$ZC" run -r 1 -c off -- sh -c 'printf "1\n2\n3\n4\n5\nbroken\n" |
        dd of=/dev/fd/2 oflag=seek_bytes seek=6G status=none; exit 3'
    [[ $output == *$'messages:\n  2\n  3\n  4\n  5\n  broken\n'* ]]
}

@test "policies of one file name are told apart" {
    mkdir a b
    echo >a/p.conf
    echo >b/p.conf
    run -0 "$ZC" run -r 1 -o kept -c a/p.conf,b/p.conf -- true
    [[ $(ls kept) == bare$'\n'p$'\n'p-2 ]]
}

@test "a policy that is not there is told before anything runs" {
    run -125 "$ZC" run -c off,missing.conf -- touch ran
    [[ $output == "zc: missing.conf: there is no such policy" && ! -e ran ]]
    run -125 "$ZC" run -c off -p "$PRESETS/watch-only.conf" -- touch ran
    [[ ! -e ran ]]
}

@test "no policy to compare is a mistake of the command line" {
    for none in '' ,; do
        run -125 "$ZC" run -c "$none" -- touch ran
        [[ $output == *"--compare takes policies"* && ! -e ran ]]
    done
}

@test "a signal ends the comparison after the run that it ended" {
    "$ZC" run -o kept -c off -- sh -c ': >ready; exec sleep 60' >out &
    until [[ -e ready ]]; do sleep 0.05; done
    kill -TERM $!
    wait $! || status=$?
    [[ $status == 143 && $(ls kept) == bare ]]
}

@test "progress is shown on a terminal's stderr alone" {
    run -0 "$ZC" run -r 1 -c off -- true
    [[ $output != *"["* ]]
    run -0 script -qec "TERM=xterm $ZC run -r 1 -c off -- true" /dev/null
    [[ $output == *"watched ["* ]]
    run -1 script -qec "TERM=xterm $ZC tune -o $BATS_TEST_TMPDIR/new true" /dev/null
    [[ $output == *"without libzc, to warm up"* && $output != *"["[\ #]* ]]  # No end is known.
    run -0 script -qec "TERM=dumb $ZC run -r 1 -c off -- true" /dev/null
    [[ $output != *"["* ]]
}

@test "Ctrl-C ends the runs, and what was measured by then is put side by side" {
    # The run of that number waits for the signal; it does not count.
    cat >counted <<'END'
#!/bin/sh
echo run >>runs
[ "$(wc -l <runs)" -lt "$LAST" ] || { kill -INT "$PPID"; exec sleep 60; }
echo same
END
    chmod +x counted
    LAST=5 run -130 "$ZC" run -c off,@everyday ./counted
    [[ ${lines[1]} == bare*" 0 "*" 1 "* && ${lines[2]} == watched*" 0 "*" 1 "* ]]
    [[ ${lines[3]} == everyday*" 0 "*" 1 "*same ]]
    [[ $output == *"Stopped by signal 2: this is what was known by then."* ]]
    [[ $output == *"All runs printed the same."* && $(wc -l <runs) == 5 ]]
    rm runs
    LAST=3 run -130 "$ZC" run -c off,@everyday ./counted
    [[ ${lines[1]} == bare*" 0 "* && $output != *watched* && $output == *"Stopped by signal 2"* ]]
    [[ $output == *"There was one run at most, so no results were compared."* ]]
    rm runs
    LAST=1 run -130 "$ZC" run -c off ./counted
    [[ ${lines[1]} == bare*130* && $output == *"Stopped by signal 2"* ]]
}

@test "how long all runs will take is told after the first one, and on the line of progress" {
    printf '#!/bin/sh\necho same\n' >quick
    chmod +x quick
    for command in 'run -r 2 -c off' 'tune -o new.conf'; do
        TERM=xterm python3 - "$ZC" $command -- ./quick <<'PYTHON' >told
import os, pty, sys
pid, screen = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while part := os.read(screen, 4096):
        os.write(1, part)
except OSError:
    pass
os.waitpid(pid, 0)
PYTHON
        grep -q 'zc: one run takes 1 s, all of them ' told
        grep -qE '(round 1: bare \[ *\] +0 %|without libzc), about [0-9]+ s left' told
        grep -q 'Ctrl-C' told
    done
    PYTHONPATH=$TREE/scripts run -0 python3 -c '
from zclib import compare, race, units
for limits, run_s in ((race.Limits(), 600), (race.Limits(), 2), (race.Limits(1), 90),
                      (race.Limits(seconds=10), 1)):
    print(compare.promise(limits, 2, run_s).replace("; Ctrl-C shows what is known by then", "."))
print(*map(units.about, (0, 40, 99, 240, 5999, 7200)), sep=", ")'
    [[ $output == 'one run takes 10 min, all of them 60 min (--runs 1: 20 min).
one run takes 2 s, all of them 12 s to 60 s (--runs 1: 4 s).
one run takes 90 s, all of them 3 min.
one run takes 1 s, all of them 6 s to 10 s (--runs 1: 2 s).
1 s, 40 s, 99 s, 4 min, 100 min, 2.0 h' ]]
}
