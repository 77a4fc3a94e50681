"""Compounds: read, with gaps and strings in them, and computed."""

import io
from pathlib import Path

import h5py
import hyperchunk
import numpy as np
import pytest
from fresh import failure, run_python
from hyperchunk.hdf5_udf import UserDefinedFunction

from compatibility.inputs import LANGUAGES, ROWS, Programs, both, compounds, run, words

LINE = "serial: {}, temperature: {:.6f}, pressure: {:.6f}"
READ = Programs(
    {
        "py": """
def dynamic_dataset():
    rows, out = lib.getData("Dataset1"), lib.getData("Temperature.py")
    for n in range(lib.getDims("Temperature.py")[0]):
        print("serial: {{}}{}, temperature: {{:.6f}}, pressure: {{:.6f}}".format(
            rows[n].serial_number, {}rows[n].temperature, rows[n].pressure), flush=True)
        out[n] = rows[n].temperature
""",
        "lua": """
function dynamic_dataset()
    local rows, out = lib.getData("Dataset1"), lib.getData("Temperature.lua")
    for n = 1, lib.getDims("Temperature.lua")[1] do
        print(string.format("serial: %d{}, temperature: %.6f, pressure: %.6f",
            tonumber(rows[n].serial_number), {}tonumber(rows[n].temperature), tonumber(rows[n].pressure)))
        out[n] = rows[n].temperature
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{{
    auto rows = lib.getData<dataset1_t>("Dataset1");
    auto out = lib.getData<double>("Temperature.cpp");
    for (size_t n = 0; n < lib.getDims("Temperature.cpp")[0]; ++n) {{
        printf("serial: %d{}, temperature: %f, pressure: %f\\n",
            (int)rows[n].serial_number, {}rows[n].temperature, rows[n].pressure);
        out[n] = rows[n].temperature;
    }}
}}
""",
    }
)
LOCATION = {
    "py": (", location: {}", "lib.string(rows[n].location), "),
    "lua": (", location: %s", "lib.string(rows[n].location), "),
    "cpp": (", location: %s", "rows[n].location, "),
}


@pytest.mark.parametrize("layout", ["simple", "mixed"])
@pytest.mark.parametrize("location", ["none", "fixed", "variable"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_compound(language: str, location: str, layout: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Member names lose their brackets with contents and their capitals; gaps do not matter."""
    file = tmp_path / "compound.h5"
    compounds(file, location, layout)
    more = LOCATION["cpp" if language == "wasm" else language] if location != "none" else ("", "")
    run(tmp_path, file, language, READ[language].format(*more), f"Temperature.{language}:{ROWS}:double")
    np.testing.assert_array_equal(both(file, f"Temperature.{language}"), 1000 / np.arange(1, ROWS + 1))
    printed = capfd.readouterr().out.splitlines()
    where = [f", location: Location_{n}" if location != "none" else "" for n in range(ROWS)]
    assert printed == 2 * [
        f"serial: {n}{where[n]}, temperature: {1000 / (n + 1):.6f}, pressure: {500 / (n + 1):.6f}" for n in range(ROWS)
    ]


PLUS = Programs(
    {
        "py": """
def dynamic_dataset():
    rows, text, out = lib.getData("Dataset1"), lib.getData("Dataset2"), lib.getData("Temperature.py")
    count = lib.getDims("Dataset2")[0]
    for n in range(lib.getDims("Temperature.py")[0]):
        print("{} {} {}".format(rows[n].serial_number, lib.string(rows[n].location), lib.string(text[n % count])))
        out[n] = rows[n].temperature
""",
        "lua": """
function dynamic_dataset()
    local rows, text, out = lib.getData("Dataset1"), lib.getData("Dataset2"), lib.getData("Temperature.lua")
    local count = lib.getDims("Dataset2")[1]
    for n = 1, lib.getDims("Temperature.lua")[1] do
        local word = lib.string(text[(n - 1) % count + 1])
        print(("%d %s %s"):format(tonumber(rows[n].serial_number), lib.string(rows[n].location), word))
        out[n] = rows[n].temperature
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{
    auto rows = lib.getData<dataset1_t>("Dataset1");
    auto text = lib.getData<dataset2_t>("Dataset2");
    auto out = lib.getData<double>("Temperature.cpp");
    size_t count = lib.getDims("Dataset2")[0];
    for (size_t n = 0; n < lib.getDims("Temperature.cpp")[0]; ++n) {
        printf("%d %s %s\\n", (int)rows[n].serial_number, rows[n].location, lib.string(text[n % count]));
        out[n] = rows[n].temperature;
    }
}
""",
    }
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_compound_plus_string(language: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "compound.h5"
    compounds(file, "variable", "mixed")
    with h5py.File(file, "r+") as opened:
        opened.create_dataset("Dataset2", data=words(), dtype=h5py.string_dtype())
    run(tmp_path, file, language, PLUS[language], f"Temperature.{language}:{ROWS}:double")
    np.testing.assert_array_equal(both(file, f"Temperature.{language}"), 1000 / np.arange(1, ROWS + 1))
    expected = [f"{n} Location_{n} {words()[n % 100]}" for n in range(ROWS)]
    assert capfd.readouterr().out.splitlines() == 2 * expected


OUTPUT = Programs(
    {
        "py": """
def dynamic_dataset():
    out = lib.getData("Observations.py")
    for n in range(lib.getDims("Observations.py")[0]):
        out[n].id = n
        {}
        out[n].temperature = 100.0 + n
""",
        "lua": """
function dynamic_dataset()
    local out = lib.getData("Observations.lua")
    for n = 1, lib.getDims("Observations.lua")[1] do
        out[n].id = n - 1
        {}
        out[n].temperature = 100.0 + n - 1
    end
end
""",
        "cpp": """
extern "C" void dynamic_dataset()
{{
    auto out = lib.getData<observations_cpp_t>("Observations.cpp");
    for (size_t n = 0; n < lib.getDims("Observations.cpp")[0]; ++n) {{
        out[n].id = n;
        {}
        out[n].temperature = 100.0 + n;
    }}
}}
""",
    }
)
ASSIGN = {
    "py": ['out[n].location = f"location_{n}".encode()', 'lib.setString(out[n].location, f"location_{n}".encode())'],
    "lua": ['out[n].location = "location_" .. n - 1', 'lib.setString(out[n].location, "location_" .. n - 1)'],
    "cpp": [
        'snprintf(out[n].location, sizeof(out[n].location), "location_%d", (int)n);',
        'lib.setString(out[n].location, "location_%d", (int)n);',
    ],
}


@pytest.mark.parametrize("how", [0, 1])
@pytest.mark.parametrize("language", LANGUAGES)
def test_compound_output(language: str, how: int, tmp_path: Path) -> None:
    file = tmp_path / "out.h5"
    h5py.File(file, "w").close()
    text = OUTPUT[language].format(ASSIGN["cpp" if language == "wasm" else language][how])
    members = "{id:uint32,location:string,temperature:float}"
    (record,) = run(tmp_path, file, language, text, f"Observations.{language}:{members}:{ROWS}")
    assert record["output_datatype"] == "{id:uint32,location:string(32),temperature:float}"
    got = both(file, f"Observations.{language}")
    assert got.dtype == np.dtype([("id", "u4"), ("location", "S32"), ("temperature", "f4")])
    assert got.tolist() == [(n, b"location_%d" % n, 100.0 + n) for n in range(ROWS)]


def test_the_class_of_hdf5_udf(tmp_path: Path) -> None:
    file, source = tmp_path / "out.h5", tmp_path / "case.lua"
    h5py.File(file, "w").close()
    source.write_text(OUTPUT["lua"].format(ASSIGN["lua"][0]))
    members = {"id": "uint32", "location": "string(8)", "temperature": "float"}
    with UserDefinedFunction(hdf5_file=str(file), udf_file=str(source)) as function:
        description = {"name": "Observations.lua", "datatype": "compound", "resolution": [3]}
        parts = [{"name": name, "datatype": kind} for name, kind in members.items()]
        function.push_dataset(description | {"members": parts})
        assert function.compile()
        assert [header["output_resolution"] for header in function.store()] == [[3]]
    assert both(file, "Observations.lua").tolist() == [(n, b"location", 100.0 + n) for n in range(3)]


TABLE = """number,year,album,artist
1,1967,"Songs, of a kind",Somebody
2,1966,Sounds of a very very very long name that is longer than a string may be,Another
3,1965,Ähnliches,Third
"""


def test_csv_to_compound(tmp_path: Path) -> None:
    """The table is part of the source, since functions open no files here. Members are also accessible by their full
    names.
    """
    file = tmp_path / "out.h5"
    h5py.File(file, "w").close()
    text = f'''
import csv
TABLE = """{TABLE}"""
def dynamic_dataset():
    out = lib.getData("GreatestAlbums")
    for n, row in enumerate(list(csv.reader(TABLE.splitlines()))[1:]):
        out[n].Number = int(row[0])
        out[n].year = int(row[1])
        lib.setString(out[n].Album, row[2].encode("utf-8"))
        lib.setString(out[n].artist, row[3].encode("utf-8"))
'''
    run(tmp_path, file, "py", text, "GreatestAlbums:{Number:int32,Year:int16,Album:string(40),Artist:string}:3")
    got = both(file, "GreatestAlbums")
    assert got.dtype.names == ("Number", "Year", "Album", "Artist")
    long = b"Sounds of a very very very long name that is longer than a string may be"
    assert got.tolist() == [
        (1, 1967, b"Songs, of a kind", b"Somebody"),
        (2, 1966, long[:40], b"Another"),
        (3, 1965, "Ähnliches".encode(), b"Third"),
    ]


INNER = np.dtype([("x", "f8", (2, 2)), ("Tag", "S3")], align=True)
ALL = np.dtype(
    [
        ("Flag", "?"),
        ("half", "f2"),
        ("big", ">i4"),
        ("where (m)", INNER),
        ("bytes", "u1", (3,)),
        ("end", "i8"),
        ("T (F)", "f4"),
        ("T (C)", "f4"),
        ("class", "u2"),
    ]
)
#: member in the output: expression that reads it in each language
PARTS = {
    "py": {
        "flag": "a[n].Flag",
        "half": "a[n].half",
        "big": "a[n].big",
        "x": "a[n].where.x[3]",
        "b": 'a[n]["bytes"][2]',
        "e": "a[n].end_",
        "f": "a[n].t",
        "c": "a[n].t_2",
        "k": "a[n].class_",
    },
    "lua": {
        "flag": "a[n].Flag",
        "half": "a[n].half",
        "big": "a[n].big",
        "x": "a[n].where.x[1][1]",
        "b": "a[n].bytes[2]",
        "e": "a[n].end_",
        "f": "a[n].t",
        "c": "a[n].t_2",
        "k": "a[n].class_",
    },
}
PARTS["cpp"] = PARTS["wasm"] = PARTS["lua"]
MEMBERS = "flag:int8,half:float,big:int32,x:double,b:uint8,e:int64,f:float,c:float,k:uint16,tag:string(3)"


@pytest.mark.parametrize("chunks", [None, "3"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_members_of_every_kind(language: str, chunks: str | None, tmp_path: Path) -> None:
    """Nested compounds, arrays, small floats, bools, another byte order, names that are keywords of a language."""
    rows = np.zeros(8, ALL)
    rng = np.random.default_rng(8)
    for name in ("half", "T (F)", "T (C)"):
        rows[name] = rng.normal(size=8)
    rows["Flag"], rows["big"], rows["end"] = [True, False] * 4, rng.integers(-(2**31), 2**31, 8), 2**62 - np.arange(8)
    rows["where (m)"]["x"], rows["where (m)"]["Tag"] = rng.normal(size=(8, 2, 2)), b"abc"
    rows["bytes"], rows["class"] = rng.integers(0, 256, (8, 3)), 65535
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as opened:
        opened["group/a"] = rows
    parts = PARTS[language].items()
    if language == "py":
        lines = [f"        out[n].{name} = {value}" for name, value in parts]
        start = "def dynamic_dataset():\n    a, out = lib.getData('group/a'), lib.getData('group/out')\n"
        text = start + "    for n in range(len(a)):\n" + "\n".join(lines)
        text += "\n        lib.setString(out[n].tag, a[n].where.tag)\n"
    elif language == "lua":
        lines = [f"    out[n].{name} = {value}" for name, value in parts]
        start = "function dynamic_dataset()\n  local a, out = lib.getData('group/a'), lib.getData('group/out')\n"
        text = start + "  for n = 1, lib.getDims('group/a')[1] do\n" + "\n".join(lines)
        text += "\n    lib.setString(out[n].tag, lib.string(a[n].where.Tag))\n  end\nend\n"
    else:
        lines = [f"    out[n].{name} = {value};" for name, value in parts]
        start = 'extern "C" void dynamic_dataset() {\n  auto a = lib.getData<group_a_t>("group/a");\n'
        start += '  auto out = lib.getData<group_out_t>("group/out");\n'
        text = start + '  for (size_t n = 0; n < lib.getDims("group/a")[0]; n++) {\n' + "\n".join(lines)
        text += '\n    lib.setString(out[n].tag, "%s", lib.string(a[n].where.tag));\n  }\n}\n'
    run(tmp_path, file, language, text, f"group/out:{{{MEMBERS}}}:8", chunks=chunks)
    got = both(file, "group/out")
    expected = {
        "flag": rows["Flag"],
        "half": rows["half"].astype("f4"),
        "big": rows["big"],
        "x": rows["where (m)"]["x"][:, 1, 1],
        "b": rows["bytes"][:, 2],
        "e": rows["end"],
        "f": rows["T (F)"],
        "c": rows["T (C)"],
        "k": rows["class"],
        "tag": rows["where (m)"]["Tag"],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)


def test_python_sees_numpy_arrays(tmp_path: Path) -> None:
    """NumPy sees a structured array over the same memory, with the names in the file; objects for variable-length
    strings.
    """
    file = tmp_path / "a.h5"
    compounds(file, "fixed", "mixed")
    with h5py.File(file, "r+") as opened:
        kind = np.dtype([("n", "i4"), ("text", h5py.string_dtype())])
        opened.create_dataset("more", data=np.array([(1, "one"), (2, "zwei")], kind))
        opened["words"] = np.array([b"a", b"bc"], "S4")
    text = """
import numpy as np
def dynamic_dataset():
    rows, out = lib.array("Dataset1"), lib.array("out")
    assert rows.dtype.names == ("Serial number", "Location", "Temperature (F)", "Pressure (inHg)")
    assert not rows.flags.writeable and rows.shape == (1000,)
    out["t"], out["name"] = rows["Temperature (F)"], rows["Location"]
    more = np.asarray(lib.getData("more"))
    assert more["text"].tolist() == [b"one", b"zwei"] and more["n"].tolist() == [1, 2]
    words = np.asarray(lib.getData("words"))
    assert words.tolist() == [b"a", b"bc"] and lib.getData("words")[0:2].tolist() == [b"a", b"bc"]
    assert len(lib.getData("words")) == 2 and list(lib.getData("words")) == ["a", "bc"]
    flat = lib.getData("out")
    flat[0] = (7.0, b"x")
    flat[1] = {"name": "y"}
    flat[2:4] = np.array([(1, b"p"), (2, b"q")], out.dtype)
    assert len(lib.ffi.buffer(flat)) == flat.shape[0] * out.dtype.itemsize and flat[2] == (1.0, b"p")
    assert lib.ffi.string(flat[2].name) == b"p" and lib.getType("out") == "compound"
"""
    run(tmp_path, file, "py", text, "out:{t:float,name:string(12)}:1000")
    got = both(file, "out")
    assert got[:4].tolist() == [(7, b"x"), (500, b"y"), (1, b"p"), (2, b"q")]
    assert got["name"][4:].tolist() == [b"Location_%d" % n for n in range(4, 1000)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("out[0].nothing = 1", "no member 'nothing'; there are id, name"),
        ("out[0].id = 1.5", "this member takes integers; write int("),
        ("out[0].id = 256", "256 does not fit into 1 bytes"),
        ("out[0].id = -1", "-1 does not fit into 1 bytes"),
        ("out[0].name = b'12345'", "5 bytes do not fit into a string of 4"),
        ("out[0] = (1,)", "expected 2 values, one for each member, got 1"),
        ("lib.getData('Dataset1')[0].temperature = 1", "this dataset is an input and cannot be written"),
    ],
)
def test_python_errors(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    compounds(file, "none", "simple")
    text = f"def dynamic_dataset():\n    out = lib.getData('out'); lib.getData('Dataset1')\n    {line}\n"
    run(tmp_path, file, "py", text, "out:{id:uint8,name:string(4)}:2")
    assert message in failure(file, "out")


def test_what_is_copied_from_the_inputs(tmp_path: Path) -> None:
    """The output takes shape and type of a compound input, too, but variable-length strings cannot be computed."""
    file = tmp_path / "a.h5"
    compounds(file, "fixed", "mixed")
    text = "function dynamic_dataset() local a, b = lib.getData('Dataset1'), lib.getData('Copy')\n"
    text += f"for n = 1, {ROWS} do b[n] = a[n] end end"
    run(tmp_path, file, "lua", text)
    expected, got = both(file, "Dataset1"), both(file, "Copy")
    for name in expected.dtype.names:
        np.testing.assert_array_equal(got[name], expected[name])
    compounds(file, "variable", "mixed")
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match=r"give them a size, such as string\(40\)"):
        run(tmp_path, file, "lua", text)


def test_members_that_no_function_can_use_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    kind = np.dtype([("id", "i4"), ("list", h5py.vlen_dtype("i4"))])
    with h5py.File(file, "w") as opened:
        opened.create_dataset("a", (2,), np.dtype([("inner", kind), ("n", "i4")]))
    text = "function dynamic_dataset() lib.getData('a') lib.getData('b') end"
    expected = 'input "a": member "inner": member "list": its datatype is a sequence of variable length'
    with pytest.raises(hyperchunk.exceptions.UnsupportedError, match=expected):
        run(tmp_path, file, "lua", text, "b:1:int8")


def test_a_changed_member_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    text = "function dynamic_dataset() lib.getData('b')[1] = lib.getData('a')[1].x end"
    with h5py.File(file, "w") as opened:
        opened["a"] = np.array([(5,)], [("x", "i4")])
    run(tmp_path, file, "lua", text, "b:1:int32")
    assert both(file, "b").tolist() == [5]
    with h5py.File(file, "r+") as opened:
        del opened["a"]
        opened["a"] = np.array([(5,)], [("x", "f4")])
    assert "it is {x:float} [1] now, and was {x:int32} [1]" in failure(file, "b")


OTHER_TYPE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r+") as file:
    old = file["out"]
    words = old.id.get_create_plist().get_filter(0)[2]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((1,))
    plist.set_filter(31300, h5py.h5z.FLAG_OPTIONAL, words)
    kind = np.dtype(eval(sys.argv[2]))
    new = h5py.h5d.create(file.id, b"new", h5py.h5t.py_create(kind), h5py.h5s.create_simple((1,)), plist)
    new.write_direct_chunk((0,), old.id.read_direct_chunk((0,))[1])
    del file["out"]
    file.move("new", "out")
"""
PLACES = {"names": ["a", "x"], "formats": ["i1", "<i4"], "offsets": [0, 4], "itemsize": 8}


@pytest.mark.parametrize(
    ("description", "kind", "allowed"),
    [
        ("out:{a:int8,x:int32}:1", repr(PLACES), True),
        ("out:{a:int8,x:int32}:1", repr(PLACES | {"offsets": [0, 1], "itemsize": 5}), False),
        ("out:{a:int8,x:int32}:1", repr(PLACES | {"formats": ["i1", ">i4"]}), False),
        ("out:1:int32", repr("<i4"), True),
        ("out:1:int32", repr(">i4"), False),
    ],
)
def test_an_output_in_another_layout_is_refused(description: str, kind: str, allowed: bool, tmp_path: Path) -> None:
    """A function's bytes are stored as they are; if the dataset's type in the file differs, the read fails instead of
    returning wrong values.
    """
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    member = ".x" if "{" in description else ""
    run(tmp_path, file, "lua", f"function dynamic_dataset() lib.getData('out')[1]{member} = 1 end", description)
    expected = both(file, "out")
    run_python(OTHER_TYPE, file, kind, HDF5_PLUGIN_PATH="")
    if allowed:
        assert both(file, "out").tolist() == expected.tolist()
    else:
        assert "another byte order or layout" in failure(file, "out")


def test_live_compounds_feed_live_datasets(tmp_path: Path) -> None:
    """A compound computed in Python is the input of Lua, and Lua's of C++, with a string in it."""
    file = tmp_path / "a.h5"
    h5py.File(file, "w").close()
    first = """
def dynamic_dataset():
    rows = lib.getData("First")
    for n in range(4):
        rows[n].n = n
        rows[n].text = f"row {n}"
"""
    second = """
function dynamic_dataset()
    local a, b = lib.getData("First"), lib.getData("Second")
    for n = 1, 4 do
        b[n].double = 2 * a[n].n
        lib.setString(b[n].text, lib.string(a[n].text):upper())
    end
end
"""
    third = """
extern "C" void dynamic_dataset() {
    auto a = lib.getData<second_t>("Second");
    auto b = lib.getData<third_t>("Third");
    for (int n = 0; n < 4; n++) lib.setString(b[n], "%s is %g", lib.string(a[n].text), a[n].Double);
}
"""
    run(tmp_path, file, "py", first, "First:{n:int32,text:string(10)}:4")
    run(tmp_path, file, "lua", second.replace("double", "Double"), "Second:{Double:double,text:string(10)}:4")
    run(tmp_path, file, "cpp", third, "Third:4:string(20)")
    assert both(file, "Third").tolist() == [b"ROW %d is %d" % (n, 2 * n) for n in range(4)]


NESTED = """
def dynamic_dataset():
    rows, out = lib.getData("a"), lib.getData("out")
    for n in range(lib.getChunk()[0]):
        row = rows[n + lib.getOffset()[0] - lib.getOffset("a")[0]]
        names = " ".join(lib.string(text) for text in row.names)
        lib.setString(out[n].text, f"{row.n} {names} {lib.string(row.inner.title)} {row.inner.x}")
        out[n].n = len(rows)
"""


def test_strings_inside_of_arrays_and_compounds(tmp_path: Path) -> None:
    """Strings in blocks with a halo, in chunks, linked from another file, in a file object: each belongs to its
    element.
    """
    file = tmp_path / "a.h5"
    inner = np.dtype([("x", ">i2"), ("title", h5py.string_dtype()), ("more", "S3")])
    kind = np.dtype([("n", "i1"), ("names", h5py.string_dtype(), (3,)), ("inner", inner)])
    rows = np.zeros(11, kind)
    for n, row in enumerate(rows):
        row["n"], row["names"] = n, [f"name {n}", "", "ü" * n]
        row["inner"] = (n * 256, f"title {n}", b"abc")
    with h5py.File(tmp_path / "other.h5", "w") as opened:
        opened.create_dataset("a", data=rows, chunks=(4,), compression="gzip")
    with h5py.File(file, "w") as opened:
        # Its heap differs: a handle resolved in the wrong heap would give another string, or none.
        opened.create_dataset("own", data=["not this one"] * 50, dtype=h5py.string_dtype())
        opened["a"] = h5py.ExternalLink("other.h5", "/a")
    sizes = [min(first + 5, 11) - max(first - 1, 0) for first in (0, 4, 8)]
    texts = [f"{n} name {n}  {'ü' * n} title {n} {n * 256}" for n in range(11)]
    expected = [(text.encode(), sizes[n // 4]) for n, text in enumerate(texts)]
    run(tmp_path, file, "py", NESTED, "out:{text:string(80),n:int64}:11", chunks="4", halo=1)
    assert both(file, "out").tolist() == expected
    run(tmp_path, tmp_path / "other.h5", "py", NESTED, "out:{text:string(80),n:int64}:11")
    with hyperchunk.open(io.BytesIO((tmp_path / "other.h5").read_bytes())) as opened:
        assert opened["out"]["text"].tolist() == [text for text, _ in expected]


def test_strings_that_a_virtual_dataset_takes_from_another_file(tmp_path: Path) -> None:
    """Their heap handles belong to the other file: libhdf5 resolves them, and our reader reports that it does not."""
    file, source = tmp_path / "a.h5", tmp_path / "source.h5"
    with h5py.File(source, "w") as opened:
        opened.create_dataset("texts", data=["one", "two", "three"], dtype=h5py.string_dtype())
    layout = h5py.VirtualLayout((3,), h5py.string_dtype())
    layout[:] = h5py.VirtualSource(source, "texts", (3,))
    with h5py.File(file, "w") as opened:
        opened.create_dataset("own", data=["not", "these", "here"], dtype=h5py.string_dtype())
        opened.create_virtual_dataset("a", layout)
    with h5py.File(file) as opened:
        assert opened["a"][:].tolist() == [b"one", b"two", b"three"]
    with hyperchunk.open(file) as opened, pytest.raises(hyperchunk.exceptions.UnsupportedError, match="another file"):
        opened["a"][:]
