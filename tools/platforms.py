"""Type checks and tests of Hyperchunk for other platforms, and the page about them.

`check` type-checks the code for each target that rustup can install, with `zig cc` for the C code of dependencies.
`run` runs Rust tests for aarch64 under QEMU and for Windows under Wine, and compares the command's output on Windows
with Linux's. `page` writes docs/reference/platforms.md. Standard library only, except for `ziglang`."""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import arm_python
import native

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "platforms.md"
BEGIN, END = "<!-- platforms: begin -->", "<!-- platforms: end -->"

# Crates that are checked for each kind of system. Live datasets, plugins for libhdf5 and CUDA are only for Linux.
EVERYWHERE = ["hyperchunk-cli", "hyperchunk-python"]
LINUX = [
    *EVERYWHERE,
    "hyperchunk-c",
    "hyperchunk-filter",
    "hyperchunk-snappy",
    "hyperchunk-vol",
    "hyperchunk-vol-named",
]
# The reader, the writer and stores, for systems on which the rest is not checked.
ENGINE = ["hyperchunk", "hyperchunk-store"]
# Crates whose unit tests run under an emulator.
TESTED = ["hyperchunk-format", "hyperchunk", "hyperchunk-expression", "hyperchunk-store", "hyperchunk-arrow"]


@dataclass(frozen=True)
class Target:
    """Target of rustc, with zig's name for it, and its state: tested, compiled or untried."""

    name: str
    zig: str
    packages: tuple[str, ...]
    state: str
    extent: str


def target(name: str, zig: str, packages: list[str], state: str, extent: str) -> Target:
    return Target(name, zig, tuple(packages), state, extent)


UNRUN = "type-checked: the reader, the writer and sharded stores; never linked or run"
TARGETS = [
    target("x86_64-unknown-linux-gnu", "", LINUX, "tested", "everything, by `make test` and `make test-slow`"),
    target(
        "aarch64-unknown-linux-gnu",
        "aarch64-linux-gnu",
        ENGINE,
        "tested",
        "unit tests of the format, the codecs, the engine, expressions, stores and tables, and the reader's tests in "
        "Python, under QEMU; plugins for libhdf5 were never run",
    ),
    target("x86_64-unknown-linux-musl", "x86_64-linux-musl", ENGINE, "compiled", UNRUN),
    target("aarch64-unknown-linux-musl", "aarch64-linux-musl", ENGINE, "compiled", UNRUN),
    target("x86_64-apple-darwin", "x86_64-macos", ENGINE, "compiled", UNRUN),
    target(
        "aarch64-apple-darwin",
        "aarch64-macos",
        ["hyperchunk-cli"],
        "compiled",
        "type-checked: the command with all that it needs; never linked or run",
    ),
    target(
        "x86_64-pc-windows-gnu",
        "x86_64-windows-gnu",
        ["hyperchunk-cli"],
        "tested",
        "unit tests of the format, the codecs, the engine, expressions, stores and tables, and the command's output, "
        "under Wine",
    ),
    target("x86_64-pc-windows-msvc", "x86_64-windows-gnu", ENGINE, "compiled", UNRUN),
    target("aarch64-pc-windows-msvc", "aarch64-windows-gnu", ENGINE, "compiled", UNRUN),
    target(
        "wasm32-unknown-unknown",
        "wasm32-wasi",
        ["hyperchunk-web"],
        "tested",
        "the reader with all filters, in Node and in Chromium, by `make test-slow` where they are: [the npm package]"
        "(../guide/browser.md)",
    ),
]

WRAPPER = """#!{python}
import os, subprocess, sys
kept = [a for a in sys.argv[1:] if not a.startswith("--target=") and a not in ("-arch", "arm64", "x86_64")]
sys.exit(subprocess.call([sys.executable, "-m", "ziglang", {words}, *kept]))
"""


def say(text: str) -> None:
    print(f"platforms: {text}", flush=True)


def environment() -> dict[str, str]:
    # PyO3 needs no interpreter of the target for its stable ABI; `cc` does not search for Apple's SDK if one is named.
    return native.environment() | {"PYO3_NO_PYTHON": "1", "SDKROOT": "/"}


def wrappers(found: Target, folder: Path) -> dict[str, str]:
    """Writes programs that act as C compiler and archiver for a target; returns the variables that name them."""
    if not found.zig:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    archiver = "lib" if found.name.endswith("msvc") else "ar"
    names = {}
    for variable, words in {
        "CC": f'"cc", "-target", "{found.zig}"',
        "AR": f'"{archiver}"',
    }.items():
        program = folder / f"{variable.lower()}-{found.name}"
        text = WRAPPER.format(python=sys.executable, words=words)
        if not program.exists() or program.read_text() != text:
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        names[f"{variable}_{found.name.replace('-', '_')}"] = str(program)
    return names


def installed(env: dict[str, str], add: bool = True) -> set[str]:
    """Returns the targets for which rustc has a standard library; with `add`, tries to install missing ones before."""
    if shutil.which("rustup", path=env["PATH"]) is None:
        return {"x86_64-unknown-linux-gnu"}
    listed = ["rustup", "target", "list", "--installed"]

    def known() -> set[str]:
        return set(subprocess.run(listed, env=env, capture_output=True, text=True, check=True).stdout.split())

    missing = [found.name for found in TARGETS if found.name not in known()]
    if missing and add:
        subprocess.run(["rustup", "target", "add", *missing], env=env, capture_output=True, check=False)
    return known()


def check(names: list[str], add: bool = True) -> bool:
    """Type-checks the code for targets; prints a line for each. Without `add`, for those that are installed."""
    env = environment()
    have_zig = (
        subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True, check=False).returncode == 0
    )
    available = installed(env, add)
    whole = True
    if not add and not (have_zig and available >= {found.name for found in TARGETS}):
        say("not all targets are installed, and those that are missing are not checked: `make platforms` installs them")
    for found in [t for t in TARGETS if t.zig and (not names or t.name in names)]:
        if not add and not (have_zig and found.name in available):
            continue
        if found.name not in available:
            say(f"{found.name}: skipped, rustc has no standard library for it (rustup target add {found.name})")
            continue
        if not have_zig:
            say(f"{found.name}: skipped, zig is missing (pip install ziglang)")
            continue
        command = ["cargo", "check", "--locked", "--quiet", "--target", found.name]
        command += [argument for package in found.packages for argument in ("-p", package)]
        start = time.monotonic()
        folder = Path(native.target_dir()) / "platforms"
        done = subprocess.run(
            command, cwd=ROOT, env=env | wrappers(found, folder), stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            whole = False
        verdict = "checked" if done.returncode == 0 else "FAILED"
        say(f"{found.name}: {verdict} in {time.monotonic() - start:.0f} s")
    return whole


def emulators(env: dict[str, str]) -> list[tuple[str, list[str], dict[str, str]]]:
    """Returns the targets that can run here: name, emulator, and cargo's environment."""
    available = installed(env)
    found = []
    for name, linker, runner in (
        # Linked statically: with a folder of libraries (-L), QEMU uses that folder as the root of the file system.
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", ["qemu-aarch64"]),
        ("x86_64-pc-windows-gnu", "x86_64-w64-mingw32-gcc", ["wine"]),
    ):
        missing = [program for program in (linker, runner[0]) if shutil.which(program) is None]
        if missing or name not in available:
            say(f"{name}: not run, missing: {', '.join(missing) or 'its standard library'} (tools/setup.sh emulators)")
            continue
        upper = name.upper().replace("-", "_")
        more = {
            f"CARGO_TARGET_{upper}_LINKER": linker,
            f"CARGO_TARGET_{upper}_RUNNER": " ".join(runner),
            # Silences Wine's messages about its own gaps.
            "WINEDEBUG": "-all",
            "CARGO_PROFILE_DEV_DEBUG": "none",
        }
        if runner == ["qemu-aarch64"]:
            more[f"CARGO_TARGET_{upper}_RUSTFLAGS"] = "-Ctarget-feature=+crt-static"
        if runner == ["wine"]:
            more["WINEPATH"] = "Z:" + str(random_numbers(linker)).replace("/", "\\")
        found.append((name, runner, env | more))
    return found


def random_numbers(compiler: str) -> Path:
    """Builds the library for random numbers that Wine 8 lacks; returns its folder."""
    folder = Path(native.target_dir()) / "platforms" / "wine"
    folder.mkdir(parents=True, exist_ok=True)
    source = ROOT / "tools" / "bcryptprimitives.c"
    command = [compiler, "-shared", "-O1", "-o", str(folder / "bcryptprimitives.dll"), str(source), "-ladvapi32"]
    subprocess.run(command, check=True)
    return folder


def run(names: list[str]) -> bool:
    """Runs tests for other targets under emulators, and compares the command's output on Windows with that on Linux."""
    whole = True
    for name, runner, env in emulators(environment()):
        if names and name not in names:
            continue
        command = ["cargo", "test", "--locked", "--quiet", "--target", name, "--lib"]
        command += [argument for package in TESTED for argument in ("-p", package)]
        done = subprocess.run([*command, "--no-fail-fast"], cwd=ROOT, env=env, check=False)
        say(f"{name}: unit tests {'passed' if done.returncode == 0 else 'FAILED'}")
        whole &= done.returncode == 0
        if name.endswith("windows-gnu"):
            whole &= compare(name, runner, env)
        if name == arm_python.TARGET:
            # A library is not linked statically.
            shared = {key: value for key, value in env.items() if not key.endswith("_RUSTFLAGS")}
            passed = arm_python.run(ROOT, shared)
            verdicts = {True: "passed", False: "FAILED", None: "skipped, Python for aarch64 cannot be downloaded"}
            say(f"{name}: the reader's tests in Python {verdicts[passed]}")
            whole &= passed is not False
    return whole


def build_command(env: dict[str, str], *arguments: str) -> Path:
    """Builds the command; returns its path."""
    command = ["cargo", "build", "--locked", "--quiet", "-p", "hyperchunk-cli", "--message-format=json", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    built = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Path(next(m["executable"] for m in built if m.get("executable")))


def files() -> list[Path]:
    """Returns the files that the command reads on both systems: one for each structure and filter, and damaged ones."""
    return sorted(p for p in (ROOT / "fuzz" / "corpus").iterdir() if p.suffix in {".hdf5", ".h5", ".nc"})


def compare(name: str, runner: list[str], env: dict[str, str]) -> bool:
    """Compares the output and the exit status of the command on two systems, for each file."""
    windows = [*runner, str(build_command(env, "--target", name))]
    linux = [str(ROOT / ".venv" / "bin" / "hyperchunk")]
    if not Path(linux[0]).exists():
        linux = [str(build_command(environment()))]
    same, different = 0, []
    for file in files():
        for words in (["ls"], ["dump"], ["check"]):
            outputs = [
                subprocess.run(
                    [*program, *words, file.name], cwd=file.parent, env=env, capture_output=True, check=False
                )
                for program in (linux, windows)
            ]
            one, other = ((done.returncode, done.stdout.replace(b"\r\n", b"\n")) for done in outputs)
            if one == other:
                same += 1
            else:
                different.append(f"{words[0]} {file.name}")
    say(f"{name}: the command's output equals Linux's in {same} of {same + len(different)} runs")
    for text in different[:20]:
        say(f"  differs: {text}")
    return not different


def page(text: str) -> str:
    """Returns the text of docs/reference/platforms.md with the current table."""
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    rows = "".join(f"| `{t.name}` | {t.state} | {t.extent} |\n" for t in TARGETS)
    return f"{before}{BEGIN}\n\n| target | state | what was done |\n|---|---|---|\n{rows}\n{END}{after}"


def write_page(only_check: bool) -> bool:
    text = PAGE.read_text()
    if page(text) == text:
        return True
    if only_check:
        say(f"{PAGE.relative_to(ROOT)} differs from the table of tools/platforms.py: run `tools/platforms.py page`")
        return False
    PAGE.write_text(page(text))
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    verbs = {verb: commands.add_parser(verb) for verb in ("check", "run")}
    for verb in verbs.values():
        verb.add_argument("targets", nargs="*", help="targets; all by default")
    verbs["check"].add_argument("--installed", action="store_true", help="only targets that are installed")
    commands.add_parser("page").add_argument("--check", action="store_true", help="only compare the page")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.command == "check":
        done = check(arguments.targets, add=not arguments.installed)
    elif arguments.command == "run":
        done = run(arguments.targets)
    else:
        done = write_page(arguments.check)
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
