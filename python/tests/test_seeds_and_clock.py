"""Declared nondeterminism of functions: a seed, so that random numbers are the same for all readers; and the clock."""

import hashlib
import json
import struct
import time
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import numpy as np
import pytest
from compatibility.inputs import LANGUAGES, Programs, both, run
from fresh import failure, run_python
from hyperchunk.exceptions import UdfSyntaxError

SEEDS = Programs(
    {
        "py": """
def dynamic_dataset():
    out = lib.getData("out")
    for n in range(len(out)):
        out[n] = lib.seed()
""",
        "lua": """
function dynamic_dataset()
    local out, dims = lib.getData("out"), lib.getDims("out")
    for n = 1, dims[1] * dims[2] do out[n] = lib.seed() end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<double>("out");
    auto dims = lib.getDims("out");
    for (size_t n = 0; n < dims[0] * dims[1]; n++) out[n] = double(lib.seed());
}
""",
    }
)
#: Each language's own generators: two numbers, to show that the state advances within a block.
RANDOM = Programs(
    {
        "py": """
import random
import numpy as np
def dynamic_dataset():
    out = lib.getData("out")
    for n in range(len(out)):
        out[n] = random.random() + np.random.rand()
""",
        "lua": """
function dynamic_dataset()
    local out, dims = lib.getData("out"), lib.getDims("out")
    for n = 1, dims[1] * dims[2] do out[n] = math.random() end
end
""",
        "cpp": """
extern "C" void dynamic_dataset() {
    auto out = lib.getData<double>("out");
    auto dims = lib.getDims("out");
    for (size_t n = 0; n < dims[0] * dims[1]; n++) out[n] = rand();
}
""",
    }
)
CLOCK = Programs(
    {
        "py": 'def dynamic_dataset():\n    lib.getData("out")[0] = lib.clock()\n',
        "lua": 'function dynamic_dataset() lib.getData("out")[1] = lib.clock() end',
        "cpp": 'extern "C" void dynamic_dataset() { lib.getData<double>("out")[0] = lib.clock(); }',
    }
)
BACKWARDS = """
import sys, h5py
out = h5py.File(sys.argv[1])["out"]
print([out[row : row + 2].tolist() for row in (4, 2, 0)][::-1])
"""
GRANT = 'version = 1\n[grant]\nsyscalls = ["clock"]\n'


def of_block(seed: int, start: tuple[int, ...]) -> int:
    """Returns a block's seed, by `docs/formats/live-dataset.md`."""
    words = struct.pack(f"<{2 + len(start)}Q", seed, len(start), *start)
    digest = hashlib.sha256(b"hyperchunk-seed-v1\0" + words).digest()
    return int.from_bytes(digest[:8], "little") % 2**53


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    return file


def grant(config: Path, profile: str, text: str = GRANT) -> None:
    folder = config / "hyperchunk" / "profiles" / profile
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.toml").write_text(text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_seeds(language: str, empty: Path, tmp_path: Path) -> None:
    """Each block has its own seed, for every reader and order."""
    (record,) = run(tmp_path, empty, language, SEEDS[language], "out:5x4:double", chunks="2x4", seed=7)
    assert (record["seed"], record["api_version"]) == (7, 6)
    expected = np.array([[of_block(7, (row // 2 * 2, 0))] * 4 for row in range(5)], float)
    np.testing.assert_array_equal(both(empty, "out"), expected)
    np.testing.assert_array_equal(both(empty, "out", np.s_[4:]), expected[4:])
    (record,) = run(tmp_path, empty, language, SEEDS[language], "out:5x4:double", overwrite=True)
    assert 0 <= record["seed"] < 2**53
    assert both(empty, "out")[0, 0] == of_block(record["seed"], (0, 0))


@pytest.mark.parametrize("language", LANGUAGES)
def test_random_numbers_of_the_languages(language: str, empty: Path, tmp_path: Path) -> None:
    """Random numbers are the same in each process and order of blocks, with or without a seed; blocks differ."""
    values = []
    for seed in (None, 1, 2):
        (record,) = run(
            tmp_path, empty, language, RANDOM[language], "out:6x5:double", chunks="2x5", seed=seed, overwrite=True
        )
        # A WebAssembly module that calls the C library's generator imports the seed.
        assert (record.get("seed") == seed) or (seed is None and language == "wasm")
        found = both(empty, "out")
        assert len(np.unique(found)) > 25
        for rows in (np.s_[4:6], np.s_[0:2], np.s_[2:4]):
            np.testing.assert_array_equal(both(empty, "out", rows), found[rows])
        again = json.loads(run_python(BACKWARDS, empty).stdout)
        np.testing.assert_array_equal(np.concatenate(again), found)
        values.append(found)
    assert not np.array_equal(values[0], values[1])
    assert not np.array_equal(values[1], values[2])


def test_seeds_stay_when_a_dataset_grows_and_is_rebuilt(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", data=np.zeros((4, 4)), maxshape=(None, 4), chunks=(2, 4))
    text = "function dynamic_dataset() lib.getData('a') for n = 1, 8 do lib.getData('out')[n] = lib.seed() end end"
    (record,) = run(tmp_path, file, "lua", text, "out:4x4:double", chunks="2x4", maxshape="inputs")
    before = both(file, "out")
    with h5py.File(file, "r+") as opened:
        opened["a"].resize((6, 4))
    hyperchunk.udf.extend(file, "out")
    after = both(file, "out")
    np.testing.assert_array_equal(after[:4], before)
    assert after[5, 0] == of_block(record["seed"], (4, 0))
    rebuilt = hyperchunk.udf.rebuild(file, "out")
    assert rebuilt["seed"] == record["seed"]
    np.testing.assert_array_equal(both(file, "out"), after)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_clock_is_declared_and_granted(language: str, empty: Path, tmp_path: Path, config: Path) -> None:
    (record,) = run(tmp_path, empty, language, CLOCK[language], "out:1:double")
    assert (record["clock"], record.get("seed")) == (True, None)
    reason = r'profile self does not grant the clock; write syscalls = ["clock"] below [grant] in its profile.toml ('
    assert reason in failure(empty, "out")
    assert str(config / "hyperchunk" / "profiles" / "self" / "profile.toml") in failure(empty, "out")
    with hyperchunk.open(empty) as opened, pytest.raises(hyperchunk.HyperchunkError, match="does not grant the clock"):
        opened["out"][...]
    assert "fails when it asks for the clock: profile self does not" in hyperchunk.udf.explain(empty, "out")
    grant(config, "self")
    before = time.time()
    now = both_times(empty)
    assert before - 1 <= now[0] <= now[1] <= time.time() + 1
    assert now[0] < now[1]
    explained = hyperchunk.udf.explain(empty, "out")
    assert "read the clock" in explained
    assert "fails" not in explained


def both_times(file: Path) -> tuple[float, float]:
    """Reads with h5py, and then with `hyperchunk.open`."""
    with h5py.File(file) as opened:
        first = float(opened["out"][0])
    with hyperchunk.open(file) as ours:
        return first, float(ours["out"][0])


def test_strangers_have_no_clock(empty: Path, tmp_path: Path) -> None:
    run(tmp_path, empty, "py", CLOCK["py"], "out:1:double", unsigned=True)
    assert "profile untrusted, which applies to unknown signers, does not grant the clock" in failure(empty, "out")


def test_what_was_not_declared(empty: Path, tmp_path: Path, config: Path) -> None:
    """An undeclared call, hidden from the scan, fails, even if the profile grants it."""
    grant(config, "self")
    text = 'def dynamic_dataset():\n    lib.getData("out")[0] = lib.__getattribute__("{}")()\n'
    for name, message in [("clock", "the record does not say"), ("seed", "the record has no seed")]:
        run(tmp_path, empty, "py", text.format(name), "out:1:double", overwrite=True)
        assert message in failure(empty, "out")
    text = "function dynamic_dataset() local l = lib lib.getData('out') end"
    with pytest.raises(UdfSyntaxError, match="lib is passed on"):
        run(tmp_path, empty, "lua", text, "out:1:double", overwrite=True)


def test_a_result_with_the_clock_in_it_is_not_kept(
    empty: Path, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERCHUNK_RESULT_CACHE", str(tmp_path / "kept"))
    grant(config, "self")
    for text, kept in [(CLOCK["lua"], 0), ("function dynamic_dataset() lib.getData('out')[1] = lib.seed() end", 1)]:
        run(tmp_path, empty, "lua", text, "out:1:double", overwrite=True)
        both_times(empty)
        assert len(list((tmp_path / "kept").glob("*.result"))) == kept


@pytest.mark.parametrize("seed", [-1, 2**53, 2**70])
def test_seeds_that_cannot_be(seed: int, empty: Path, tmp_path: Path) -> None:
    with pytest.raises((UdfSyntaxError, OverflowError)):
        run(tmp_path, empty, "lua", SEEDS["lua"], "out:5x4:double", seed=seed)
    with pytest.raises(UdfSyntaxError, match="only programs that run on a processor"):
        hyperchunk.udf.attach(empty, outputs="x:3:double", expression="1", seed=5)


def test_the_command_tells(empty: Path, tmp_path: Path, command: Any) -> None:
    run(
        tmp_path, empty, "lua", SEEDS["lua"].replace("lib.seed()", "lib.seed() + lib.clock()"), "out:5x4:double", seed=9
    )
    shown = command("udf", "show", f"{empty}:/out").stdout
    assert "seed      9" in shown
    assert "the clock, where the profile grants it" in shown
    explained = command("udf", "explain", f"{empty}:/out").stdout
    assert "come from the seed 9" in explained
    (row,) = json.loads(command("udf", "ls", "--json", str(empty)).stdout)
    assert (row["seed"], row["clock"]) == (9, True)


@pytest.mark.skipif("wasm" not in LANGUAGES, reason="Zig is missing")
def test_c_and_its_library(empty: Path, tmp_path: Path, config: Path) -> None:
    """In C, `time` is the declared clock, and `getentropy` is derived from the seed."""
    source = tmp_path / "case.c"
    source.write_text(
        """
#include <time.h>
#include <unistd.h>
void dynamic_dataset(void) {
    double *out = lib.getData("out");
    uint64_t bytes;
    getentropy(&bytes, sizeof bytes);
    out[0] = (double)lib.seed(), out[1] = (double)(bytes >> 11), out[2] = (double)time(NULL);
}
"""
    )
    (record,) = hyperchunk.udf.attach(empty, source, "out:3:double", seed=3)
    assert (record["seed"], record["clock"]) == (3, True)
    assert "the clock: profile self does not grant the clock" in failure(empty, "out")
    grant(config, "self")
    with h5py.File(empty) as opened, hyperchunk.open(empty) as ours:
        first, second = opened["out"][:], ours["out"][:]
    assert first[0] == second[0] == of_block(3, (0,))
    assert first[1] == second[1] > 0
    assert abs(first[2] - time.time()) < 60
