# SPDX-License-Identifier: MIT
"""The subcommands of zc, one module each.

A module has `add_arguments(parser)`, which describes its command line to argparse, and
`run(args) -> int`, which does the work and returns the exit status.
"""
