"""Python functions computed in bands give bit-identical results to whole-array evaluation."""

import random
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from fresh import read
from hyperchunk import _bands

COUNT = 2 * _bands.BAND_ELEMENTS + 777
KINDS = ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


class FlatBuffer:
    """The part of a worker's buffer that bands use."""

    def __init__(self, array: np.ndarray) -> None:
        self.flat = array.reshape(-1)
        self.dims = array.shape

    def __len__(self) -> int:
        return self.flat.size

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.flat

    def __getitem__(self, index: Any) -> Any:
        return self.flat[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.flat[index] = value

    def __add__(self, other: Any) -> Any:
        return self.flat + other

    def __radd__(self, other: Any) -> Any:
        return other + self.flat

    def __sub__(self, other: Any) -> Any:
        return self.flat - other

    def __rsub__(self, other: Any) -> Any:
        return other - self.flat

    def __mul__(self, other: Any) -> Any:
        return self.flat * other

    def __rmul__(self, other: Any) -> Any:
        return other * self.flat

    def __truediv__(self, other: Any) -> Any:
        return self.flat / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.flat

    def __neg__(self) -> Any:
        return -self.flat


class Lib:
    """The part of `lib` that bands use."""

    def __init__(self, **arrays: np.ndarray) -> None:
        self.slots = {name: FlatBuffer(array) for name, array in arrays.items()}

    def getData(self, name: str) -> FlatBuffer:  # noqa: N802
        return self.slots[name]

    def array(self, name: str) -> np.ndarray:
        slot = self.slots[name]
        return slot.flat.reshape(slot.dims)


def load(source: str, lib: Lib) -> tuple[Any, Any]:
    """Returns the function of a source, and its banded replacement."""
    scope: dict[str, Any] = {"lib": lib}
    exec(compile(source, "udf.py", "exec"), scope)
    return scope["dynamic_dataset"], _bands.banded(source, scope, scope["dynamic_dataset"])


def arrays(kind: str, output: str = "f4", shape: tuple[int, ...] = (COUNT,)) -> dict[str, np.ndarray]:
    """Returns two inputs with random bit patterns of a type, and an output."""
    generator = np.random.default_rng(3)
    size = np.dtype(kind).itemsize
    made = {name: generator.integers(0, 256, (*shape, size), "u1").view(kind)[..., 0] for name in ("a", "b")}
    made["a"].reshape(-1)[::7] = made["b"].reshape(-1)[::7]
    made["b"].reshape(-1)[::11] = 0
    for array in made.values():
        array.flags.writeable = False
    return made | {"out": np.zeros(shape, output)}


class Programs:
    """Generator of random functions of the recognized form."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrays: list[str] = []
        self.numbers = ["SCALE"]

    def value(self, depth: int) -> str:
        pick = self.random
        if depth == 0 or pick.random() < 0.2:
            return pick.choice([*self.arrays, *self.arrays, *self.numbers, "2", "0.5", "-3", "lib.array('a')"])
        one = lambda: self.value(depth - 1)  # noqa: E731
        form = pick.randrange(9)
        if form < 4:
            return f"({one()} {pick.choice('+-*/')} {one()})"
        if form == 4:
            return f"(-({pick.choice(self.arrays)} * {one()}))"
        if form == 5:
            function = pick.choice(["sqrt", "square", "abs", "absolute", "negative"])
            return f"np.{function}({pick.choice(self.arrays)} * {one()})"
        if form == 6:
            return f"np.where({one()} {pick.choice(['<', '<=', '>', '>=', '==', '!='])} {one()}, {one()}, {one()})"
        if form == 7:
            return f"({pick.choice(self.arrays)} + {one()}).astype({pick.choice(['np.float32', 'np.float64'])})"
        return f"np.{pick.choice(['add', 'subtract', 'multiply', 'divide'])}({one()}, {one()})"

    def program(self) -> str:
        pick = self.random
        lines = ["a, b = np.asarray(lib.getData('a')), lib.array('b')", "raw = lib.getData('b')"]
        self.arrays = ["a", "b"]
        for name in "xyz"[: pick.randrange(3)]:
            lines.append(f"{name} = {self.value(2)}" if pick.random() < 0.7 else f"{name} = raw * {self.value(1)}")
            self.arrays.append(name)
        lines.append(
            pick.choice(
                [
                    f"lib.getData('out')[:] = {self.value(3)}",
                    f"lib.array('out')[...] = {self.value(3)}",
                    f"np.divide({self.value(2)}, {self.value(2)}, out=lib.array('out'), )".replace(", )", ")"),
                ]
            )
        )
        body = "\n".join(f"    {line}" for line in lines)
        return f"import numpy as np\n\nSCALE = 0.0001\n\n\ndef dynamic_dataset():\n    '''Random.'''\n{body}\n"


def outcome(function: Any, lib: Lib) -> tuple[Any, ...]:
    """Returns the result of a call: the output's bits, or the error."""
    lib.slots["out"].flat[:] = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    except Exception as error:
        return type(error), str(error)
    out = lib.slots["out"].flat
    # NaN payloads depend on NumPy's loops.
    return (np.where(np.isnan(out), np.float64(7e77), out).tobytes(), np.isnan(out).tobytes())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", ["f4", "f8"])
def test_random_programs(kind: str, output: str) -> None:
    lib = Lib(**arrays(kind, output))
    for seed in range(25):
        source = Programs(seed).program()
        whole, bands = load(source, lib)
        assert isinstance(bands, _bands.Bands), source
        assert bands.arrays() is not None
        assert outcome(whole, lib) == outcome(bands, lib), source


HEAD = "import numpy as np\ndef dynamic_dataset():\n    a, out = lib.array('a'), lib.getData('out')\n"
UNFIT = {
    "a sum": "    out[:] = a / np.sum(a)",
    "a method": "    out[:] = a - a.mean()",
    "neighbours": "    out[:] = a - a[::-1]",
    "a part": "    out[:10] = a[:10]",
    "an element": "    out[0] = 1",
    "a loop": "    for _ in range(2):\n        out[:] = a",
    "a condition": "    if True:\n        out[:] = a",
    "a shape": "    out[:] = a.reshape(-1)",
    "in place": "    a += 1\n    out[:] = a",
    "an unknown function": "    out[:] = np.cumsum(a)",
    "inexact": "    out[:] = np.sin(a)",
    "a power": "    out[:] = a**3",
    "a matrix": "    out[:] = a @ a",
    "an integer": "    out[:] = a.astype(np.int32)",
    "where": "    np.add(a, a, out=out, where=a > 0)",
    "a list": "    out[:] = a + np.array([1])",
    "an unknown name": "    out[:] = a + missing",
    "a position": "    np.add(a, a, lib.array('out'))",
    "numpy again": "    np = a\n    out[:] = np",
    "a chain": "    out[:] = (0 < a) < 2 < a",
    "printing": "    print(a)\n    out[:] = a",
    "a size": "    out[:] = a * lib.getDims('a')[0]",
    "returns": "    out[:] = a\n    return a",
    "a name for a dataset": "    name = 'a'\n    out[:] = lib.array(name)",
    "a buffer compared": "    out[:] = np.where(lib.getData('a') > 0, 1, 2)",
}


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT)
def test_what_is_not_recognised(text: str) -> None:
    source = HEAD + text + "\n"
    scope = {"lib": Lib()}
    entry = object()
    assert _bands.banded(source, scope, entry) is entry
    for wrong in (
        "from numpy import *\n" + source,
        source + "dynamic_dataset = print\n",
        source.replace("import numpy as np", "import numpy as lib"),
        "@print\n" + source.partition("\n")[2],
    ):
        assert _bands.banded(wrong, scope, entry) is entry


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nlib = None\n" + HEAD.partition("\n")[2] + "    out[:] = a\n",
        "import numpy as np\nimport os as np\n" + HEAD.partition("\n")[2] + "    out[:] = a\n",
        "import numpy as np\n@staticmethod\n" + HEAD.partition("\n")[2] + "    out[:] = a\n",
        HEAD.replace("():", "(x=1):") + "    out[:] = a\n",
        HEAD.replace("():", "() -> np:") + "    out[:] = a\n",
        HEAD + "    out[:] = a\n\ndef dynamic_dataset():\n    pass\n",
        HEAD + "    out[:] = _dataset_0\n",
        "import numpy as np\nclass A: pass\n" + HEAD.partition("\n")[2] + "    out[:] = a\n",
    ],
)
def test_modules_that_are_not_recognised(text: str) -> None:
    entry = object()
    assert _bands.banded(text, {"lib": Lib()}, entry) is entry


def test_what_has_another_shape_is_whole() -> None:
    source = HEAD + "    out[:] = a + lib.array('b')\n"
    for a, b, out in (
        ((COUNT,), (1,), (COUNT,)),
        ((300, 400), (400,), (300, 400)),
        ((300, 400), (300, 400), (300, 400)),
        ((), (), ()),
        ((0,), (0,), (0,)),
        ((1000,), (1000,), (1000,)),
    ):
        lib = Lib(a=np.ones(a, "f4"), b=np.ones(b, "f4"), out=np.zeros(out, "f4"))
        _, bands = load(source, lib)
        assert bands.arrays() is None
    lib = Lib(a=np.ones(COUNT, "f4"), b=np.ones(COUNT, "f4"), out=np.zeros(COUNT, "i4"))
    assert load(source, lib)[1].arrays() is None
    lib = Lib(a=np.ones(COUNT, "f4"), b=np.ones(COUNT, "f4"), out=np.zeros(COUNT, "f4"))
    assert load(source, lib)[1].arrays() is not None


NDVI = """
import numpy as np


def dynamic_dataset():
    red, nir = np.asarray(lib.getData("Red")), np.asarray(lib.getData("NIR"))
{extra}
    lib.getData("{out}")[:] = (nir - red) / (nir + red)
"""


@pytest.mark.parametrize("chunks", [None, "auto"])
@pytest.mark.parametrize("kind", ["f4", ">f8", "u2"])
def test_live_datasets(kind: str, chunks: str | None, scene: Any, attach: Any) -> None:
    shape = (300, 700)
    generator = np.random.default_rng(5)
    size = np.dtype(kind).itemsize
    made = {name: generator.integers(0, 256, (*shape, size), "u1").view(kind)[..., 0] for name in ("Red", "NIR")}
    file = scene(**made)
    for out, extra in (("bands", ""), ("plain", "    if True: pass")):
        attach(file, "py", NDVI.format(out=out, extra=extra), f"{out}:300x700:float", chunks=chunks)
    bands, plain = read(file, "bands"), read(file, "plain")
    np.testing.assert_array_equal(np.isnan(bands), np.isnan(plain))
    known = ~np.isnan(plain)
    assert known.any()
    np.testing.assert_array_equal(bands[known].view("u4"), plain[known].view("u4"))


def test_an_error_is_that_of_the_function(scene: Any, attach: Any) -> None:
    """The error is the function's own, here an overflow, with its line."""
    file = scene(**{name: np.ones((300, 700), "u1") for name in ("Red", "NIR")})
    text = NDVI.format(out="bands", extra="").replace("(nir + red)", "(nir + 300)")
    attach(file, "py", text, "bands:300x700:float")
    with pytest.raises(OSError, match=r"OverflowError: .*300.*line 8"):
        read(file, "bands")


def test_temporary_arrays_are_small(scene: Any, attach: Any) -> None:
    """Whole arrays of 16 MB would make temporaries of 32 MB, which a worker keeps."""
    file = scene(**{name: np.ones((2000, 2000), "f4") for name in ("Red", "NIR")})
    kept = {}
    for out, extra in (("bands", ""), ("plain", "    if True: pass")):
        attach(file, "py", NDVI.format(out=out, extra=extra), f"{out}:2000x2000:float")
        before = workers()
        with h5py.File(file) as opened:
            assert not opened[out][...].any()
            (worker,) = workers() - before
            rows = dict(line.split(":", 1) for line in Path(f"/proc/{worker}/status").read_text().splitlines())
        kept[out] = int(rows["RssAnon"].split()[0]) >> 10
    assert kept["plain"] > 32
    assert kept["bands"] < kept["plain"] - 24


def children(pid: int | str) -> set[int]:
    """Returns the children of a process."""
    return {int(p) for t in Path(f"/proc/{pid}/task").glob("*/children") for p in t.read_text().split()}


def workers() -> set[int]:
    """Returns the grandchildren of this process."""
    return {worker for child in children("self") for worker in children(child)}
