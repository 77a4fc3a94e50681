"""Floats that a double cannot hold, printed by the commands: with their own digits, and never as 0 or infinity."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

IS_WIDE = np.finfo(np.longdouble).nmant == 63
TEXTS = ["1.1", "18446744073709551615", "1e4000", "-1e-4000", "9223372036854775809", "0.5", "-0.0", "inf", "nan"]


@pytest.mark.skipif(not IS_WIDE, reason="no number of 80 bits here")
def test_numbers_of_80_bits(tmp_path: Path, command: Any) -> None:
    values = np.array([np.longdouble(text) for text in TEXTS])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
        file["c"] = np.array([np.longdouble("1e4000") + 1j], np.clongdouble)
        file.attrs["x"] = np.longdouble("1e4000")
    printed = command("dump", f"{tmp_path}/a.h5:/x").stdout
    line = next(line for line in printed.splitlines() if "(0):" in line)
    shown = line.split(": ", 1)[1].split(", ")
    assert (shown[2], shown[3], shown[5]) == ("1e4000", "-1e-4000", "0.5")
    for text, value in zip(shown[:6], values[:6], strict=True):
        assert np.longdouble(text) == value
    assert shown[6:] == ["-0", "inf", "nan"]
    found = json.loads(command("dump", "--json", f"{tmp_path}/a.h5:/x").stdout)["objects"]["/x"]["value"]
    assert found[:6] == [1.1, 2.0**64, "1e4000", "-1e-4000", 2.0**63, 0.5]
    assert (str(found[6]), found[7:]) == ("-0.0", ["Infinity", "NaN"])
    assert command("attr", "get", tmp_path / "a.h5", "/", "x").stdout == '"1e4000"\n'
    assert "= 1e4000" in command("attr", "ls", tmp_path / "a.h5").stdout
    assert "1e4000" in command("dump", f"{tmp_path}/a.h5:/c").stdout


@pytest.mark.skipif(not IS_WIDE, reason="no number of 80 bits here")
def test_random_numbers_are_read_back(tmp_path: Path, command: Any) -> None:
    random = np.random.default_rng(1)
    values = np.ldexp(
        random.random(300).astype(np.longdouble) + random.random(300).astype(np.longdouble) * 2**-53,
        random.integers(-16_400, 16_300, 300),
    )
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
    found = json.loads(command("dump", "--json", f"{tmp_path}/a.h5:/x").stdout, parse_float=str)
    texts = [str(text) for text in found["objects"]["/x"]["value"]]
    assert all(np.longdouble(text) == value for text, value in zip(texts, values, strict=True))
    # No shorter text would do: the shortest ones have at most 21 digits.
    assert max(len(text.split("e")[0].strip("-").replace(".", "").lstrip("0")) for text in texts) <= 21


def test_small_floats_with_another_bias(tmp_path: Path, command: Any) -> None:
    datatype = h5py.h5t.IEEE_F32LE.copy()
    datatype.set_ebias(0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space = h5py.h5s.create_simple((2,))
        made = h5py.h5d.create(file.id, b"x", datatype, space)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([200 << 23, 100 << 23 | 5], "<u4").view("<f4"), mtype=datatype)
    found = json.loads(command("dump", "--json", f"{tmp_path}/a.h5:/x").stdout)["objects"]["/x"]["value"]
    np.testing.assert_allclose(found, [2.0**200, 2.0**100 * (1 + 5 * 2.0**-23)], rtol=1e-7)
