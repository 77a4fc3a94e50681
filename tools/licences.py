"""Checks the shipped crates: their licences, their sources, and that none links libhdf5.

Reads `cargo metadata` for this machine's target; needs no network beyond cargo's own."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
}
# libhdf5 is found at run time, never linked: two copies in a process corrupt each other's state.
BANNED = {"hdf5", "hdf5-metno", "hdf5-metno-sys", "hdf5-sys", "netcdf", "netcdf-sys"}


def allows(expression: str) -> bool:
    """True if an SPDX expression can be met with the allowed licences (AND binds tighter than OR, parentheses
    tightest).
    """
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression)

    def alternatives() -> bool:
        met = conjunction()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = conjunction() or met
        return met

    def conjunction() -> bool:
        met = licence()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = licence() and met
        return met

    def licence() -> bool:
        token = tokens.pop(0)
        if token == "(":
            met = alternatives()
            tokens.pop(0)
            return met
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in ALLOWED

    return alternatives() and not tokens


def host() -> str:
    """Returns this machine's target triple."""
    output = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return next(line.removeprefix("host: ") for line in output.splitlines() if line.startswith("host: "))


def main() -> None:
    """Prints one line for each forbidden crate."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host()]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    metadata = json.loads(output)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    errors = []
    for package in (package for package in metadata["packages"] if package["id"] in used):
        crate = f"{package['name']} {package['version']}"
        if not allows(package["license"] or "none"):
            errors.append(f"{crate}: licence {package['license']} is not in the list of tools/licences.py")
        if package["source"] and not package["source"].startswith(("registry+", "sparse+")):
            errors.append(f"{crate}: comes from {package['source']}, not from a registry")
        if package["name"] in BANNED:
            errors.append(f"{crate}: must not be linked (ARCHITECTURE.md)")
    for line in errors:
        print(f"licences: error: {line}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
