"""Collections that are collected in batches."""

from __future__ import annotations

from pathlib import Path

import hyperchunk
import numpy as np
import pytest
from hyperchunk import collecting
from hyperchunk.exceptions import ExistsError, InvalidError
from test_collections import granule


class StoppedError(Exception):
    """The end of a process."""


def test_an_interrupted_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{number}.nc", 2 * number, 2) for number in range(7)]
    output, partial = tmp_path / "all.hcx", tmp_path / "all.partial.hcx"

    def stop(done: int, total: int) -> None:
        assert total == 7
        if done == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(paths, output=output, progress=stop)
    assert not output.exists()
    assert len(hyperchunk.open_collection(partial).files) == 4
    with pytest.raises(InvalidError, match="it has other files"):
        hyperchunk.open_collection(paths[1:], output=output)
    with pytest.raises(InvalidError, match="it is joined along 'time', not 'y'"):
        hyperchunk.open_collection(paths, "y", output=output)
    shown: list[int] = []
    made = hyperchunk.open_collection(paths, output=output, progress=lambda done, _: shown.append(done))
    # The first four are not read again.
    # What was finished before, then the others.
    assert shown == [4, 5, 6, 7]
    assert shown[-1] == 7
    assert not partial.exists()
    assert made.files == hyperchunk.open_collection(output).files
    np.testing.assert_array_equal(made["time"][:], np.arange(14))
    with pytest.raises(ExistsError, match="overwrite=True"):
        hyperchunk.open_collection(paths, output=output)
    hyperchunk.open_collection(paths[:3], output=output, overwrite=True)
    assert len(hyperchunk.open_collection(output).files) == 3


def test_files_that_are_left_out_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "BATCH_FILES", 2)
    paths = [granule(tmp_path / f"{at}.nc", 2 * at, 2, width=5 if at == 1 else 4) for at in range(5)]

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        hyperchunk.open_collection(paths, output=tmp_path / "all.hcx", progress=stop, on_mismatch="skip")
    made = hyperchunk.open_collection(paths, output=tmp_path / "all.hcx", on_mismatch="skip")
    assert len(made.files) == 4
    assert [Path(name).name for name in made.skipped] == ["1.nc"]
