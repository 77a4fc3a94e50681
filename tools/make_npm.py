"""Builds the npm package in bindings/javascript: the WebAssembly module, then `npm pack` with `--pack`.

Prints the size of the module, and fails if it exceeds the maximum. Standard library only."""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import native

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "javascript"
MODULE = PACKAGE / "hyperchunk.wasm"
TARGET = "wasm32-unknown-unknown"
# Maximum size of the module, compressed as by web servers.
MAX_GZIP_BYTES = 1_500_000
# Size of the module's stack: parsers recurse to the depth that their limits allow.
STACK_BYTES = 4 << 20


def lacking(env: dict[str, str]) -> str | None:
    """Tries to install the target; returns why the package cannot be built and run here, or None."""
    if shutil.which("node") is None:
        return "node is missing"
    if shutil.which("rustup", path=env["PATH"]) is not None:
        subprocess.run(["rustup", "target", "add", TARGET], cwd=ROOT, env=env, capture_output=True, check=False)
    library = ["rustc", "--print", "target-libdir", "--target", TARGET]
    found = subprocess.run(library, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if found.returncode != 0 or not Path(found.stdout.strip()).is_dir():
        return f"rustc has no standard library for {TARGET} (rustup target add {TARGET})"
    return None


def build(env: dict[str, str]) -> Path:
    """Builds the module; returns its path."""
    folder = Path(native.target_dir())
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    # Messages contain no paths of this machine, and each checkout makes the same bytes. `make lint` shows warnings.
    flags = [f"-Clink-arg=-zstack-size={STACK_BYTES}", "-Awarnings"]
    flags += [f"--remap-path-prefix={ROOT}=.", f"--remap-path-prefix={home}=cargo"]
    command = ["cargo", "build", "--locked", "--profile", "web", "--target", TARGET, "-p", "hyperchunk-web", "--lib"]
    subprocess.run(command, cwd=ROOT, env=env | {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags)}, check=True)
    return folder / TARGET / "web" / "hyperchunk_web.wasm"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pack", metavar="FOLDER", type=Path, help="make the package's archive in this folder")
    parser.add_argument("--if-possible", action="store_true", help="do nothing if it cannot be built and run here")
    arguments = parser.parse_args()
    env = native.environment()
    if (reason := lacking(env)) is not None:
        if not arguments.if_possible:
            sys.exit(f"npm: {reason}")
        print(f"npm: not built: {reason}")
        return
    module = build(env).read_bytes()
    if not MODULE.exists() or MODULE.read_bytes() != module:
        MODULE.write_bytes(module)
    size = len(gzip.compress(module, 9))
    print(f"npm: {MODULE.relative_to(ROOT)}: {len(module):,} bytes, {size:,} with gzip", flush=True)
    if size > MAX_GZIP_BYTES:
        sys.exit(f"npm: the module has {size:,} bytes with gzip; expected at most {MAX_GZIP_BYTES:,}")
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copyfile(ROOT / licence, PACKAGE / licence)
    if arguments.pack is not None:
        arguments.pack.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--pack-destination", str(arguments.pack.resolve())], cwd=PACKAGE, check=True)


if __name__ == "__main__":
    main()
