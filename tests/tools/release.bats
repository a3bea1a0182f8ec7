#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Release of a tag: the steps of the workflow, run here in a clone with what they attach, the
# recipes, where the files come from; and the forms of issues.

load common
load ../packages

FORMS=.github/ISSUE_TEMPLATE

# Runs Python with the packages that `make deps` gets: yaml, jsonschema.
py() { PYTHONPATH=$PACKAGES python3 "$@"; }

setup_file() {
    bats_require_minimum_version 1.5.0
    export CLONE=$BATS_FILE_TMPDIR/clone STUBS=$BATS_FILE_TMPDIR/bin RELEASED
    RELEASED=$CLONE/build/release
    export GIT_COMMITTER_DATE='2001-02-03T04:05:06Z' GIT_CONFIG_GLOBAL=/dev/null
    for tool in git dpkg-deb aarch64-linux-gnu-gcc; do
        command -v "$tool" >/dev/null || return 0
    done
    py -c 'import yaml' || return 0
    mkdir -p "$CLONE" "$STUBS"
    # Of an archive, which has no history, there are the files alone.
    { git ls-files -co --exclude-standard 2>/dev/null ||
        find . -path ./build -prune -o -type f -print; } | grep -v __pycache__ |
        tar -c -T - | tar -x -C "$CLONE"
    git -C "$CLONE" init -q
    git -C "$CLONE" add -A
    git -C "$CLONE" -c user.name=x -c user.email=x@localhost commit -qm x
    stub sudo 'exec "$@"'
    stub apt-get 'echo "apt-get $*" >>"$CALLED"'
    stub gh 'printf "%s\n" "$@" >>"$CALLED"'
    export CALLED=$BATS_FILE_TMPDIR/called
    steps >"$BATS_FILE_TMPDIR/steps"
    (
        cd "$CLONE"
        clean
        PATH=$STUBS:$PATH bash -eu "$BATS_FILE_TMPDIR/steps"
    ) >"$BATS_FILE_TMPDIR/out" 2>&1 || echo "status $?" >>"$BATS_FILE_TMPDIR/out"
}

# A command that stands in for one that is not to run here: stub NAME BODY
stub() {
    printf '#!/bin/bash\n%s\n' "$2" >"$STUBS/$1"
    chmod +x "$STUBS/$1"
}

# The environment of a release, and nothing of the tests' own.
clean() {
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES SOURCE_DATE_EPOCH ZC_BUILD
    export CFLAGS='-O0 -g'
    [[ -e ${CUDA_HOME:-/usr/local/cuda}/include/cuda.h ]] ||
        export CUDA_HOME=$BATS_TEST_DIRNAME/../../build/deps/cuda
}

# The workflow's `run:` steps as one script, with expressions filled in as a push of the tag does.
steps() {
    py - .github/workflows/release.yml <<'PYTHON'
import re, shlex, sys, yaml
VALUES = {"github.server_url": "https://example.org", "github.repository": "somebody/libzc",
          "github.ref_name": "v" + re.search('"(.*)"', open("shim/base/version.h").read())[1],
          "github.token": "none"}
def filled(text):
    return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: VALUES[found[1]], str(text))
[job] = yaml.safe_load(open(sys.argv[1]))["jobs"].values()
for name, value in job["env"].items():
    print(f"export {name}={shlex.quote(filled(value))}")
for step in job["steps"]:
    if "run" in step:
        for name, value in step.get("env", {}).items():
            print(f"export {name}={shlex.quote(filled(value))}")
        print(f"(\n{filled(step['run'])}\n)")
PYTHON
}

setup() {
    need_python
    need_packages yaml
    VERSION=$(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)
    URL=https://example.org/somebody/libzc
}

need_release() {
    for tool in git dpkg-deb aarch64-linux-gnu-gcc; do
        command -v "$tool" >/dev/null || skip "no $tool"
    done
    [[ $(uname -m) == x86_64 ]] || skip "the workflow's machine is x86_64"
}

@test "the steps of the workflow build every package, and attach what they built" {
    need_release
    cat "$BATS_FILE_TMPDIR/out"
    [[ $(tail -n 1 "$BATS_FILE_TMPDIR/out") != status* ]]
    run -0 ls "$RELEASED"
    for file in "libzc-$VERSION-py3-none-manylinux_2_*_x86_64.whl" "libzc_$VERSION-1_amd64.deb" \
        "libzc-$VERSION-py3-none-manylinux_2_*_aarch64.whl" "libzc_$VERSION-1_arm64.deb" \
        "libzc-$VERSION.tar.gz" Containerfile NOTES.md SHA256SUMS package.py provenance.json \
        recipe.yaml; do
        [[ $'\n'$output$'\n' == *$'\n'$file$'\n'* ]]
    done
    [[ ${#lines[@]} == 11 ]]
    run -0 cat "$BATS_FILE_TMPDIR/called"
    [[ $output == "apt-get install -y "*gcc-aarch64-linux-gnu* ]]
    [[ $output == *"release"$'\n'"create"$'\n'"v$VERSION"$'\n'* ]]
    for file in "$RELEASED"/*; do
        [[ $output == *$'\n'"build/release/${file##*/}"$'\n'* ]]
    done
}

@test "actions of the workflows are of a named version, and make knows their targets" {
    run -0 make -s help
    local targets=$output
    py - .github/workflows/*.yml >"$BATS_TEST_TMPDIR/found" <<'PYTHON'
import re, sys, yaml
for path in sys.argv[1:]:
    for job in yaml.safe_load(open(path))["jobs"].values():
        ways = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        assert job["timeout-minutes"] and job["steps"], path
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step
            for way in ways:
                text = step.get("run", "").replace("${{ matrix.make }}", way.get("make", ""))
                for words in re.findall(r"\bmake((?: +\w[\w-]*(?![\w=-]))+)", text):
                    print(words.strip().replace(" ", "\n"))
PYTHON
    run -0 sort -u "$BATS_TEST_TMPDIR/found"
    [[ $output == *check* && $output == *release* && ${#lines[@]} -ge 6 ]]
    for target in "${lines[@]}"; do
        [[ $target == all || $targets == *"make $target "* ]]
    done
}

@test "the sums, and where the files come from, are those of the files" {
    need_release
    cd "$RELEASED"
    sha256sum --check --quiet SHA256SUMS
    python3 - "$URL" "v$VERSION" "$(git rev-parse HEAD)" <<'PYTHON'
import hashlib, json, os, sys
url, tag, commit = sys.argv[1:]
told = json.load(open("provenance.json"))
assert told["_type"] == "https://in-toto.io/Statement/v1"
assert told["predicateType"] == "https://slsa.dev/provenance/v1"
found = {one["name"]: one["digest"]["sha256"] for one in told["subject"]}
assert set(found) == set(os.listdir(".")) - {"SHA256SUMS", "provenance.json"}, found
for name, digest in found.items():
    assert hashlib.sha256(open(name, "rb").read()).hexdigest() == digest, name
[source] = told["predicate"]["buildDefinition"]["resolvedDependencies"]
assert source == {"uri": f"git+{url}@refs/tags/{tag}", "digest": {"gitCommit": commit}}, source
assert "gcc" in told["predicate"]["buildDefinition"]["internalParameters"]["tools"]
PYTHON
}

@test "the notes are the changelog's section, with links that lead somewhere" {
    need_release
    [ -s "$RELEASED/NOTES.md" ]
    run -0 grep -c '^- ' "$RELEASED/NOTES.md"
    ((output > 20))
    run -1 grep -E '^## |\]\((docs|policy)/' "$RELEASED/NOTES.md"
    grep -qF "($URL/blob/v$VERSION/docs/" "$RELEASED/NOTES.md"
}

@test "the image's recipe installs the package beside it, for the processor that it is built for" {
    need_release
    local arch
    for arch in amd64 arm64; do
        run -0 sed -n "s/\${TARGETARCH}/$arch/; s/^COPY \(.*\) \/tmp\/$/\1/p" \
            "$RELEASED/Containerfile"
        [[ ${#lines[@]} == 1 ]]
        dpkg-deb -I "$RELEASED/${lines[0]}" >/dev/null
    done
    run -0 grep -vE '^#|^$' "$RELEASED/Containerfile"
    [[ ${lines[0]} == ARG\ BASE=* && ${lines[1]} == "FROM \${BASE}" ]]
    [[ ${lines[2]} == "ARG TARGETARCH" && $output == *'ENTRYPOINT ["zc"]'* ]]
}

# Neither recipe's own tools are among Python's packages: each is parsed, and its commands are run
# on the archive that it names.
@test "the recipes for conda and Spack build and install the archive whose sum they name" {
    need_release
    local sum tree=$BATS_TEST_TMPDIR/tree prefix=$BATS_TEST_TMPDIR/prefix
    clean
    sum=$(sha256sum <"$RELEASED/libzc-$VERSION.tar.gz")
    mkdir -p "$tree" "$prefix/targets/any"
    tar -xz -C "$tree" --strip-components 1 -f "$RELEASED/libzc-$VERSION.tar.gz"
    ln -s "$(realpath "${CUDA_HOME:-/usr/local/cuda}/include")" "$prefix/targets/any/include"
    run -0 py - "$RELEASED/recipe.yaml" "$VERSION" "$URL" "${sum%% *}" <<'PYTHON'
import sys, yaml
path, version, url, digest = sys.argv[1:]
told = yaml.safe_load(open(path))
assert told["schema_version"] == 1 and told["context"] == {"version": version}, told
assert told["source"] == {"sha256": digest, "url": url + "/releases/download/v${{ version }}/"
                          "libzc-${{ version }}.tar.gz"}, told["source"]
assert set(told) == {"schema_version", "context", "package", "source", "build", "requirements",
                     "tests", "about"}
assert not [value for value in told["about"].values() if "@" in str(value)], told["about"]
print("\n".join(told["build"]["script"]))
print("PATH=$PREFIX/bin:$PATH")
print("\n".join(told["tests"][0]["script"]))
PYTHON
    cd "$tree"
    PREFIX=$prefix CPU_COUNT=2 bash -euc "$output"
    rm -rf "$prefix/bin" "$prefix/share"
    # As Spack runs it: its names are built in, and make is a function.
    mkdir "$BATS_TEST_TMPDIR/cc"
    ln -s "$(command -v "${CC:-gcc}")" "$BATS_TEST_TMPDIR/cc/cc"
    PATH=$BATS_TEST_TMPDIR/cc:$PATH run -0 python3 - "$RELEASED/package.py" "$VERSION" "$URL" \
        "${sum%% *}" "$prefix" "${CUDA_HOME:-/usr/local/cuda}" <<'PYTHON'
import subprocess, sys, types
path, version, url, digest, prefix, cuda = sys.argv[1:]
told = []
base = types.ModuleType("spack_repo.builtin.build_systems.makefile")
base.MakefilePackage = object
names = types.ModuleType("spack.package")
for name in ("license", "version", "depends_on", "conflicts"):
    setattr(names, name, lambda *words, name=name, **more: told.append((name, words, more)))
names.make = lambda *words: subprocess.run(["make", "-s", *words], check=True)
parts = base.__name__.split(".")
for at in range(1, len(parts)):
    sys.modules[".".join(parts[:at])] = types.ModuleType(".".join(parts[:at]))
sys.modules.update({base.__name__: base, "spack": types.ModuleType("spack"),
                    "spack.package": names})
scope = {"__name__": "package"}
exec(compile(open(path).read(), path, "exec"), scope)
one = scope["Libzc"]()
assert one.url == f"{url}/releases/download/v{version}/libzc-{version}.tar.gz", one.url
assert ("version", (version,), {"sha256": digest}) in told, told
one.prefix, one.spec = prefix, {"cuda": types.SimpleNamespace(prefix=cuda)}
one.build(one.spec, prefix)
one.install(one.spec, prefix)
PYTHON
    [[ $("$prefix/bin/zc" -V) == "zc $VERSION" ]]
    "$prefix/bin/zc" check @everyday
}

@test "a release is of a commit, of its version's tag, and of a named project" {
    need_release
    cd "$CLONE"
    clean
    run -2 make -s release TAG=v9.9.9 PROJECT_URL="$URL"
    [[ $output == *"the tag is v9.9.9, but the version in shim/base/version.h is $VERSION"* ]]
    run -2 make -s release
    [[ $output == *"release: say where the project lives by PROJECT_URL="* ]]
    run -2 make -s release PROJECT_URL="$URL" CROSS=none-
    [[ $output == *"release: no none-gcc: install gcc-none, or name another prefix by CROSS"* ]]
    echo >>Makefile
    run -2 make -s release PROJECT_URL="$URL"
    [[ $output == *"release: commit what was changed: "* ]]
    git checkout -q Makefile
    [ -e "$RELEASED/SHA256SUMS" ]
}

@test "forms of issues are what their place reads, and ask for what a command prints" {
    py - "$FORMS"/*.yml <<'PYTHON'
import os, sys, yaml
for path in sys.argv[1:]:
    form = yaml.safe_load(open(path))
    if os.path.basename(path) == "config.yml":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}, form
        continue
    assert set(form) <= {"name", "description", "body", "title", "labels"}, path
    names = []
    for field in form["body"]:
        assert field["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes"), field
        if field["type"] == "markdown":
            assert set(field) == {"type", "attributes"} and field["attributes"]["value"]
            continue
        assert set(field) <= {"type", "id", "attributes", "validations"}, field
        assert field["attributes"]["label"] and set(field["attributes"]) <= {
            "label", "description", "render", "options", "placeholder", "value"}, field
        names.append(field["id"])
    assert len(set(names)) == len(names) and "doctor" in names, path
PYTHON
    run -0 grep -ohE '`zc [a-z]+ --json`' "$FORMS"/*.yml
    [[ $(sort -u <<<"$output") == '`zc doctor --json`' ]]
    zc doctor --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["host"]["cpus"]'
    # Pages that the forms lead to.
    for page in $(grep -ohE '\.\./blob/HEAD/[A-Za-z/.]+' "$FORMS"/*.yml); do
        [ -f "${page#../blob/HEAD/}" ]
    done
}
