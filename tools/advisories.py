"""Compares the crates of every Cargo.lock with RustSec's advisories, without a network.

    python tools/advisories.py                    # checks; part of `make lint`
    python tools/advisories.py --refresh          # renews tools/advisories.json from RustSec's database (git, network)
    python tools/advisories.py --refresh FOLDER   # the same from an existing clone

`tools/advisories.json` holds the advisories about our dependencies, including the fixed ones, so that a
downgrade to an affected version is detected. A dependency that was added after the list was made is an error until the
list is renewed.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "advisories.json"
DATABASE = "https://github.com/rustsec/advisory-db"
LOCKS = ("Cargo.lock", "fuzz/Cargo.lock", "bench/rivals/Cargo.lock")
# These are not shipped: their findings are printed, but are no errors.
UNSHIPPED = {"bench/rivals/Cargo.lock"}
# Age in days above which a check asks to renew the list.
OLD_DAYS = 90
# Advisories that do not affect us: id -> reason.
ACCEPTED: dict[str, str] = {}

Version = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def version(text: str) -> Version:
    """Returns a version as a key that sorts as in Cargo."""
    number, _, label = text.split("+", 1)[0].partition("-")
    parts = [int(part) for part in number.split(".")] + [0, 0]
    order = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in label.split(".") if part)
    # A release comes after its pre-releases.
    return parts[0], parts[1], parts[2], not label, order


def bounds(requirement: str) -> Iterator[tuple[str, Version]]:
    """Yields the comparisons in one part of a requirement."""
    match = re.fullmatch(r"\s*(>=|<=|>|<|=|\^|~)?\s*([0-9][^\s]*)\s*", requirement)
    if match is None:
        raise ValueError(f"cannot read the version requirement {requirement!r}")
    operator, text = match.group(1) or "^", match.group(2)
    if operator not in "^~":
        yield operator, version(text)
        return
    numbers = [int(part) for part in text.split("-")[0].split(".")]
    last = min(1, len(numbers) - 1)
    if operator == "^":
        last = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
    above = [*numbers[:last], numbers[last] + 1]
    yield ">=", version(text)
    yield "<", version(".".join(map(str, above)))


def meets(found: str, requirement: str) -> bool:
    """True if a version meets a requirement (`>= 1.2, < 2`)."""
    this = version(found)
    tests = {
        ">=": lambda other: this >= other,
        "<=": lambda other: this <= other,
        ">": lambda other: this > other,
        "<": lambda other: this < other,
        "=": lambda other: this == other,
    }
    return all(tests[operator](other) for part in requirement.split(",") for operator, other in bounds(part))


def locked() -> dict[str, set[tuple[str, str]]]:
    """Returns crates and versions of each Cargo.lock; our own are left out."""
    found = {}
    for name in LOCKS:
        packages = tomllib.loads((ROOT / name).read_text())["package"]
        found[name] = {(package["name"], package["version"]) for package in packages if "source" in package}
    return found


def findings(known: dict[str, Any], locks: dict[str, set[tuple[str, str]]]) -> tuple[list[str], list[str]]:
    """Returns errors and notes, one for each affected crate."""
    errors: list[str] = []
    notes: list[str] = []
    unused = set(ACCEPTED)
    for lock, packages in locks.items():
        serious = notes if lock in UNSHIPPED else errors
        for name, found in sorted(packages):
            if name not in known["crates"]:
                errors.append(f"{lock}: {name} is not in tools/advisories.json; run tools/advisories.py --refresh")
            for advisory in known["advisories"].get(name, []):
                safe = [*advisory["patched"], *advisory["unaffected"]]
                if any(meets(found, requirement) for requirement in safe):
                    continue
                if advisory["id"] in ACCEPTED:
                    unused.discard(advisory["id"])
                    continue
                fixed = " or ".join(advisory["patched"]) or "no version"
                text = f"{lock}: {name} {found}: {advisory['id']}: {advisory['title']} (fixed in {fixed})"
                (notes if advisory["kind"] in ("unmaintained", "notice") else serious).append(text)
    errors += [f"tools/advisories.py: {name} affects none of our crates: remove it from ACCEPTED" for name in unused]
    return errors, notes


def advisory(text: str) -> dict[str, Any] | None:
    """Returns the stored form of an advisory; None if it was withdrawn."""
    front, _, body = text.removeprefix("```toml\n").partition("\n```")
    parsed = tomllib.loads(front)
    about, versions = parsed["advisory"], parsed.get("versions", {})
    if "withdrawn" in about:
        return None
    title = re.search(r"^# (.+)$", body, re.MULTILINE)
    return {
        "id": about["id"],
        "date": str(about["date"]),
        "kind": about.get("informational", "vulnerability"),
        "title": title.group(1).strip() if title else about["id"],
        "patched": versions.get("patched", []),
        "unaffected": versions.get("unaffected", []),
    }


def refresh(database: Path) -> None:
    """Writes the list from a clone of RustSec's database."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(database), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    commit, day = git("log", "-1", "--format=%H %cs").split()
    crates = sorted({name for packages in locked().values() for name, _ in packages})
    kept: dict[str, list[dict[str, Any]]] = {}
    for path in git("ls-tree", "-r", "--name-only", "HEAD", "crates").splitlines():
        name = path.split("/")[1]
        if name in crates and (found := advisory(git("show", f"HEAD:{path}"))) is not None:
            for requirement in [*found["patched"], *found["unaffected"]]:
                meets("0.0.0", requirement)
            kept.setdefault(name, []).append(found)
    made = {"database": DATABASE, "commit": commit, "date": day, "crates": crates, "advisories": kept}
    LIST.write_text(json.dumps(made, indent=1) + "\n")


def main() -> None:
    """Checks, or renews the list and checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refresh", nargs="?", const="", metavar="FOLDER", help="renew the list")
    arguments = parser.parse_args()
    if arguments.refresh == "":
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "clone", "--quiet", "--depth", "1", DATABASE, folder], check=True)
            refresh(Path(folder))
    elif arguments.refresh:
        refresh(Path(arguments.refresh))
    known = json.loads(LIST.read_text())
    errors, notes = findings(known, locked())
    days = (datetime.date.today() - datetime.date.fromisoformat(known["date"])).days
    old = "; renew it with `python tools/advisories.py --refresh`" if days > OLD_DAYS else ""
    print(f"advisories: the list is from {known['date']}, {days} days old{old}")
    for line in notes:
        print(f"advisories: note: {line}")
    for line in errors:
        print(f"advisories: error: {line}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
