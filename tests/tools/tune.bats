#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc tune: the best policy of programs for which it is known by construction. The simulated GPU has
# no times, so what counts is what the copies would take by their bytes.

load programs

setup_file() {
    [[ -e $ZC_BUILD/sim/libcuda.so.1 ]] || return 0
    build_copies "$BATS_FILE_TMPDIR/copies"
}

setup() {
    need_gpu_programs
    export TREE=$PWD
    cd "$BATS_TEST_TMPDIR"
    # Prints what is the same each time. A table of 8 MiB, of which 1 % is read.
    printf '#!/bin/sh\n"%s" 8192 1024 | grep -o "checksum[^,]*"\n' "$GATHER" >gather
    chmod +x gather
    ln -s "$BATS_FILE_TMPDIR/copies" .
}

# Runs zc tune; its table and verdict are in $output, what it says on stderr in $stderr.
tune() {
    local status=$1
    shift
    run "-$status" --separate-stderr "$ZC" tune "$@"
}

# Writes a program that does what gather does, but under policies of some names runs other commands
# before: wrapped PATTERN COMMANDS
wrapped() {
    printf '#!/bin/sh\ncase $ZC_POLICY in %s) %s ;; esac\nexec ./gather\n' "$1" "$2" >program
    chmod +x program
}

@test "a table that kernels read sparsely becomes one with the host's, and the policy proves it" {
    tune 0 -- ./gather
    [[ $output == *"are one with the host's "*" kept"* ]]
    [[ $output == *"are pinned "*"not kept: takes nothing beside what was kept later"* ]]
    [[ $output == *"Written to policy.conf."* && -z $stderr ]]
    grep -qx 'place = shared, device' policy.conf
    grep -qx 'access = read' policy.conf
    grep -q '^# Written by zc tune on 20.*, for: ./gather$' policy.conf
    [[ $(tr -d '\n#' <policy.conf) == *"gained "*" of that before "*"predicted: up to "* ]]
    run -0 "$ZC" check policy.conf
    [[ $output == *" 2 usable rules, 0 errors, 0 warnings" ]]
    # Once a module of its call paths was built anew, zc check says so.
    grep -Eq "^# build: gather-shared [0-9a-f]{40} $GATHER\$" policy.conf
    sed -E 's/^(# build: gather-shared [0-9a-f]{38})../\1/' policy.conf >stale.conf
    run -0 "$ZC" check stale.conf
    [[ ${lines[0]} == "stale.conf:"*": warning: gather-shared was rebuilt since: "* ]]
    [[ ${#lines[@]} == 2 && $output == *" 2 usable rules, 0 errors, 1 warning" ]]
    sed -E 's,^(# build: .*/)gather,\1gone,' stale.conf >gone.conf
    run -0 "$ZC" check gone.conf
    [[ $output == *" 0 warnings" ]]
    run -0 --separate-stderr "$ZC" run -p policy.conf -- ./gather
    [[ $stderr == *"8.1 MiB asked in 3 copies: "*" KiB moved, 0 B copied by the CPU, 8 MiB "* ]]

    # What is there already is kept, before anything runs.
    cp policy.conf before
    tune 2 -- ./gather
    [[ $stderr == "zc: policy.conf is there already: name another file by -o, or "*"--force"* ]]
    cmp before policy.conf
}

@test "memory that is not malloc's is copied by several threads" {
    tune 0 -o out.conf -- ./copies map 2
    [[ $output == *"several threads copy pageable memory "*" kept"* ]]
    [[ $output != *"in host memory "* ]]  # CPU threads would copy it, which takes longer.
    [[ $(grep -v '^#' out.conf | grep .) == "[defaults]"$'\n'"pageable_copy = parallel" ]]
}

@test "arrays that grow are remapped, and with nothing to gain nothing is written" {
    sim_env grow
    tune 0 -o out.conf --ignore '_ms":[0-9.]+' -- "$(dirname "$GATHER")/grow-shared"
    [[ $output == *"grow by a remap "*" kept"* ]]
    grep -qx 'grow = yes' out.conf
    tune 0 -- "$KILLED" 1 _exit
    [[ $output == "Nothing was gained, so nothing is written." && ! -e policy.conf ]]
}

@test "a rule under which the program prints something else, or hangs, is not kept" {
    wrapped '*candidate-1*' 'echo other; exit ;; *candidate-3*) sleep 60 & echo $! >pid; wait'
    tune 0 -- ./program
    [[ $output == *"are pinned "*"not kept: printed 'other' instead of 'checksum"* ]]
    [[ $output == *"one with the host's "*"not kept: took too long, and was ended"* ]]
    # Killed, though nobody may have waited for it yet.
    run ! grep -s '^State:[[:blank:]]*[^Z[:blank:]]' "/proc/$(<pid)/status"
    grep -qx 'pageable_copy = parallel' policy.conf
    grep -q "^# - malloc's blocks of .* are pinned: printed 'other' instead of" policy.conf
}

@test "less device memory is a goal as well" {
    tune 0 --goal device-memory -- ./gather
    [[ $output == *"Device memory: "*" KiB instead of 8.1 MiB"*"Written to policy.conf." ]]
    grep -qx 'place = shared, device' policy.conf
    # The third run under the rule prints something else; then what it is raced against runs.
    wrapped '*candidate-1*' 'echo >>runs; [ $(wc -l <runs) -ne 3 ] || { echo other; exit; }'
    tune 0 --force --goal device-memory -- ./program
    [[ $output == *"one with the host's "*"not kept: printed 'other' instead of 'checksum"* ]]
    [[ $output == *"Nothing was gained"* ]]
}

@test "programs that can't be tuned are told why" {
    run -0 python3 -B - <<'PYTHON'
import contextlib, io, os, sys
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from zclib.cli import main

def tune(status, *arguments):
    """One command line; what it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["tune", *arguments]) == status, (arguments, said.getvalue())
    return said.getvalue().strip()

fails = "zc: sh can't be tuned: "
assert tune(1, "--", "sh", "-c", "echo broken >&2; exit 3") == \
    fails + "it ends with status 3 without libzc: broken"
differs = tune(1, "--", "sh", "-c", "echo $$")
assert differs.startswith(fails + "without libzc it does not always do the same: one run printed '")
assert "--ignore REGEX, or say by --check COMMAND" in differs
assert "one run wrote another made." in tune(1, "--same", "made", "--", "sh", "-c", "echo $$ >made")
assert "'grep -q right' ended with status 1" in tune(1, "--check", "grep -q right", "echo", "wrong")
assert "no process of it used CUDA under libzc" in tune(1, "true")
assert "which only watched, it ended with status 3" in tune(
    1, "--", "sh", "-c", 'test "$ZC_POLICY" || exit 0; exit 3')
assert "No such file" in tune(127, "./missing")
for wrong in (["--ignore", "("], ["-o", "nowhere/policy.conf"], ["--runs", "1"],
              ["--metric", "wall", "--goal", "device-memory"]):
    tune(2, *wrong, "touch", "ran")
assert not os.path.exists("ran") and not os.path.exists("policy.conf")
PYTHON
}

@test "a signal ends the search, and the best so far is written with that remark" {
    wrapped '*candidate-2*' ': >ready; exec sleep 60'
    "$ZC" tune -- ./program >out 3>&- &
    until [[ -e ready ]]; do sleep 0.05; done
    kill -INT $!
    wait $! || status=$?
    [[ $status == 130 ]]
    [[ $(tail -n 1 out) == "Stopped before all was tried. Written to policy.conf." ]]
    grep -q '^# Stopped before all was tried.$' policy.conf
    run -0 "$ZC" check policy.conf
    # So does a terminal that goes.
    rm ready policy.conf
    TERM=xterm run -1 python3 - "$ZC" <<'PYTHON'
import os, pty, subprocess, sys, time
screen, terminal = pty.openpty()
tune = subprocess.Popen([sys.argv[1], "tune", "--", "./program"], stdout=terminal, stderr=terminal,
                        start_new_session=True)
os.close(terminal)
while not os.path.exists("ready"):
    time.sleep(0.05)
os.close(screen)
tune.send_signal(1)
sys.exit(tune.wait())
PYTHON
    grep -q '^# Stopped before all was tried.$' policy.conf
    # Also between two runs, and nothing is left behind.
    mkdir tmp
    for signal in INT TERM HUP; do
        TMPDIR=$PWD/tmp run "$ZC" tune -o new --check "kill -$signal \$PPID; exec sleep 60" true
        [[ $status -eq $((128 + $(kill -l $signal))) && -z $(ls tmp) ]]
        [[ ${lines[-1]} == "Stopped before all was tried. Nothing was gained, "* ]]
    done
}

@test "races decide by time: gains are kept, losses and noise are not" {
    run -0 python3 -B - <<'PYTHON'
import os, random, re, sys, tempfile
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from types import SimpleNamespace as Some
from zclib.costs import Costs
from zclib.tune import metrics, search
from zclib.tune.candidates import Candidate, Finder, Prices
from zclib.tune.traffic import DeviceSite, Sum, Traffic

# Share of the bare time and of device memory that a rule leaves.
RULES = {"fast": (0.8, 1), "slow": (1.2, 0.1), "noise": (1, 1), "small": (0.95, 0.5)}

class Trials:
    """Stands in for programs."""
    def __init__(self):
        self.dice, self.runs = random.Random(4), 0
    def run(self, plan, number, limit_s=None):
        self.runs += 1
        policy = "off" if plan.env is None else plan.env["ZC_POLICY"]
        rules = re.findall(r"\[rule (\w+)\]", "" if policy == "off" else open(policy).read())
        wall, peak = 1e9 * self.dice.uniform(0.99, 1.01), 100
        for rule in rules:
            wall, peak = wall * RULES[rule][0], peak * RULES[rule][1]
        sites = {"s": Some(rules=dict.fromkeys(rules, 1))}
        totals = Some(simulated=False, warns={}, processes=[1], sites=sites,
                      peak=lambda place: peak if place == "device" else 0)
        return Some(ended=Some(wall_ns=wall, passed_on=0, late=False), status=0, totals=totals)

class Right:
    def learn(self, run): pass
    learn_messages = learn
    def fault(self, run): return ""

def tune(metric, gain_ns=5e8, **options):
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials()
        one = search.Search(trials, folder, "libzc.so", Right(),
                            search.Options(metric, **options), lambda text: None)
        one.bare()
        one.take_base(one.watched())
        for name in RULES:
            one.try_one(Candidate("mapped", name, gain_ns, gain_ns, {name: "place = mapped\n"}))
        one.confirm()
        return one.outcome, {tried.candidate.what: tried for tried in one.outcome.tried}, trials

outcome, tried, trials = tune(metrics.wall())
assert [one.candidate.what for one in outcome.kept] == ["fast", "small"], outcome
assert tried["slow"].runs == 1 and "more time (" in tried["slow"].why    # One run tells it.
assert tried["noise"].why in ("no significant difference", "gains less than 1 %"), tried["noise"]
assert 0.74 < outcome.final.low < outcome.final.high < 0.78, outcome.final
assert 0.19e9 < tried["fast"].gain < 0.21e9 and trials.runs < 50, trials.runs
outcome, tried, _ = tune(metrics.memory(), spares_memory=True)
assert [one.candidate.what for one in outcome.kept] == ["small"], outcome
assert tried["slow"].why == "20 % more time", tried["slow"]              # Whatever it spares.
outcome, tried, trials = tune(metrics.wall(), gain_ns=9e6)               # 0.9 % can't be enough.
assert not outcome.kept and trials.runs == 3
outcome, tried, trials = tune(metrics.wall(), seconds=1e-9)
assert {one.why for one in outcome.tried} == {"not tried: the time is up"} and trials.runs == 3

# A table whose blocks kernels were seen to write is not probed as one that they only read.
traffic = Traffic(1)
traffic.sites["table"] = DeviceSite({"cuMemAlloc"}, 1, 8 << 20, 8 << 20, {"host": Sum(4, 32 << 20)})
def probes(written):
    found = Finder(traffic, Prices(Costs(), True), written).all([])
    return [one.kind for one in found if one.is_probe]
assert probes(set()) == ["shared"] and probes({"table"}) == ["mapped"]
PYTHON
}
