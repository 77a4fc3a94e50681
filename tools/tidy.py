"""Checks what linters do not: the crate graph, the layers of modules, file lengths, module docs, and paths of a
developer's machine.

Prints one line for each finding, then fails if there was an error."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from layers import module_layers

ROOT = Path(__file__).resolve().parent.parent

# Our crates that each crate may use. To add a crate, first describe its contents and its restrictions in
# ARCHITECTURE.md, then add a row.
MAY_USE = {
    "hyperchunk-format": set(),
    "hyperchunk-net": set(),
    # Audited on its own, so it uses no other crate.
    "hyperchunk-sandbox": set(),
    "hyperchunk-expression": {"hyperchunk-format"},
    "hyperchunk": {"hyperchunk-format", "hyperchunk-net"},
    "hyperchunk-store": {"hyperchunk", "hyperchunk-format"},
    "hyperchunk-arrow": {"hyperchunk", "hyperchunk-store"},
    "hyperchunk-c": {"hyperchunk", "hyperchunk-live", "hyperchunk-udf"},
    "hyperchunk-cuda": {"hyperchunk-format"},
    "hyperchunk-cuda-fake": set(),
    "hyperchunk-live": {"hyperchunk", "hyperchunk-expression", "hyperchunk-store", "hyperchunk-udf"},
    "hyperchunk-udf": {"hyperchunk-expression", "hyperchunk-format", "hyperchunk-sandbox"},
    "hyperchunk-udf-worker": {"hyperchunk-cuda", "hyperchunk-net", "hyperchunk-sandbox", "hyperchunk-udf"},
    "hyperchunk-h5abi": {
        "hyperchunk",
        "hyperchunk-expression",
        "hyperchunk-format",
        "hyperchunk-live",
        "hyperchunk-store",
        "hyperchunk-udf",
    },
    "hyperchunk-door": set(),
    "hyperchunk-filter": {"hyperchunk-door"},
    "hyperchunk-wasm-worker": {"hyperchunk-sandbox", "hyperchunk-udf"},
    "hyperchunk-web": {"hyperchunk", "hyperchunk-format"},
    "hyperchunk-snappy": {"hyperchunk-door"},
    "hyperchunk-vol": {"hyperchunk-h5abi"},
    "hyperchunk-vol-named": {"hyperchunk-door"},
    "hyperchunk-cli": {
        "hyperchunk",
        "hyperchunk-arrow",
        "hyperchunk-cuda",
        "hyperchunk-format",
        "hyperchunk-h5abi",
        "hyperchunk-live",
        "hyperchunk-sandbox",
        "hyperchunk-store",
        "hyperchunk-udf",
    },
    "hyperchunk-s3proxy": set(),
    "hyperchunk-python": {
        "hyperchunk",
        "hyperchunk-arrow",
        "hyperchunk-cli",
        "hyperchunk-cuda",
        "hyperchunk-format",
        "hyperchunk-h5abi",
        "hyperchunk-live",
        "hyperchunk-sandbox",
        "hyperchunk-store",
        "hyperchunk-udf",
    },
}

LONG, TOO_LONG = 400, 800
MACHINE_PATH = re.compile(r"(?<![\w.)}\]*-])/(?:work|root|home/[a-z]\w*|Users/[A-Za-z]\w*)/")
TEXT = {".c", ".cpp", ".h", ".json", ".lua", ".md", ".py", ".pyi", ".rs", ".sh", ".toml", ".txt", ".yml", ""}


def tracked() -> list[Path]:
    """Returns the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in sorted(set(names.splitlines())) if (ROOT / name).is_file()]


def crate_graph() -> list[str]:
    """Returns crates that use another one against the table, or do not inherit the workspace's lints."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    packages = {package["name"]: package for package in json.loads(output)["packages"]}
    errors = []
    for name, package in packages.items():
        if name not in MAY_USE:
            errors.append(f"{name}: not in the crate table of tools/tidy.py")
            continue
        ours = {d["name"] for d in package["dependencies"] if d["kind"] != "dev" and d["name"] in packages}
        errors += [f"{name} must not use {used}" for used in sorted(ours - MAY_USE[name])]
        manifest = tomllib.loads(Path(package["manifest_path"]).read_text())
        if manifest.get("lints") != {"workspace": True}:
            errors.append(f"{name}: its Cargo.toml lacks `[lints] workspace = true`")
    return errors


def length(lines: list[str]) -> int:
    """Returns the number of lines of a file, without tests at its end."""
    for number, line in enumerate(lines[:-1]):
        if line == "#[cfg(test)]" and lines[number + 1].startswith("mod tests {"):
            return number
    return len(lines)


def has_module_doc(lines: list[str]) -> bool:
    """True if a Rust file starts with a module doc."""
    top = (line for line in lines if line.strip() and not line.startswith(("#!", "// ")))
    return next(top, "").startswith("//!")


def check_file(path: Path) -> tuple[list[str], list[str]]:
    """Returns a file's errors and warnings."""
    errors: list[str] = []
    warnings: list[str] = []
    name = path.relative_to(ROOT)
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if found := MACHINE_PATH.search(line):
            errors.append(f"{name}:{number}: a path of one machine: {found.group()}")
    if path.suffix == ".rs" and path.name != "tests.rs" and not has_module_doc(lines):
        errors.append(f"{name}: no module doc (//!) at its top")
    if path.suffix in {".rs", ".py", ".sh"}:
        count = length(lines)
        if count > TOO_LONG:
            errors.append(f"{name}: {count} lines, over {TOO_LONG}")
        elif count > LONG:
            warnings.append(f"{name}: {count} lines, over {LONG}")
    return errors, warnings


def main() -> None:
    """Runs every check."""
    errors = crate_graph() + module_layers(ROOT)
    warnings: list[str] = []
    for path in tracked():
        if path.suffix in TEXT and path.name != "Cargo.lock":
            found = check_file(path)
            errors += found[0]
            warnings += found[1]
    for line in warnings:
        print(f"tidy: warning: {line}")
    for line in errors:
        print(f"tidy: error: {line}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
