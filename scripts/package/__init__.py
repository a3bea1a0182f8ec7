# SPDX-License-Identifier: MIT
"""Makes packages of what `make install` puts into a folder: a wheel, a Debian package.

`make wheel` and `make deb` run these; `pip install .` comes here by pyproject.toml.
"""
