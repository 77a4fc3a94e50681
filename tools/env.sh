# shellcheck shell=bash
# Sourced by the scripts beside it and by the Makefile: the paths of cargo and of its output (outside the checkout, so
# that a second checkout finds third-party crates built). tools/native.py does the same.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/hyperchunk/target}
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
