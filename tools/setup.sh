#!/usr/bin/env bash
# Sets up the requirements of the Makefile's targets: tools/setup.sh [GROUP …]
# A GROUP is `system` (packages of the operating system), `emulators` (QEMU, Wine and linkers, for `make platforms`),
# `package` (Hyperchunk itself, editable, in .venv/), `s3` (an S3 server for tests and the demo, if Go is here) or X of a
# tools/requirements-X.txt. Safe to run again: an existing group costs a hash.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh
root=$PWD

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

# usable PYTHON: succeeds if it is 3.11 or newer, with venv.
usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [[ -n $candidate ]] && command -v "$candidate" >/dev/null && usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# install PACKAGE…: through apt-get, as root or with a sudo without a password; fails if that is impossible.
install() {
    local as_root=()
    command -v apt-get >/dev/null || return 1
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    say "installing system packages: $*"
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    "${as_root[@]}" apt-get update -qq </dev/null >/dev/null 2>&1 || true
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@" </dev/null >.venv/.apt.log 2>&1
}

# missing: prints the system packages for missing programs.
missing() {
    command -v cc >/dev/null && command -v c++ >/dev/null && command -v g++ >/dev/null || echo gcc g++ libc6-dev
    command -v make >/dev/null || echo make
    command -v h5cc >/dev/null || echo libhdf5-dev
    command -v luajit >/dev/null || echo luajit
    command -v h5dump >/dev/null && command -v h5repack >/dev/null || echo hdf5-tools
}

# missing_emulators: prints the system packages for missing emulators and their linkers.
missing_emulators() {
    command -v qemu-aarch64 >/dev/null || echo qemu-user
    command -v aarch64-linux-gnu-gcc >/dev/null || echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    command -v wine >/dev/null || echo wine wine64
    command -v x86_64-w64-mingw32-gcc >/dev/null || echo gcc-mingw-w64-x86-64-win32
}

emulators() {
    local packages
    packages=$(missing_emulators | xargs)
    [[ -n $packages ]] || return 0
    # shellcheck disable=SC2086 # one word per package
    install $packages || say "missing: apt-get install $packages; what needs them is skipped"
}

system() {
    local packages
    packages=$(missing | xargs)
    [[ -n $packages ]] || return 0
    # One try for each set of packages; after a failure, programs that need them report it.
    if [[ $(cat .venv/.tried-system 2>/dev/null) != "$packages" ]]; then
        # shellcheck disable=SC2086 # one word per package
        install $packages || true
        echo "$packages" >.venv/.tried-system
        packages=$(missing | xargs)
    fi
    [[ -z $packages ]] || say "missing: apt-get install $packages; tests that need them skip"
}

venv() {
    .venv/bin/python -c 'import pip' 2>/dev/null && return
    local python
    if ! python=$(find_python); then
        install python3 python3-venv || true
        python=$(find_python) || fail "needs Python 3.11 or newer with venv: apt-get install python3 python3-venv"
    fi
    say "making .venv/ with $("$python" --version)"
    # Not --clear: the lock is in the folder, too.
    rm -rf .venv/.stamp-* .venv/bin .venv/lib .venv/lib64 .venv/include .venv/pyvenv.cfg
    "$python" -m venv .venv
}

pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input "$@" </dev/null; }

# stamped NAME KEY COMMAND…: runs COMMAND unless it succeeded before with the same KEY.
stamped() {
    local stamp=.venv/.stamp-$1 key=$2
    shift 2
    [[ $(cat "$stamp" 2>/dev/null) == "$key" ]] && return
    "$@"
    echo "$key" >"$stamp"
}

requirements() {
    local plain=tools/requirements-$1.txt bare=tools/requirements-$1-nodeps.txt files=()
    [[ -f $plain ]] || fail "no such group: $1"
    files=("$plain")
    [[ -f $bare ]] && files+=("$bare")
    stamped "$1" "$(cat "${files[@]}" | sha256sum)" install_requirements "$1" "${files[@]}"
}

install_requirements() {
    say "installing Python packages: $1"
    pip install -q -r "$2"
    [[ -z ${3:-} ]] || pip install -q --no-deps -r "$3"
}

# start_build: compiles in the background, while pip waits for the network.
start_build() {
    [[ -n $build || " $groups " != *" package "* ]] && return
    # In a process group of its own, which is ended with this script.
    set -m
    .venv/bin/python tools/native.py 9>&- </dev/null &
    build=$!
    set +m
    trap 'kill -- "-$build" 2>/dev/null || true' EXIT
}

package() {
    requirements build
    wait "$build"
    trap - EXIT
    stamped package "$(echo "$root" | cat - pyproject.toml hatch_build.py | sha256sum)" install_package
}

install_package() {
    say "installing hyperchunk (editable)"
    pip install -q --no-build-isolation -e .
}

mkdir -p .venv
if command -v flock >/dev/null; then
    exec 9>.venv/.lock
    flock 9
fi
venv
build='' groups=$*
[[ " $groups " == *" system "* ]] || start_build
for group in "$@"; do
    case $group in
        system) system && start_build ;;
        emulators) emulators ;;
        package) package ;;
        s3) .venv/bin/python tools/s3server.py build || say "no S3 server: what needs one is left out" ;;
        *) requirements "$group" ;;
    esac
done
