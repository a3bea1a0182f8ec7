#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Makefile and scripts/deps.sh: what `make` says, installs, removes and asks for.

bats_require_minimum_version 1.5.0

load ../packages

setup_file() {
    # A build of its own, in a folder of its own, by the compiler that the rest is not tested with.
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    export OWN=$BATS_FILE_TMPDIR/build
    OWN_CC=$(command -v clang || command -v gcc)
    export OWN_CC
    make -s B="$OWN" CC="$OWN_CC" CFLAGS=-O1 WERROR=1 all
}

own_make() { make B="$OWN" CC="$OWN_CC" CFLAGS=-O1 WERROR=1 "$@"; }

@test "clang builds the library, and it needs libc alone" {
    [ -f "$OWN/libzc.so" ]
    run -0 readelf -d "$OWN/libzc.so"
    [ "$(grep NEEDED <<<"$output" | grep -vcE '\[(libc\.so\.6|ld-linux[^]]*)\]')" -eq 0 ]
}

@test "a second make compiles nothing" {
    run -0 own_make
    run -1 grep -E '^ +(CC|LD|AS|AR) ' <<<"$output"
}

@test "another flag compiles everything again" {
    run -0 own_make -n CFLAGS=-O0
    objects=$(find "$OWN/shim" "$OWN/policy" "$OWN/tools" -name '*.o' | wc -l)
    [ "$(grep -c ' -c -o ' <<<"$output")" -eq "$objects" ]
}

@test "install puts library, sample policy and presets below DESTDIR and PREFIX" {
    run -0 own_make install DESTDIR="$BATS_TEST_TMPDIR/root" PREFIX=/opt/zc
    cmp "$OWN/libzc.so" "$BATS_TEST_TMPDIR/root/opt/zc/lib/libzc.so"
    for file in policy/policy.conf policy/presets/*.conf; do
        cmp "$file" "$BATS_TEST_TMPDIR/root/opt/zc/share/libzc/${file#policy/}"
    done
    for page in man1/zc.1 man5/policy.conf.5 man7/libzc.7; do
        cmp "docs/man/${page#*/}" "$BATS_TEST_TMPDIR/root/opt/zc/share/man/$page"
    done
    for file in bash-completion/completions/zc zsh/site-functions/_zc \
        fish/vendor_completions.d/zc.fish; do
        grep -q 'zc --completion' "$BATS_TEST_TMPDIR/root/opt/zc/share/$file"
    done
    [ -z "$(find "$BATS_TEST_TMPDIR/root" -type f ! -path '*/opt/zc/*')" ]
}

@test "the installed command finds its parts, also where the installation was moved" {
    command -v python3 >/dev/null || skip "no python3"
    run -0 own_make install DESTDIR="$BATS_TEST_TMPDIR/root" PREFIX=/opt/zc
    mv "$BATS_TEST_TMPDIR/root/opt/zc" "$BATS_TEST_TMPDIR/moved to: here"
    run -0 "$BATS_TEST_TMPDIR/moved to: here/bin/zc" check @watch-only
    [[ $output == *" 0 errors"* ]]
    # LD_PRELOAD takes blanks and colons for separators.
    run -0 "$BATS_TEST_TMPDIR/moved to: here/bin/zc" run -q -- \
        sh -c 'grep -m 1 -o "moved to: here/lib/libzc.so" /proc/self/maps'
    [[ $output == "moved to: here/lib/libzc.so" ]]
}

@test "folders that are set one by one are where things go and where they are found" {
    command -v python3 >/dev/null || skip "no python3"
    local root=$BATS_TEST_TMPDIR/own
    run -0 own_make install BINDIR="$root/b" LIBDIR="$root/l/x86" LIBEXECDIR="$root/e" \
        DATADIR="$root/d" MANDIR="$root/m" INCLUDEDIR="$root/i" BASHDIR="$root/c" \
        ZSHDIR="$root/zsh" FISHDIR="$root/fish"
    run -0 "$root/b/zc" --version
    [[ $output == "zc $(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)" ]]
    run -0 "$root/b/zc" run -q -- sh -c 'echo "$LD_PRELOAD"'
    [[ $output == "$root/l/x86/libzc.so" ]]
    run -0 "$root/b/zc" check policy/policy.conf
}

@test "uninstall removes what install put there and nothing else" {
    local root=$BATS_TEST_TMPDIR/root
    mkdir -p "$root/usr/local/lib"
    echo other >"$root/usr/local/lib/libother.so"
    run -0 own_make install DESTDIR="$root"
    [ -f "$root/usr/local/lib/libzc.so" ]
    run -0 own_make uninstall DESTDIR="$root"
    [ "$(find "$root" -type f)" = "$root/usr/local/lib/libother.so" ]
    [ ! -d "$root/usr/local/share/libzc" ]
}

@test "a folder that the installation can't carry is refused, and nothing is touched" {
    local name folder
    for name in PREFIX LIBDIR DATADIR; do
        for folder in 'below' '~/zc' "$BATS_TEST_TMPDIR/my zc" "$BATS_TEST_TMPDIR/a:b" \
            "$BATS_TEST_TMPDIR/it's"; do
            echo "$name=$folder"
            run -2 own_make -s install "$name=$folder" DESTDIR="$BATS_TEST_TMPDIR/root"
            [ "${#lines[@]}" -eq 1 ]
            [[ $output == *"DIR='$folder"*"absolute path without blanks"* ]]
            run -2 own_make -s uninstall "$name=$folder" DESTDIR="$BATS_TEST_TMPDIR/root"
        done
    done
    [ -z "$(ls -A "$BATS_TEST_TMPDIR")" ]
}

@test "a DESTDIR may have blanks and colons" {
    run -0 own_make -s install DESTDIR="$BATS_TEST_TMPDIR/its: root"
    [ -f "$BATS_TEST_TMPDIR/its: root/usr/local/lib/libzc.so" ]
    run -0 own_make -s uninstall DESTDIR="$BATS_TEST_TMPDIR/its: root"
    [ -z "$(find "$BATS_TEST_TMPDIR/its: root" -type f)" ]
}

# Runs make for a thing that is missing: one line that names it and the way to get it, status 2.
one_line_about() {
    local what=$1
    shift
    run -2 make -s "$@"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$what"* ]]
    [[ $output == *"make deps"* ]]
}

@test "a missing toolkit takes one line that says how to get it" {
    one_line_about "no cuda.h in /nonexistent/include" CUDA_HOME=/nonexistent DEPS=/nonexistent
}

@test "a missing compiler takes one line that says how to get it" {
    one_line_about "no C compiler 'no-such-cc'" CC=no-such-cc
}

@test "settings that no compiler takes are named, and not a package" {
    run -2 make -s all SAN=adress
    [[ ${#lines[@]} -eq 1 && $output == *"SAN='adress': address, thread or undefined"* ]]
    run -2 make -s all CFLAGS=--no-such-option
    [[ ${#lines[@]} -eq 1 && $output == *"--no-such-option"* ]]
    run -0 make -n all SAN=address,undefined
}

@test "a tree where nothing changed has nothing to make, and other flags make all of it" {
    run -0 make -s B="$BATS_TEST_TMPDIR/b" "$BATS_TEST_TMPDIR/b/shim/base/text.o"
    run -0 make -n B="$BATS_TEST_TMPDIR/b" "$BATS_TEST_TMPDIR/b/shim/base/text.o"
    [[ $output == *"up to date"* || $output == *"Nothing to be done"* ]]
    run -0 make -n B="$BATS_TEST_TMPDIR/b" WERROR=1 "$BATS_TEST_TMPDIR/b/shim/base/text.o"
    [[ $output == *"-Werror"* ]]
    # Asking what a build with them would do changes nothing.
    run -0 make -n B="$BATS_TEST_TMPDIR/b" "$BATS_TEST_TMPDIR/b/shim/base/text.o"
    [[ $output == *"up to date"* || $output == *"Nothing to be done"* ]]
}

@test "help lists the settings, and every target that users call" {
    run -0 make -s help
    [[ ${lines[0]} == "Settings, "* ]]
    local target targets
    targets=$(grep -hoE '(`|^)make [a-z][a-z0-9-]*' README.md docs/*.md | tr -d '`' |
        cut -d ' ' -f 2)
    for target in all clean $targets; do
        echo "$target"
        grep -qE "^  make $target +[^ ]" <<<"$output"
    done
}

@test "the toolkit from the wheels is taken where CUDA_HOME has none" {
    mkdir -p "$BATS_TEST_TMPDIR/deps/cuda/include"
    touch "$BATS_TEST_TMPDIR/deps/cuda/include/cuda.h"
    run -0 make -n B="$BATS_TEST_TMPDIR/b" CUDA_HOME=/nonexistent DEPS="$BATS_TEST_TMPDIR/deps"
    [[ $output == *"-isystem $BATS_TEST_TMPDIR/deps/cuda/include"* ]]
}

@test "the source archive has the version in its name and holds what is committed" {
    git rev-parse HEAD >/dev/null 2>&1 || skip "no git history here"
    local version
    version=$(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)
    run -0 make -s dist B="$BATS_TEST_TMPDIR"
    tar -tzf "$BATS_TEST_TMPDIR/libzc-$version.tar.gz" >"$BATS_TEST_TMPDIR/list"
    grep -qx "libzc-$version/LICENSE" "$BATS_TEST_TMPDIR/list"
    run ! grep -q "/build/" "$BATS_TEST_TMPDIR/list"
}

# A PATH with only the tools that scripts/deps.sh itself needs, and an apt-get that takes notes.
bare_path() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    local tool
    for tool in bash env dirname mkdir gcc make grep tail id; do
        ln -sf "$(command -v "$tool")" "$BATS_TEST_TMPDIR/bin/$tool"
    done
    printf '#!/bin/bash\necho "$*" >>"%s"\n' "$BATS_TEST_TMPDIR/asked" \
        >"$BATS_TEST_TMPDIR/bin/apt-get"
    chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
}

@test "deps asks for the Debian package of each missing tool, as root or in words" {
    bare_path
    mkdir -p "$BATS_TEST_TMPDIR/cuda/include" "$BATS_TEST_TMPDIR/cuda/bin"
    touch "$BATS_TEST_TMPDIR/cuda/include/cuda.h"
    printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    chmod +x "$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    run env PATH="$BATS_TEST_TMPDIR/bin" CC=gcc CUDA_HOME="$BATS_TEST_TMPDIR/cuda" \
        DEPS="$BATS_TEST_TMPDIR/deps" bash scripts/deps.sh
    [[ $output == *"apt-get install"*"python3"*"g++"*"bats"*"perl"* ]]
    [[ $output == *" g++-aarch64-linux-gnu "*qemu-user* ]]
    [[ $EUID -ne 0 ]] || grep -q 'install.* bats perl' "$BATS_TEST_TMPDIR/asked"
}

@test "deps asks for no browser and no test tool to build or to show the demo" {
    bare_path
    mkdir -p "$BATS_TEST_TMPDIR/cuda/include" "$BATS_TEST_TMPDIR/cuda/bin"
    touch "$BATS_TEST_TMPDIR/cuda/include/cuda.h"
    printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    chmod +x "$BATS_TEST_TMPDIR/cuda/bin/nvcc"
    for part in build demo; do
        run env PATH="$BATS_TEST_TMPDIR/bin" CC=gcc CUDA_HOME="$BATS_TEST_TMPDIR/cuda" \
            DEPS="$BATS_TEST_TMPDIR/deps" bash scripts/deps.sh "$part"
        [[ $output != *bats* && $output != *chromium* && $output != *valgrind* ]]
    done
    [[ $output == *"python3"* && $output != *"g++"* ]]
    # Without a toolkit its headers come by pip.
    run env PATH="$BATS_TEST_TMPDIR/bin" CC=gcc CUDA_HOME=/nonexistent \
        DEPS="$BATS_TEST_TMPDIR/deps" bash -c 'scripts/deps.sh build || exit 2'
    [[ $output == *"apt-get install"*"python3-pip"* ]]
}

@test "deps names the packages of other distributions, and what these do not have" {
    bare_path
    rm "$BATS_TEST_TMPDIR/bin/apt-get"
    mkdir -p "$BATS_TEST_TMPDIR/cuda/include" "$BATS_TEST_TMPDIR/cuda/bin"
    touch "$BATS_TEST_TMPDIR/cuda/include/cuda.h"
    printf '#!/bin/sh\n' | tee "$BATS_TEST_TMPDIR/cuda/bin/nvcc" >"$BATS_TEST_TMPDIR/bin/pacman"
    chmod +x "$BATS_TEST_TMPDIR/cuda/bin/nvcc" "$BATS_TEST_TMPDIR/bin/pacman"
    deps() {
        run "$@" env PATH="$BATS_TEST_TMPDIR/bin" CC=gcc CUDA_HOME="$BATS_TEST_TMPDIR/cuda" \
            DEPS="$BATS_TEST_TMPDIR/deps" bash scripts/deps.sh "$part"
    }
    part=demo deps -2
    [[ $output == "deps: missing: run  sudo pacman -S python" ]]
    part=check deps -2
    [[ ${lines[0]} == "deps: not packaged here: "*" lintian mpich (Debian's names)" ]]
    [[ ${lines[1]} == *" valgrind "*" util-linux "* ]]
    rm "$BATS_TEST_TMPDIR/bin/pacman"
    ln -s "$BATS_TEST_TMPDIR/cuda/bin/nvcc" "$BATS_TEST_TMPDIR/bin/dnf"
    part=demo deps -2
    [[ $output == "deps: missing: run  sudo dnf install python3"* ]]
}

@test "deps says nothing and fetches nothing where everything is there" {
    touch "$BATS_TEST_TMPDIR/before"
    run -0 scripts/deps.sh
    [ -z "$output" ] || skip "something was missing here: $output"
    # Further down Python keeps what other tests import.
    run -0 find "${DEPS:-build/deps}" -maxdepth 1 -newer "$BATS_TEST_TMPDIR/before"
    [ -z "$output" ]
}

@test "what deps gets under sudo belongs to the user who asked, and no folder that was there" {
    ((EUID == 0)) || skip "takes root"
    mkdir "$BATS_TEST_TMPDIR/tree"
    export SUDO_UID=65534 SUDO_GID=65534
    DEPS=$BATS_TEST_TMPDIR/tree/build/deps run -0 scripts/deps.sh build
    [[ $(stat -c %u "$BATS_TEST_TMPDIR"/tree{,/build,/build/deps}) == "0"$'\n'65534$'\n'65534 ]]
}

@test "deps explains itself when called in a way it does not know" {
    run -2 scripts/deps.sh headers
    [[ $output == *"headers VERSION"* ]]
}

@test "the demo builds what it runs, in less time, and takes a build that is there" {
    local build=$BATS_TEST_TMPDIR/b
    run -0 env -u CFLAGS make -n -o deps-demo demo B="$build"
    [[ $output == *" CFLAGS=-O1 "*"ZC_BUILD='$build/quick'"* && $output != *nvcc* ]]
    [ "$(grep -oE "$build/quick/(libzc.so|demo/[a-z.1]+)" <<<"$output" | sort -u | wc -l)" -eq 3 ]
    run -0 env CFLAGS=-O3 make -n -o deps-demo demo B="$build"
    [[ $output != *CFLAGS=* ]]
    mkdir "$build"
    : >"$build/libzc.so"
    run -0 env -u CFLAGS make -n -o deps-demo demo B="$build"
    [[ $output == *"ZC_BUILD='$build'"* && $output != *"$build/quick"* && $output != *CFLAGS=* ]]
}

@test "checks without a GPU, or without an emulator, say skipped and exit with 0" {
    echo none >"$BATS_TEST_TMPDIR/libcuda.so.1"
    run -0 env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR" make -s -o all -o tests check-gpu
    [[ $output == *"tests/gpu: skipped: no GPU answers here" ]]
    LD_LIBRARY_PATH=$BATS_TEST_TMPDIR run -77 tests/gpu/run.sh
    run -0 make -s check-aarch64 CROSS=nowhere-
    [[ $output == *"tests/aarch64: skipped: no nowhere-gcc "* ]]
    CROSS=nowhere- run -77 tests/aarch64/run.sh
}

@test "a run of tests that leaves a file in the tree fails, and names it" {
    mkdir -p "$BATS_TEST_TMPDIR/tree/tests"
    cp tests/run.sh "$BATS_TEST_TMPDIR/tree/tests"
    cd "$BATS_TEST_TMPDIR/tree"
    printf '@%s\n' 'test "leaves" { : >build/made; [[ ! -e leave ]] || : >tests/left; }' \
        >tests/a.bats
    ZC_BUILD=build run -0 tests/run.sh tests/a.bats
    : >leave
    ZC_BUILD=build run -1 tests/run.sh tests/a.bats
    [[ $output == *"left these files:"*/tests/left*"1 passed, 1 failed, 0 skipped" ]]
}

@test "tests in a folder whose name LD_PRELOAD can't hold say so" {
    mkdir -p "$BATS_TEST_TMPDIR/my tests/tests"
    cp tests/run.sh "$BATS_TEST_TMPDIR/my tests/tests"
    run -2 "$BATS_TEST_TMPDIR/my tests/tests/run.sh"
    [[ $output == *"without blanks"* ]]
}

@test "deps gets Python's packages one by one where they can't be had together, and says which" {
    bare_path
    printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/bin/apt-get"
    # No pip has ray for this Python, and only for that reason nothing of the rest.
    cat >"$BATS_TEST_TMPDIR/bin/python3" <<'SH'
#!/bin/bash
case "$*" in
    *"-m pip install"*\ ray*) exit 1 ;;
    *"-m pip install"*) for last; do :; done; echo "$last" >>"$GOT" ;;
    -c*) [[ $* != *$'\n'* && $* != *" ray" ]] ;;
esac
SH
    chmod +x "$BATS_TEST_TMPDIR"/bin/{apt-get,python3}
    export GOT=$BATS_TEST_TMPDIR/got DEPS=$BATS_TEST_TMPDIR/deps
    mkdir -p "$DEPS/perfetto" "$DEPS/bin" "$DEPS/cuda/include" "$DEPS/cuda/bin"
    touch "$DEPS/perfetto/index.html" "$DEPS/cuda/include/cuda.h"
    printf '#!/bin/sh\n' | tee "$DEPS/bin/promtool" >"$DEPS/cuda/bin/nvcc"
    chmod +x "$DEPS/bin/promtool" "$DEPS/cuda/bin/nvcc"
    run -0 env PATH="$BATS_TEST_TMPDIR/bin:$PATH" CUDA_HOME=/nonexistent bash scripts/deps.sh
    [[ $output == *"deps: what needs ray will not be tested"* ]]
    grep -qx ipykernel "$GOT"
    grep -qx ipykernel "$DEPS/python/modules"
    run -1 grep -x ray "$DEPS/python/modules"
}

@test "a test whose package deps got fails without it, and is skipped where deps has none" {
    PACKAGES=$BATS_TEST_TMPDIR
    skip() { echo "skipped: $1"; }
    run -0 need_packages no_such_module
    [[ $output == *"skipped: no no_such_module: make deps" ]]
    echo no_such_module >"$PACKAGES/modules"
    run -1 need_packages no_such_module
    [[ $output == *"No module named 'no_such_module'" ]]
}
