#!/usr/bin/env bash
# Prints whether a run that starts now is warm (environment set up, crates built) or cold.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh
if [[ -e .venv/.stamp-package && -d $CARGO_TARGET_DIR/debug/deps ]]; then
    echo warm
elif [[ -d $CARGO_TARGET_DIR ]]; then
    echo "cold but for crates built before"
else
    echo cold
fi
