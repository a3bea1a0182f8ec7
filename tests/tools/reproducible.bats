#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The packages of one commit: the same bytes, from a checkout and from an archive of it in another
# folder, with files of another date; and how the binaries in them are linked.

load common

setup_file() {
    bats_require_minimum_version 1.5.0
    command -v git dpkg-deb >/dev/null || return 0
    [[ -e ${CUDA_HOME:-/usr/local/cuda}/include/cuda.h ]] || CUDA_HOME=$PWD/build/deps/cuda
    export ONE=$BATS_FILE_TMPDIR/one TWO=$BATS_FILE_TMPDIR/another/folder
    mkdir -p "$ONE" "$TWO"
    tar -c --exclude=__pycache__ Makefile .gitattributes pyproject.toml LICENSE README.md \
        CHANGELOG.md docs include policy scripts shim third_party tools tests/tests.mk \
        tests/sim tests/driver-names.tsv tests/preload/driver-requests.tsv kernels |
        tar -x -C "$ONE"
    (
        cd "$ONE"
        export GIT_COMMITTER_DATE='2001-02-03T04:05:06Z' GIT_CONFIG_GLOBAL=/dev/null
        git init -q
        git add -A
        git -c user.name=x -c user.email=x@localhost commit -qm x
    )
    git -C "$ONE" archive HEAD | tar -x -C "$TWO"
    find "$TWO" -exec touch -d 2020-02-02 {} +
    # Says who asks zc for completions, which are made once.
    mkdir "$BATS_FILE_TMPDIR/bin"
    cat >"$BATS_FILE_TMPDIR/bin/python3" <<-END
	#!/bin/sh
	case " \$* " in *' --completion '*) echo "\$*" >>asked ;; esac
	exec $(command -v python3) "\$@"
	END
    chmod +x "$BATS_FILE_TMPDIR/bin/python3"
    build "$ONE" 002
    build "$TWO" 077
}

# Both packages at a time, by a file mode mask: build FOLDER MASK
build() {
    (
        cd "$1"
        umask "$2"
        unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES SOURCE_DATE_EPOCH ZC_BUILD
        CCACHE_DISABLE=1 PATH=$BATS_FILE_TMPDIR/bin:$PATH \
            make -s -j2 CFLAGS='-O0 -g' CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" wheel deb
    )
}

setup() {
    need_python
    command -v git dpkg-deb >/dev/null || skip "no git or no dpkg-deb"
    ONE=$ONE/build TWO=$TWO/build
}

@test "a commit gives the same library, tool and packages wherever and whenever it is built" {
    local file
    for file in libzc.so zc-policy zc-views package/deb/DEBIAN/md5sums; do
        cmp "$ONE/$file" "$TWO/$file"
    done
    for file in "$ONE"/*.whl "$ONE"/*.deb; do
        cmp "$file" "$TWO/${file##*/}"
    done
    [[ $(ls "$ONE"/*.whl "$ONE"/*.deb | wc -l) == 2 ]]
    run -0 zcat "$ONE/package/deb/usr/share/doc/libzc/changelog.Debian.gz"
    [[ ${lines[-1]} == *"Sat, 03 Feb 2001 04:05:06 -0000" ]]
}

@test "pip installs a clone by its path, and the command runs" {
    python3 -m pip --version >/dev/null || skip "no pip"
    local venv=$BATS_TEST_TMPDIR/venv
    python3 -m venv --without-pip "$venv"
    cd "$ONE/.."
    # The flags that it was built with above, so that only the package is made.
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u ZC_BUILD CFLAGS='-O0 -g' \
        CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" \
        python3 -m pip --python "$venv/bin/python" install -q --no-index --no-compile ./
    [[ $("$venv/bin/zc" -V) == "zc $(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' \
        shim/base/version.h)" ]]
    [[ $("$venv/bin/zc" --library) == "$venv"/lib/*/site-packages/libzc/lib/libzc.so ]]
}

@test "two packages made at a time share what is made once, and it is whole" {
    local file
    run -0 sort "$ONE/../asked"
    [[ ${#lines[@]} == 3 ]]
    for file in bash/zc zsh/_zc fish/zc.fish; do
        [ -s "$ONE/completion/zc.$file" ]
        [[ -z $(find "$ONE/package" -name "${file#*/}" -size -2) ]]
    done
    # A goal that builds by a make of its own has no other goal beside it.
    for file in check demo; do
        run make -pnq "$file" bench
        [[ $'\n'$output == *$'\n.NOTPARALLEL:'* ]]
    done
    run make -pnq wheel deb
    [[ $'\n'$output != *$'\n.NOTPARALLEL:'* ]]
}

@test "every binary in the packages is hardened, and holds no path of its build" {
    local file found=0
    python3 -m zipfile -e "$ONE"/*.whl "$BATS_TEST_TMPDIR/wheel"
    dpkg-deb -x "$ONE"/*.deb "$BATS_TEST_TMPDIR/deb"
    while read -r file; do
        [[ $(head -c 4 "$file") == $'\x7fELF' ]] || continue
        found=$((found + 1))
        run -0 readelf -W -l -d -h -n "$file"
        [[ $output == *"Type: "*" DYN "* && $output == *"GNU_RELRO"* && $output == *"Build ID: "* ]]
        [[ $output == *BIND_NOW* && $output =~ GNU_STACK[^$'\n']*\ RW\  ]]
        [[ $output != *RPATH* && $output != *RUNPATH* && $output != *TEXTREL* ]]
        [[ $output =~ FLAGS_1[^$'\n']*PIE || $file == *.so* ]]
        run -1 grep -c "$BATS_FILE_TMPDIR" "$file"
    done < <(find "$BATS_TEST_TMPDIR/wheel" "$BATS_TEST_TMPDIR/deb" -type f)
    ((found == 10))
}
