"""Completions of shells and manual pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("hyperchunk")

COMPLETE = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_hyperchunk hyperchunk "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def hyperchunk(*words: object, status: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pa"], {"pack"}),
        (["store", "comm"], {"commit"}),
        (["pack", "--layou"], {"--layout"}),
        (["pack", "a.h5", "b.h5", "--layout", ""], {"plain", "cloud"}),
    ],
)
def test_bash_completes(words: list[str], expected: set[str], tmp_path: Path) -> None:
    script = tmp_path / "hyperchunk.bash"
    script.write_text(hyperchunk("completions", "bash"), encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", script, "hyperchunk", *words], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish", "elvish", "powershell"])
def test_other_shells_have_scripts(shell: str) -> None:
    script = hyperchunk("completions", shell)
    assert "restructure" in script
    assert "Recover the data of a killed writer" in script


def test_page_of_a_command() -> None:
    page = hyperchunk("man", "store", "commit")
    assert ".TH hyperchunk-store-commit 1" in page
    assert "\\fBhyperchunk store commit\\fR" in page
    assert "has no command" in hyperchunk("man", "store", "nothing", status=2)


def test_pages_of_all_commands(tmp_path: Path) -> None:
    folder = tmp_path / "share" / "man1"
    assert "pages to" in hyperchunk("man", "-o", folder)
    names = {path.name for path in folder.iterdir()}
    assert {"hyperchunk.1", "hyperchunk-pack.1", "hyperchunk-store-commit.1", "hyperchunk-arrow-export.1"} <= names
    assert not [name for name in names if "relay" in name or "help" in name]
    # What pages refer to is there.
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert {name.replace("\\", "") + ".1" for name in re.findall(r"(hyperchunk\S*)\(1\)", text)} <= names
    (folder / "hyperchunk-pack.1").write_text("mine", encoding="utf-8")
    assert "--overwrite" in hyperchunk("man", "-o", folder, status=1)
    assert (folder / "hyperchunk-pack.1").read_text(encoding="utf-8") == "mine"
    hyperchunk("man", "-o", folder, "--overwrite")
    assert (folder / "hyperchunk-pack.1").read_text(encoding="utf-8") != "mine"
    if shutil.which("groff"):
        for path in folder.iterdir():
            words = ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou", path]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            assert done.stderr == ""
            assert "SYNOPSIS" in done.stdout
