#!/usr/bin/env bash
# Every test, then the slow lanes: random histories of stores. Called by `make test-all`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh

tools/test.sh
# About an hour and a half on two cores.
HYPERCHUNK_MODEL_HISTORIES=${HYPERCHUNK_MODEL_HISTORIES:-20000} \
    .venv/bin/python -m pytest python/tests/store/test_model.py
