"""Vectorized Lua loops give bit-identical results to Lua's own."""

from typing import Any

import numpy as np
import pytest
from fresh import read

# A loop with a step runs in Lua.
ROWS = """
function dynamic_dataset()
  local out, red, nir = lib.getData("{out}"), lib.getData("Red"), lib.getData("NIR")
  local dims = lib.getDims("{out}")
  local columns = dims[2]
  for r = 1, dims[1] do
    for c = 1, columns{step} do
      local a, b = nir[(r - 1) * columns + c], red[(r - 1) * columns + c]
      out[(r - 1) * columns + c] = (a - b) / (a + b)
    end
  end
end
"""
FLAT = """
function dynamic_dataset()
  local out, red, nir = lib.getData("{out}"), lib.getData("Red"), lib.getData("NIR")
  local dims = lib.getDims("{out}")
  for i = 1, dims[1] * dims[2]{step} do
    local r, n = red[i], nir[i]
    out[i] = (n - r) / (n + r) * 0.5
  end
end
"""
SHAPE = (70, 3100)


def bands(kind: str) -> dict[str, np.ndarray]:
    """Returns two bands with random bit patterns of a type."""
    random = np.random.default_rng(7)
    red, nir = (random.integers(0, 256, (*SHAPE, np.dtype(kind).itemsize), "u1").view(kind)[..., 0] for _ in range(2))
    red[3, :20] = nir[3, :20]
    return {"Red": red, "NIR": nir}


@pytest.mark.parametrize("text", [ROWS, FLAT], ids=["rows", "flat"])
@pytest.mark.parametrize("kind", ["f4", "f8", "u2", "i1", "u4", "<i8", ">f4"])
@pytest.mark.parametrize("unsigned", [False, True], ids=["compiled", "interpreted"])
def test_results(text: str, kind: str, unsigned: bool, scene: Any, attach: Any, command: Any) -> None:
    file = scene(**bands(kind))
    for out, step in (("vectors", ""), ("lua", ", 1")):
        lua = text.format(out=out, step=step)
        attach(file, "lua", lua, f"{out}:{SHAPE[0]}x{SHAPE[1]}:float", chunks="auto", unsigned=unsigned)
    vectors, lua = read(file, "vectors"), read(file, "lua")
    np.testing.assert_array_equal(np.isnan(vectors), np.isnan(lua))
    known = ~np.isnan(lua)
    assert known.any()
    np.testing.assert_array_equal(vectors[known].view("u4"), lua[known].view("u4"))
    told = command("udf", "explain", f"{file}:/vectors").stdout
    assert "Loops that may be computed as vectors begin in these lines: " in told
    assert "vectors" not in command("udf", "explain", f"{file}:/lua").stdout


def test_a_loop_tells_the_line_of_its_error(scene: Any, attach: Any) -> None:
    file = scene(Red=np.ones(5000, "f4"))
    text = 'function dynamic_dataset()\n  local out, red = lib.getData("out"), lib.getData("Red")\n  local scale\n'
    text += "  for i = 1, 5000 do\n    out[i] = red[i] *\n      scale\n  end\nend\n"
    attach(file, "lua", text, "out:5000:float")
    with pytest.raises(OSError, match=r"udf:[56]: attempt to perform arithmetic on local 'scale' \(a nil value\)"):
        read(file, "out")
