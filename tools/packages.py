"""The crates for crates.io: the fields for their pages, their order, and their archives.

    python tools/packages.py check     # part of `make lint`: fields, licences, sizes, order
    python tools/packages.py order     # one crate a line, each after the crates that it uses
    python tools/packages.py build     # an archive of each, as `cargo publish` would send it, in cargo's folder
    python tools/packages.py verify    # the same, and each is compiled from its archive (many minutes)

Standard library only; `check` and `order` need no network."""

import argparse
import graphlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import native

ROOT = Path(__file__).resolve().parent.parent
# crates.io accepts 10 MB. Our crates contain only sources and small files for their tests.
MAX_CRATE_BYTES, MAX_FILE_BYTES = 3_000_000, 300_000
# Fields that all crates take from the workspace, so that they agree.
INHERITED = ("version", "edition", "rust-version", "license", "repository")
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")
MAX_WORDS = 5

Package = dict[str, Any]


def workspace() -> dict[str, Package]:
    """Returns what cargo knows of each crate of the workspace, by name."""
    command = ["cargo", "metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"]
    env = native.environment()
    output = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {package["name"]: package for package in json.loads(output)["packages"]}


def published(packages: dict[str, Package]) -> dict[str, Package]:
    """Returns the crates for crates.io."""
    return {name: package for name, package in packages.items() if package["publish"] is None}


def used(package: Package) -> list[dict[str, Any]]:
    """Returns the dependencies on crates of this checkout that stay in an archive.

    Cargo omits dependencies that are only for tests and have no version.
    """
    ours = [dependency for dependency in package["dependencies"] if dependency.get("path")]
    return [dependency for dependency in ours if dependency["kind"] != "dev" or dependency["req"] != "*"]


def order(packages: dict[str, Package]) -> list[str]:
    """Returns the names of the crates for crates.io, each after the crates that it uses. Raises
    `CycleError` if no such order exists."""
    public = published(packages)
    graph = {name: sorted({other["name"] for other in used(public[name])} & set(public)) for name in sorted(public)}
    return list(graphlib.TopologicalSorter(graph).static_order())


def problems(packages: dict[str, Package]) -> list[str]:
    """Returns a line for each problem that crates.io would reject, or a reader of its pages would notice."""
    public = published(packages)
    found = []
    for name, package in packages.items():
        lines = (
            page_problems(package) + use_problems(package, set(public)) if name in public else reason_problems(package)
        )
        found += [f"{name}: {line}" for line in lines]
    try:
        order(packages)
    except graphlib.CycleError as error:
        found.append(f"cannot order the crates: {' uses '.join(error.args[1])}; break the cycle")
    return found


def page_problems(package: Package) -> list[str]:
    """Checks the fields that a crate's page shows."""
    found = [f"no {field}" for field in ("description", "license", "repository", "readme") if not package[field]]
    manifest = Path(package["manifest_path"]).read_text(encoding="utf-8")
    for field in (*INHERITED, "readme"):
        if f"\n{field}.workspace = true\n" not in manifest:
            found.append(f"expected `{field}.workspace = true`, so that all crates agree")
    if package["documentation"] != (wanted := f"https://docs.rs/{package['name']}"):
        found.append(f"documentation: expected {wanted}, got {package['documentation']}")
    for field in ("keywords", "categories"):
        if not 1 <= len(package[field]) <= MAX_WORDS:
            found.append(f"{field}: expected 1 to {MAX_WORDS}, got {len(package[field])}")
    bad = [word for word in package["keywords"] if not re.fullmatch(r"[a-z][a-z0-9_+-]{0,19}", word)]
    return found + [f"keyword {word!r}: crates.io accepts up to 20 letters, digits, _, + and -" for word in bad]


def use_problems(package: Package, public: set[str]) -> list[str]:
    """Checks that a crate depends only on crates for crates.io, and names a version of each."""
    found = []
    for dependency in used(package):
        if dependency["name"] not in public:
            found.append(f"uses {dependency['name']}, which is not for crates.io")
        elif dependency["req"] == "*":
            found.append(f"uses {dependency['name']} without a version")
    return found


def reason_problems(package: Package) -> list[str]:
    """Checks that the manifest of a crate that is not for crates.io says why."""
    manifest = Path(package["manifest_path"]).read_text(encoding="utf-8")
    if re.search(r"^#[^\n]+\npublish = false$", manifest, re.MULTILINE):
        return []
    return ["expected a comment above `publish = false` that says why"]


def file_problems(package: Package) -> list[str]:
    """Checks the licences of a crate, and the sizes of its files in the repository."""
    folder = Path(package["manifest_path"]).parent
    found = []
    for name in LICENCES:
        copy = folder / name
        if not copy.is_file() or copy.read_bytes() != (ROOT / name).read_bytes():
            found.append(f"{name}: expected a copy of {name} of the root folder")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    sizes = {name: (folder / name).stat().st_size for name in listed.split("\0") if name and (folder / name).is_file()}
    large = [name for name, size in sizes.items() if size > MAX_FILE_BYTES]
    found += [
        f"{name}: {sizes[name]} bytes, expected at most {MAX_FILE_BYTES}; leave it out by `exclude`" for name in large
    ]
    if (total := sum(sizes.values())) > MAX_CRATE_BYTES:
        found.append(f"{total} bytes of files, expected at most {MAX_CRATE_BYTES}; leave some out by `exclude`")
    return found


def check() -> None:
    """Prints a line for each problem; ends the program if there is one."""
    packages = workspace()
    found = problems(packages)
    for name, package in published(packages).items():
        found += [f"{name}: {line}" for line in file_problems(package)]
    for line in found:
        print(f"packages: {line}")
    if found:
        sys.exit(1)
    print(f"packages: {len(published(packages))} crates can be published on crates.io")


def build(names: list[str], *options: str) -> None:
    """Makes the archives of crates."""
    command = ["cargo", "package", "--locked", "--allow-dirty", *options]
    command += [word for name in names for word in ("-p", name)]
    if subprocess.run(command, cwd=ROOT, env=native.environment(), check=False).returncode != 0:
        sys.exit("packages: `cargo package` failed; its messages are above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["check", "order", "build", "verify"])
    parser.add_argument("names", nargs="*", metavar="CRATE", help="with build and verify: these crates; by default all")
    options = parser.parse_args()
    if options.step == "check":
        check()
    elif options.step == "order":
        print("\n".join(order(workspace())))
    else:
        build(options.names or order(workspace()), *(["--no-verify"] if options.step == "build" else []))


if __name__ == "__main__":
    main()
