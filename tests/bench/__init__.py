# SPDX-License-Identifier: MIT
"""Runs the programs of kernels/ in several ways side by side and compares their times."""
