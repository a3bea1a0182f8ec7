# SPDX-License-Identifier: MIT
"""The parts of the command zc.

cli holds the table of subcommands, and `commands` one module for each.  Shared: logs and counters
read what libzc wrote; units, table, screen, names and progress print it.  Standard library alone.
"""
