#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The wheel, the Debian package and the image: built, installed where nothing else is, and used.

load programs
load ../packages

setup_file() {
    bats_require_minimum_version 1.5.0
    need_built "$PWD/$ZC_BUILD/libzc.so"
    # The flags that the tree was built with; others would build it again.
    local -a command
    read -r -a command <"$ZC_BUILD/command"
    [[ " ${command[*]} " == *" -Werror "* ]] && export WERROR=1
    export CC=${command[0]}
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    export PACKED=$BATS_FILE_TMPDIR
    export PROJECT_URL=https://example.org/somebody/libzc
    make -s B="$ZC_BUILD" PACKAGE_OUT="$PACKED" wheel
    write_apt_get
    build_stage
}

# Every RUN of the Containerfile in turn, a line each.
steps() {
    sed -e ':join' -e '/\\$/{N;s/\\\n *//;b join' -e '}' Containerfile | sed -n 's/^RUN //p'
}

# An apt-get that takes notes, and unpacks packages that are files into an empty root.
write_apt_get() {
    mkdir -p "$PACKED/bin" "$PACKED/root/tmp" "$PACKED/root/var/lib/apt/lists"
    cat >"$PACKED/bin/apt-get" <<-END
	#!/bin/bash
	echo "\$*" >>"$PACKED/asked"
	for file; do
	    [[ \$file != *.deb ]] || dpkg-deb -x "\$file" "$PACKED/root"
	done
	END
    chmod +x "$PACKED/bin/apt-get"
}

# There may be no engine for containers here, so the commands of the Containerfile run in this tree.
# All but the last are those of the stage that builds.
build_stage() {
    local step
    while IFS= read -r step; do
        step=${step//make deb/make -s B=$ZC_BUILD PACKAGE_OUT=$PACKED deb}
        step=${step//make deps-build/make -s B=$ZC_BUILD deps-build}
        PATH=$PACKED/bin:$PATH bash -euc "$step"
    done < <(steps | head -n -1)
}

setup() {
    need_gpu_programs
    TOP=$PWD
    VERSION=$(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)
}

# Runs the sample program by an installed zc, without anything of this tree in its environment: the
# result is that of the bare run, and a preset has left almost nothing to move.
#   used_by ZC...
used_by() {
    local bare kept=$BATS_TEST_TMPDIR/kept
    local -a clean=(env -u PYTHONPATH -u ZC_BUILD)
    bare=$("$GATHER" | json_field checksum)
    [[ -n $bare ]]
    cd "$BATS_TEST_TMPDIR"
    run -0 --separate-stderr "${clean[@]}" "$@" run -p @shared-tables -o "$kept" \
        -s host-tables.size=64M.. -s device-tables.size=64M.. "$GATHER"
    [[ $(json_field checksum <<<"$output") == "$bare" && $stderr == *" 64 MiB elided;"* ]]
    run -0 "${clean[@]}" "$@" report --html page.html --json "$kept"
    grep -q uPlot page.html
    [[ $(python3 -c 'import json, sys
print(json.load(sys.stdin)["totals"]["elided_bytes"])' <<<"$output") == 67108864 ]]
}

@test "the wheel is installed by pip into an empty environment, and used there" {
    python3 -m pip --version >/dev/null || skip "no pip"
    local wheel venv=$BATS_TEST_TMPDIR/venv
    wheel=$(echo "$PACKED/libzc-$VERSION"-py3-none-manylinux_2_*.whl)
    python3 -m venv --without-pip "$venv"
    python3 -m pip --python "$venv/bin/python" install -q --no-index --no-compile "$wheel"
    [ -f "$venv/share/man/man1/zc.1" ]
    [[ $("$venv/bin/zc" --library) == "$venv"/lib/*/site-packages/libzc/lib/libzc.so ]]
    [[ $("$venv/bin/python" -m libzc -V) == "zc $VERSION" ]]
    used_by "$venv/bin/zc"
    if PYTHONPATH=$TOP/build/deps/python "$venv/bin/python" -c 'import pytest'; then
        PYTHONPATH=$TOP/build/deps/python run -0 "$venv/bin/python" -m pytest --help
        [[ $output == *"--zc-policy=POLICY"* ]]
    fi
    # Without a GPU, a compiler, or anything of this tree.
    cd "$BATS_TEST_TMPDIR"
    run -0 env -i PATH="$venv/bin" "$venv/bin/zc" demo --simulated
    [[ $output == *" are copies: 259 MiB in 3 copies."*"zc-demo/page.html: "* ]]
    python3 -m pip --python "$venv/bin/python" uninstall -q -y libzc
    [[ -z $(find "$venv" -name '*zc*' ! -name '*.pyc' -type f) ]]
}

@test "four newcomers get from the wheel to a sentence with seconds, by a hundred words to read" {
    python3 -m pip --version >/dev/null || skip "no pip"
    local wheel row
    wheel=$(echo "$PACKED/libzc-$VERSION"-py3-none-manylinux_2_*.whl)
    cd tests
    run -0 python3 -B -m bench.starts "$wheel"
    [[ $(grep -c '^[^|]*are copies: .*`everyday` saves about' <<<"$output") -ge 3 ]]
    for row in 'a Python script' 'a CUDA program' 'no GPU'; do
        [[ $(grep "^| $row |" <<<"$output" | cut -d '|' -f 4) -le 100 ]]
    done
}

@test "the wheel's tag names the glibc that its files need" {
    local wheel
    wheel=$(echo "$PACKED/libzc-$VERSION"-*.whl)
    [[ ${wheel##*/} =~ manylinux_2_([0-9]+)_$(uname -m).whl$ ]]
    local most=${BASH_REMATCH[1]}
    python3 -m zipfile -e "$wheel" "$BATS_TEST_TMPDIR/w"
    run -0 objdump -T "$BATS_TEST_TMPDIR/w/libzc/lib/libzc.so" \
        "$BATS_TEST_TMPDIR/w/libzc/libexec/zc-policy" "$BATS_TEST_TMPDIR/w/libzc/libexec/zc-views"
    [[ $(grep -oE 'GLIBC_2\.[0-9]+' <<<"$output" | sort -V | tail -n 1) == "GLIBC_2.$most" ]]
    ((most <= 34))
}

@test "the wheel names its version once, its addresses, keywords and what indexes know of classes" {
    local metadata=$BATS_TEST_TMPDIR/METADATA
    python3 -m zipfile -e "$PACKED/libzc-$VERSION"-*.whl "$BATS_TEST_TMPDIR"
    mv "$BATS_TEST_TMPDIR/libzc-$VERSION.dist-info/METADATA" "$metadata"
    need_packages packaging
    run -0 python3 -c '
import sys
from packaging.metadata import parse_email
fields, unknown = parse_email(open(sys.argv[1], encoding="utf-8").read())
assert not unknown, unknown
assert fields["version"] == sys.argv[2] and "pinned" in fields["keywords"], fields
for name, address in fields["project_urls"].items():
    print(name, address)' "$metadata" "$VERSION"
    [[ $output == *"Documentation $PROJECT_URL/blob/v$VERSION/README.md"* ]]
    [[ $output == *"Issues $PROJECT_URL/issues"* && $output == *"Source $PROJECT_URL"* ]]
    # Whoever reads the description has none of the files beside it: no link is relative.
    run -1 grep -nE '\]\((\./|docs/|policy/|kernels/|tests/|[A-Z]+\b)' "$metadata"
    grep -qF "($PROJECT_URL/blob/v$VERSION/docs/policy.md#presets)" "$metadata"
    grep -qF "]($PROJECT_URL/raw/v$VERSION/docs/" "$metadata"
    # The one place of the version has the newest changes, and is what pages name.
    [[ $(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1) == "$VERSION" ]]
    run grep -rnoE '(zc:|libzc[-_=]|\bv)[0-9]+\.[0-9]+\.[0-9]+' README.md docs --include=*.md
    [[ -z $(grep -vF "$VERSION" <<<"$output") ]]
}

@test "without an address a package names none, and its description has the text of links" {
    PROJECT_URL='' PYTHONPATH=scripts run -0 python3 -c '
from package import metadata
print(metadata.metadata("9.8.7"))'
    [[ $output != *"-URL"* && $output != *"Home-page"* ]]
    run -1 grep -nE '\]\((docs|policy|kernels|tests)/' <<<"$output"
    for bad in example.org http://example.org/a 'https://example.org/a b'; do
        PROJECT_URL=$bad PYTHONPATH=scripts run -1 python3 -c '
from package import metadata
metadata.metadata("9.8.7")'
        [[ $output == "package: PROJECT_URL='$bad': give it as https://HOST/OWNER/NAME" ]]
    done
}

@test "a cross compiler makes both packages for aarch64, of files for it" {
    command -v aarch64-linux-gnu-gcc dpkg-deb >/dev/null || skip "no cross compiler or dpkg-deb"
    [[ $(uname -m) == x86_64 ]] || skip "made for x86_64 to cross from"
    local out=$BATS_TEST_TMPDIR/out file
    make -s B=build/aarch64 CC=aarch64-linux-gnu-gcc CFLAGS='-O0 -g' PACKAGE_OUT="$out" wheel deb
    [[ $(ls "$out") == "libzc-$VERSION-py3-none-manylinux_2_"*"_aarch64.whl"$'\n'* ]]
    [[ $(ls "$out") == *$'\n'"libzc_$VERSION-1_arm64.deb" ]]
    python3 -m zipfile -e "$out"/*.whl "$BATS_TEST_TMPDIR/w"
    for file in lib/libzc.so libexec/zc-policy libexec/zc-views; do
        run -0 readelf -h "$BATS_TEST_TMPDIR/w/libzc/$file"
        [[ $output =~ Machine:\ +AArch64 ]]
        run -0 readelf -S "$BATS_TEST_TMPDIR/w/libzc/$file"
        [[ $output != *.debug_info* ]]
    done
    [ -s "$BATS_TEST_TMPDIR/w/libzc-$VERSION.data/data/share/bash-completion/completions/zc" ]
    [[ $(dpkg-deb -f "$out"/*.deb Architecture) == arm64 ]]
}

@test "a build by pip tells its wheel, whatever else is in the folder" {
    mkdir "$BATS_TEST_TMPDIR/dist"
    touch "$BATS_TEST_TMPDIR/dist/"{a-1,libzc-0.1,libzc-9,z-1}-py3-none-any.whl
    PYTHONPATH=scripts run -0 python3 -c '
import sys, time
from package import wheel
def make(*command, **settings):
    time.sleep(0.01)
    open(sys.argv[1] + "/libzc-2-py3-none-any.whl", "w").close()
wheel.subprocess.run = make
print(wheel.build_wheel(sys.argv[1]))' "$BATS_TEST_TMPDIR/dist"
    [[ $output == libzc-2-py3-none-any.whl ]]
}

@test "the Debian package is unpacked into an empty root, and used there" {
    command -v dpkg-deb >/dev/null || skip "no dpkg-deb"
    local root=$BATS_TEST_TMPDIR/root
    dpkg-deb -x "$PACKED"/libzc_"$VERSION"-1_*.deb "$root"
    for file in share/man/man1/zc.1.gz share/bash-completion/completions/zc \
        share/zsh/vendor-completions/_zc share/fish/vendor_completions.d/zc.fish \
        share/libzc/presets/everyday.conf share/doc/libzc/copyright; do
        [ -f "$root/usr/$file" ]
    done
    for owner in 'libzc authors' 'Troy D. Hanson' 'Leon Sorokin'; do
        grep -q "^Copyright: .* $owner$" "$root/usr/share/doc/libzc/copyright"
    done
    [[ $("$root/usr/bin/zc" --library) == "$root"/usr/lib/*/libzc.so ]]
    used_by "$root/usr/bin/zc"
}

@test "lintian finds nothing in the Debian package" {
    command -v lintian >/dev/null || skip "no lintian"
    run -0 lintian --allow-root --fail-on error,warning "$PACKED"/libzc_*.deb
    [[ -z $output ]]
}

@test "the commands of the Containerfile leave an image with zc" {
    command -v dpkg-deb >/dev/null || skip "no dpkg-deb"
    local root=$PACKED/root step
    [[ $(steps | wc -l) -eq 4 ]]
    cp "$PACKED"/libzc_*.deb "$root/tmp"
    step=$(steps | tail -n 1)
    step=${step//\/tmp\//$root/tmp/}
    PATH=$PACKED/bin:$PATH bash -euc "${step//\/var\//$root/var/}"
    grep -q 'install .* make python3$' "$PACKED/asked"
    [[ -z $(ls "$root/tmp") ]]
    # The image starts as its last lines say.
    [[ $(sed -nE 's/^(ENTRYPOINT|CMD) //p' Containerfile) == '["zc"]'$'\n''["doctor"]' ]]
    run -0 "$root/usr/bin/zc" doctor
    [[ $output == *"Simulated GPU"* ]]
}
