#!/usr/bin/env bash
# Says whether a run that starts now is warm (environment set up, crates built) or cold.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/hyperchunk/target}
if [[ -e .venv/.stamp-package && -d $target ]]; then
    echo warm
elif [[ -d $target ]]; then
    echo "cold but for crates built before"
else
    echo cold
fi
