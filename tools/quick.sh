#!/usr/bin/env bash
# The inner loop: finds most mistakes. Called by `make quick`, which sets up the requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh

cargo fmt --all --check
cargo check --locked --quiet --workspace
.venv/bin/python tools/tidy.py
.venv/bin/python -m ruff check --quiet .
processes=$(getconf _NPROCESSORS_ONLN)
.venv/bin/python -m pytest -q -n $((processes < 4 ? processes : 4)) --dist worksteal -m 'not slow and not longer' python/tests
