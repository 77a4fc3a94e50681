"""`hyperchunk collect` stops at Ctrl-C, and the same command goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import hyperchunk
import pytest

COMMAND = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import sys; "
COMMAND += "from hyperchunk._command import main; sys.argv[0] = 'hyperchunk'; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_interrupt(tmp_path: Path) -> None:
    names = [f"{number:04}.h5" for number in range(2500)]
    with h5py.File(tmp_path / names[0], "w") as file:
        file["x"] = [1.0, 2.0]
    for name in names[1:]:
        shutil.copy(tmp_path / names[0], tmp_path / name)
    output, partial = tmp_path / "all.hcx", tmp_path / "all.partial.hcx"
    arguments = [sys.executable, "-c", COMMAND, "collect", "-", "-o", "all.hcx", "--concat", "0"]
    arguments += ["--on-mismatch", "skip", "--statistics", "x"]
    # First while it waits for names, then after the first thousand files.
    for kept in (False, True):
        pipe = subprocess.PIPE
        run = subprocess.Popen(arguments, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert run.stdin is not None
        run.stdin.write("\n".join(names) + "\n")
        run.stdin.flush()
        if kept:
            run.stdin.close()
            run.stdin = None
            while run.poll() is None and not partial.exists():
                time.sleep(0.002)
        else:
            time.sleep(3)
        begun = time.monotonic()
        run.send_signal(signal.SIGINT)
        run.wait(30)
        assert time.monotonic() - begun < 5
        _, told = run.communicate()
        assert run.returncode == 130, told
        assert "interrupted: " in told
        assert "the same command" in told
        assert not output.exists()
        assert partial.exists() == kept
    subprocess.run(arguments, cwd=tmp_path, input="\n".join(names), check=True, text=True)
    made = hyperchunk.open_collection(output)
    assert len(made.files) == len(names)
    assert not made.skipped
    assert not partial.exists()
