# SPDX-License-Identifier: MIT
"""Changes the library line by line, and runs the tests that are to see it."""
