#!/usr/bin/env bash
# The tests of a lane, and one line with the time they took: `tools/test.sh fast` is called by `make test`, and
# `tools/test.sh slow` by `make test-slow`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh
start=${CI_START:-$(date +%s)}
state=${CI_STATE:-$(tools/warmth.sh)}

lane=${1:-fast}
tools/setup.sh system test package s3
if [[ $lane = fast ]]; then
    cargo test --locked --workspace
    selection='not slow'
else
    # The npm package, for its tests, where it can be built and run: two minutes.
    .venv/bin/python tools/make_npm.py --if-possible
    selection=slow
fi
# The library that tests of C load: no test waits for its build.
cargo build --locked --workspace --lib
# One process for each core; each begins with its half of the files.
processes=$(getconf _NPROCESSORS_ONLN)
.venv/bin/python -m pytest -n $((processes < 4 ? processes : 4)) --dist worksteal -m "$selection" python/tests
if [[ $lane = fast ]]; then
    .venv/bin/python tools/another_python.py
fi
elapsed=$(($(date +%s) - start))
echo "CI time: $((elapsed / 60)) min $((elapsed % 60)) s, $state, on $(nproc) cores"
