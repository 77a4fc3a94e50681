#!/usr/bin/env bash
# Every test, Rust's then Python's, and one line with the time they took. Called by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh
start=${CI_START:-$(date +%s)}
state=${CI_STATE:-$(tools/warmth.sh)}

tools/setup.sh system test package s3
cargo test --locked --workspace
# The library that tests of C load: no test waits for its build.
cargo build --locked --workspace --lib
# The npm package, for its tests, where it can be built and run: two minutes.
.venv/bin/python tools/make_npm.py --if-possible
# One process for each core; each begins with its half of the files.
processes=$(getconf _NPROCESSORS_ONLN)
.venv/bin/python -m pytest -n $((processes < 4 ? processes : 4)) --dist worksteal python/tests
.venv/bin/python tools/another_python.py
elapsed=$(($(date +%s) - start))
echo "CI time: $((elapsed / 60)) min $((elapsed % 60)) s, $state, on $(nproc) cores"
