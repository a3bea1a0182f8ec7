# SPDX-License-Identifier: MIT
# For tests that use Python packages which `make deps` gets.  Loaded in the top folder.

PACKAGES=$PWD/build/deps/python

# Lets the test import them.  Without one it is skipped, but fails where `make deps` got that:
# need_packages MODULE...
need_packages() {
    local module
    export PYTHONPATH=$PACKAGES${PYTHONPATH:+:$PYTHONPATH}
    for module in "$@"; do
        python3 -c "import $module" && continue
        if grep -qxF "$module" "$PACKAGES/modules" 2>/dev/null; then return 1; fi
        skip "no $module: make deps"
    done
}
