# SPDX-License-Identifier: MIT
"""The checks on a real GPU: run.sh starts them as `python3 -m gpu.check` from the folder above."""
