#!/usr/bin/env bash
# Formatting, lints, types, layering, licences and advisories. Called by `make lint`, which sets up the requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh
py=.venv/bin/python

step() {
    echo "lint: $*"
    "$@"
}

step cargo fmt --all --check
step cargo clippy --locked --quiet --workspace --all-targets -- -D warnings
step "$py" tools/tidy.py
step "$py" tools/prose.py
step "$py" tools/platforms.py page --check
step "$py" tools/platforms.py check --installed
step "$py" tools/licences.py
step "$py" tools/packages.py check
step "$py" tools/advisories.py
step "$py" -m ruff check --quiet .
step "$py" -m ruff format --quiet --check .
step "$py" -m mypy
step .venv/bin/shellcheck -x tools/*.sh .ci/run
step "$py" tools/actionlint.py
step env MYPYPATH=python "$py" -m mypy.stubtest hyperchunk._core
echo "lint: all clean"
