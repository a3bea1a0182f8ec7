#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files of docs/rollout for administrators, beyond what examples.bats runs of every page: the module
# by a Tcl interpreter, the manifest by Kubernetes' schema, rules by promtool, names of metrics.

load programs
load ../packages

setup() {
    need_python
    VERSION=$(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)
}

# Keeps the named blocks of a page in the test's folder: blocks PAGE
blocks() {
    PYTHONPATH=tests/tools python3 -c '
import os, sys
import examples
for block in examples.read_blocks(sys.argv[1]):
    if block.kind in ("tcl", "yaml", "bash"):
        with open(os.path.join(sys.argv[2], block.rest), "w") as file:
            file.write(block.text)' "docs/rollout/$1" "$BATS_TEST_TMPDIR"
}

@test "the modulefile gives the command, its manual and the header, and preloads nothing" {
    command -v tclsh >/dev/null || skip "no tclsh"
    blocks modules.md
    run -0 tclsh <<TCL
proc module-whatis {text} { puts "whatis \$text" }
proc conflict {name} { puts "conflict \$name" }
proc prepend-path {name path} { puts "\$name \$path" }
proc setenv {name value} { puts "\$name=\$value" }
source $BATS_TEST_TMPDIR/$VERSION
ModulesHelp
TCL
    [[ $output == *"PATH /shared/libzc/$VERSION/bin"* ]]
    [[ $output == *"MANPATH /shared/libzc/$VERSION/share/man"* ]]
    [[ $output == *"CPATH /shared/libzc/$VERSION/include"* ]]
    [[ $output == *"LIBZC=/shared/libzc/$VERSION/lib/libzc.so"* && $output == *"zc run COMMAND"* ]]
    [[ $output != *LD_PRELOAD* && $(head -n 1 "$BATS_TEST_TMPDIR/$VERSION") == '#%Module1.0' ]]
    # Files that it names are where an installation has them.
    run -0 make -s -n install PREFIX="/shared/libzc/$VERSION"
    for file in bin/zc share/man/man1/zc.1 include/zc.h lib/libzc.so; do
        [[ $output == *"/shared/libzc/$VERSION/$file"* ]]
    done
}

@test "the DaemonSet has the form that the API wants, and its command is one of zc's" {
    need_packages kubernetes_validate
    blocks kubernetes.md
    run -0 python3 - "$BATS_TEST_TMPDIR/zc-export.yaml" "$VERSION" <<'PYTHON'
import sys, kubernetes_validate, yaml
[document] = yaml.safe_load_all(open(sys.argv[1]))
kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
[container] = document["spec"]["template"]["spec"]["containers"]
assert container["image"].endswith(":" + sys.argv[2]), container["image"]
print("\n".join(container["args"][:-1]))
PYTHON
    unset PYTHONPATH
    [[ ${lines[*]} == "export --prometheus --listen" ]]
    python3 -B scripts/zc "${lines[@]}" 127.0.0.1:0 >"$BATS_TEST_TMPDIR/out" 2>&1 5>&- &
    local server=$!
    until grep -q http "$BATS_TEST_TMPDIR/out"; do kill -0 "$server"; sleep 0.05; done
    python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).status)' \
        "$(grep -oE 'http://[^ ]*metrics' "$BATS_TEST_TMPDIR/out")"
    kill "$server"
}

@test "alerts and records ask for metrics and labels that are exported" {
    need_gpu_programs
    blocks kubernetes.md
    blocks metrics.md
    cd "$BATS_TEST_TMPDIR"
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    "$ZC" export --prometheus a.counters >text
    PYTHONPATH=$OLDPWD/build/deps/python python3 - zc-alerts.yaml zc-records.yaml <<'PYTHON'
import re, sys, yaml
text = open("text").read()
known = dict(re.findall(r"^(zc_\w+)(?:\{(.*)\})? ", text, re.M))
rules = [rule for path in sys.argv[1:] for group in yaml.safe_load(open(path))["groups"]
         for rule in group["rules"]]
assert len(rules) == 7, rules
for rule in rules:
    names = set(re.findall(r"\bzc_\w+", rule["expr"]))
    assert names and names <= set(known), names
    said = " ".join(rule.get("annotations", {}).values())
    asked = set(re.findall(r"\$labels\.(\w+)", said))
    for by in re.findall(r"by \((.*?)\)", rule["expr"]):
        grouped = set(by.split(", "))
        assert asked <= grouped, rule
        asked |= grouped
    asked |= set(re.findall(r"(\w+)=~", rule["expr"]))
    for name in names:
        assert asked <= set(re.findall(r"(\w+)=\"", known[name])), (rule, known[name])
PYTHON
    PATH=$OLDPWD/build/deps/bin:$PATH
    command -v promtool >/dev/null || skip "no promtool (make deps)"
    promtool check rules zc-alerts.yaml zc-records.yaml
}

@test "the table of metrics has all that are exported, by both names, with their units" {
    PYTHONPATH=scripts run -0 python3 -c '
from zclib import otlp, prometheus
for metric in prometheus.FAMILIES:
    print(metric.name, metric.name.removesuffix("_total"), metric.unit)
print(otlp.GPU_IO.name, otlp.GPU_IO.name, otlp.GPU_IO.unit)'
    local name sent unit
    while read -r name sent unit; do
        grep -F "\`$name\`" docs/rollout/metrics.md | grep -qF "\`$unit\`"
        [[ $name == "$sent" ]] || grep -F "\`$name\`" docs/rollout/metrics.md | grep -qF "\`$sent\`"
    done <<<"$output"
}
