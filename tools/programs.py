"""Reads live datasets with common programs, and writes the results into a page of the docs.

Usage: programs.py [--only WORD] [--environment FOLDER] [--tools FOLDER] [--page PAGE]

Each program is unmodified and gets only ``HDF5_PLUGIN_PATH``. It reads a formula, a function in Lua (two dimensions), one in Python and
strings, from a file made here, or a variable of a netCDF file, and its output is compared with the expected one. Packages for Python
are taken from ``--environment``, a virtual environment that is made if it is missing; ``--tools`` is a folder with HDF5's tools of a
newer release. A missing program is in the table with the reason.
"""

# ruff: noqa: E501 (a table of command lines)

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import hyperchunk
import netCDF4
import numpy as np

BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
PACKAGES = ("h5py", "netCDF4", "tables", "xarray", "h5netcdf", "dask", "vtk", "itk", "h5grove", "silx")
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hyperchunk"
LUA = """
function dynamic_dataset()
  local out, base = lib.getData("img"), lib.getData("base")
  for i = 1, 600 do out[i] = base[i] * 3 end
end
"""
PYTHON = """
def dynamic_dataset():
    out, x = lib.getData("py"), lib.getData("x")
    for i in range(1000):
        out[i] = x[i] + 1
"""
LABELS = """
function dynamic_dataset()
  local out = lib.getData("label")
  for i = 1, 1000 do lib.setString(out[i], "label " .. (i - 1)) end
end
"""
#: Patterns of the expected values, as programs print them: y[7], the sum of img, py[7], label[7].
Y, IMG, PY, LABEL = r"\b14(\.0*)?\b", r"\b539100(\.0*)?\b|5\.391(00)?e\+0?5", r"\b8(\.0*)?\b", r"label 7\b"
SPEED = r"(?<!\d)5(\.0*)?\b"


@dataclass
class Program:
    """A program: its name, its commands, and patterns that its output must match."""

    name: str
    #: Shell commands, run in a folder with the files.
    run: str
    expected: list[str]
    #: Description on the page.
    what: str
    #: Requirements: commands, or packages (`import …`, `library(…)`, `use …`).
    needs: list[str] = field(default_factory=list)
    #: Command that prints the version.
    version: str = ""
    #: Additional files in the folder.
    files: dict[str, str] = field(default_factory=dict)


def make_files(folder: Path) -> None:
    """Creates the files that the programs read."""
    with h5py.File(folder / "scene.h5", "w") as file:
        file["x"] = np.arange(1000.0)
        file["base"] = np.arange(600, dtype="f4").reshape(20, 30)
    with netCDF4.Dataset(folder / "n.nc", "w") as file:
        for name, size in (("time", 2), ("lat", 3), ("lon", 4)):
            file.createDimension(name, size)
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = np.arange(size) * 10.0
        file["time"].units, file["lat"].units, file["lon"].units = (
            "days since 2000-01-01",
            "degrees_north",
            "degrees_east",
        )
        for name, value in (("u", 3), ("v", 4)):
            file.createVariable(name, "f4", ("time", "lat", "lon"))[:] = np.full((2, 3, 4), value)
    # An image in VTK's format.
    with h5py.File(folder / "image.vtkhdf", "w") as file:
        group = file.create_group("VTKHDF")
        group.attrs.update({"Version": [1, 0], "WholeExtent": [0, 9, 0, 19, 0, 2], "Origin": [0.0] * 3})
        group.attrs.update({"Spacing": [1.0] * 3, "Direction": [1.0, 0, 0, 0, 1, 0, 0, 0, 1]})
        group.attrs.create("Type", b"ImageData", dtype="S9")
        group.create_group("PointData").attrs["Scalars"] = "img"
        file["base"] = np.arange(600, dtype="f4").reshape(3, 20, 10)

    def attach(file: str, *words: str) -> None:
        subprocess.run(["hyperchunk", "udf", "attach", file, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    for name, text in (("img.lua", LUA), ("py.py", PYTHON), ("label.lua", LABELS)):
        (folder / name).write_text(text, encoding="utf-8")
    attach("scene.h5", "y", "--expression", "x * 2")
    attach("scene.h5", "img.lua", "img:20x30:float")
    attach("scene.h5", "py.py", "py:1000:double")
    attach("scene.h5", "label.lua", "label:1000:string(16)")
    attach("n.nc", "speed", "--expression", "sqrt(u*u + v*v)")
    attach("image.vtkhdf", "/VTKHDF/PointData/img", "--expression", "base * 3")
    # The same image in ITK's stored form: the dataset that it reads is replaced by a live one.
    with h5py.File(folder / "scene.h5") as file, h5py.File(folder / "stored.h5", "w") as stored:
        stored["y"] = np.arange(1000.0) * 2
        stored["base"] = file["base"][...]


C = """
#include <hdf5.h>
#include <stdio.h>
#ifdef MPI
#include <mpi.h>
#endif
int main(int argc, char **argv) {
    static double y[1000], py[1000]; static float img[600]; static char label[1000][16];
    double sum = 0; hid_t access = H5P_DEFAULT, transfer = H5P_DEFAULT, text = H5Tcopy(H5T_C_S1);
#ifdef MPI
    MPI_Init(&argc, &argv);
    access = H5Pcreate(H5P_FILE_ACCESS); H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    transfer = H5Pcreate(H5P_DATASET_XFER); H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
#endif
    hid_t file = H5Fopen("scene.h5", H5F_ACC_RDONLY, access);
    H5Tset_size(text, 16);
    if (H5Dread(H5Dopen2(file, "y", 0), H5T_NATIVE_DOUBLE, 0, 0, transfer, y) < 0
        || H5Dread(H5Dopen2(file, "py", 0), H5T_NATIVE_DOUBLE, 0, 0, transfer, py) < 0
        || H5Dread(H5Dopen2(file, "img", 0), H5T_NATIVE_FLOAT, 0, 0, transfer, img) < 0
        || H5Dread(H5Dopen2(file, "label", 0), text, 0, 0, transfer, label) < 0) return 1;
    for (int i = 0; i < 600; i++) sum += img[i];
    printf("%g %.0f %g %s\\n", y[7], sum, py[7], label[7]);
    fflush(stdout);
#ifdef MPI
    MPI_Finalize();
#endif
    return 0;
}
"""
CPP = """
#include <H5Cpp.h>
#include <iostream>
int main() {
    H5::H5File file("scene.h5", H5F_ACC_RDONLY);
    static double y[1000]; static float img[600]; double sum = 0;
    file.openDataSet("y").read(y, H5::PredType::NATIVE_DOUBLE);
    file.openDataSet("img").read(img, H5::PredType::NATIVE_FLOAT);
    for (float v : img) sum += v;
    std::cout << y[7] << " " << long(sum) << std::endl;
}
"""
FORTRAN = """
program read
  use hdf5
  integer(hid_t) :: file, dataset
  integer :: error
  integer(hsize_t) :: dims(1) = (/1000/)
  double precision :: y(1000)
  call h5open_f(error)
  call h5fopen_f("scene.h5", H5F_ACC_RDONLY_F, file, error)
  call h5dopen_f(file, "y", dataset, error)
  call h5dread_f(dataset, H5T_NATIVE_DOUBLE, y, dims, error)
  print *, y(8)
end program
"""
NETCDF_C = """
#include <netcdf.h>
#include <stdio.h>
int main(void) {
    int file, variable, status; static double speed[24];
    if ((status = nc_open("n.nc", NC_NOWRITE, &file)) || (status = nc_inq_varid(file, "speed", &variable))
        || (status = nc_get_var_double(file, variable, speed))) { puts(nc_strerror(status)); return 1; }
    printf("%g\\n", speed[23]);
}
"""
JAVA = """
import hdf.hdf5lib.H5;
import hdf.hdf5lib.HDF5Constants;
public class Read {
    public static void main(String[] a) throws Exception {
        long file = H5.H5Fopen("scene.h5", HDF5Constants.H5F_ACC_RDONLY, HDF5Constants.H5P_DEFAULT);
        double[] y = new double[1000];
        float[] img = new float[600];
        long all = HDF5Constants.H5S_ALL, p = HDF5Constants.H5P_DEFAULT;
        H5.H5Dread(H5.H5Dopen(file, "y", p), HDF5Constants.H5T_NATIVE_DOUBLE, all, all, p, y);
        H5.H5Dread(H5.H5Dopen(file, "img", p), HDF5Constants.H5T_NATIVE_FLOAT, all, all, p, img);
        double sum = 0;
        for (float v : img) sum += v;
        System.out.println(y[7] + " " + (long) sum);
    }
}
"""
H5PY = """
import h5py
f = h5py.File("scene.h5")
print(f["y"][7], f["img"][...].sum(dtype=float), f["py"][7], f["label"][7].decode())
"""
#: Packages of Bioconductor set `HDF5_PLUGIN_PATH` to their own folder when they are loaded.
SET_AGAIN = "Sys.setenv(HDF5_PLUGIN_PATH = Sys.getenv('PLUGINS'))\n"
R_READS = "for (n in c('y', 'py', 'label')) print({}[8]); print(sum({}), digits = 10)"


def programs(environment: Path, tools: Path | None) -> list[Program]:
    """Returns all programs."""
    python, debian = str(environment / "bin" / "python"), "/usr/bin/python3"
    flags = "$(pkg-config --cflags hdf5)"
    static = "/usr/lib/x86_64-linux-gnu/hdf5/serial/libhdf5.a -lcrypto -lcurl -lsz -lz -ldl -lm"

    def module(name: str, run: str, expected: list[str], what: str, script: str, of: str = python) -> Program:
        package = name.split()[0]
        show = f"import importlib.metadata as m; print(m.version('{package}'))"
        return Program(
            name, f"{of} {run}", expected, what, needs=[of, f"import {package} {of}"], version=f'{of} -c "{show}"',
            files={run: script},
        )  # fmt: skip

    tool = "h5dump --version | grep -o '[0-9.]*$'"
    found = [
        Program("h5dump", "for n in y py label; do h5dump -d $n -s 7 -c 1 scene.h5; done", [Y, PY, LABEL], "three datasets, an element each", ["h5dump"], tool),
        Program("h5ls", "h5ls -d scene.h5/y | head -3", [Y], "values of one", ["h5ls"], tool),
        Program("h5diff", "h5diff scene.h5 stored.h5 y y; echo status $?", ["status 0"], "a live dataset and a stored one", ["h5diff"], tool),
        Program("h5copy", "h5copy -i scene.h5 -o copied.h5 -s x -d x && h5copy -i scene.h5 -o copied.h5 -s y -d y && h5dump -d y -s 7 -c 1 copied.h5", [Y], "a live dataset and its input to another file", ["h5copy"], tool),
        Program("h5repack", "h5repack scene.h5 repacked.h5 && h5dump -d y -s 7 -c 1 repacked.h5", [Y], "the whole file", ["h5repack"], tool),
        Program("h5stat", "h5stat scene.h5", [r"31300|USERDEFINED|filter", r"datasets: 6|Number of datasets: 6|# of unique datasets: 6"], "the whole file", ["h5stat"], tool),
        Program("ncdump", "ncdump -v speed n.nc", [SPEED], "a live variable", ["ncdump"], "nc-config --version | grep -o '[0-9.]*'"),
        Program("nccopy", "nccopy n.nc o.nc && ncdump -v speed o.nc", [SPEED], "the whole file", ["nccopy"], "nc-config --version | grep -o '[0-9.]*'"),
        Program("nccopy -F none", "nccopy -F none n.nc o2.nc && ncdump -v speed o2.nc", [SPEED], "the whole file, without filters: stored values", ["nccopy"], "nc-config --version | grep -o '[0-9.]*'"),
        Program("NCO", "ncks -O -C --cmp=none -v speed n.nc o.nc && ncks -H -C -v speed o.nc", [SPEED], "`ncks -v speed` to another file", ["ncks"], "ncks --version 2>&1 | grep -o 'version [0-9.]*' | head -1 | cut -d' ' -f2"),
        Program("CDO", "cdo -s outputf,%g -selname,speed n.nc", [SPEED], "`-selname,speed`", ["cdo"], "cdo --version 2>&1 | grep -o 'version [0-9.]*' | head -1 | cut -d' ' -f2"),
        Program("GDAL", "gdalinfo -stats HDF5:scene.h5://img; gdal_translate -q -of AAIGrid HDF5:scene.h5://img img.asc && tail -1 img.asc", [r"1797"], "statistics of a live image, and a copy of it", ["gdalinfo"], "gdalinfo --version | grep -o '[0-9.]*' | head -1"),
        Program("GDAL, netCDF's driver", "gdalinfo -stats NETCDF:n.nc:speed", [r"Mean=5"], "statistics of a live variable", ["gdalinfo"], "gdalinfo --version | grep -o '[0-9.]*' | head -1"),
        Program("Octave", "octave -qf read.m", [Y, IMG, PY, LABEL], "`load` of the whole file", ["octave"], "octave --version | head -1 | grep -o '[0-9.]*' | head -1",
            {"read.m": "load scene.h5; disp(y(8)); disp(sum(double(img(:)))); disp(py(8)); disp(label(8,:)); disp(label(:,8)')\n"}),
        Program("R, rhdf5", "Rscript read.r", [Y, IMG, PY, LABEL], "`h5read`", ["Rscript", "library(rhdf5)"], "Rscript -e 'cat(as.character(packageVersion(\"rhdf5\")))'",
            {"read.r": "library(rhdf5)\n" + SET_AGAIN + R_READS.format("h5read('scene.h5', n)", "h5read('scene.h5', 'img')")}),
        Program("R, hdf5r", "Rscript read2.r", [Y, IMG, PY, LABEL], "`f[[\"y\"]][]`", ["Rscript", "library(hdf5r)"], "Rscript -e 'cat(as.character(packageVersion(\"hdf5r\")))'",
            {"read2.r": "library(hdf5r)\nf <- H5File$new('scene.h5', 'r')\n" + R_READS.format("f[[n]][]", "f[['img']][,]")}),
        Program("R, ncdf4", "Rscript read3.r", [SPEED], "`ncvar_get`", ["Rscript", "library(ncdf4)"], "Rscript -e 'cat(as.character(packageVersion(\"ncdf4\")))'",
            {"read3.r": "library(ncdf4)\nprint(ncvar_get(nc_open('n.nc'), 'speed')[1])\n"}),
        Program("R, HDF5Array", "Rscript read4.r", [IMG], "`sum(HDF5Array(…))`, in blocks", ["Rscript", "library(HDF5Array)"], "Rscript -e 'cat(as.character(packageVersion(\"HDF5Array\")))'",
            {"read4.r": "suppressMessages(library(HDF5Array))\n" + SET_AGAIN + "print(sum(HDF5Array('scene.h5', 'img')), digits = 10)\n"}),
        Program("Java, HDF5's interface", "javac -cp /usr/share/java/jarhdf5.jar Read.java && java -Djava.library.path=/usr/lib/jni:/usr/lib/x86_64-linux-gnu/jni -cp '/usr/share/java/*:.' Read", [Y, IMG], "`H5.H5Dread`", ["javac", "/usr/share/java/jarhdf5.jar"], "dpkg-query -W -f '${Version}' libhdf5-java | grep -o '^[0-9.]*'", {"Read.java": JAVA}),
        Program("Scilab", "scilab-cli -nb -f read.sce", [Y, IMG], "`h5read`", ["scilab-cli"], "dpkg-query -W -f '${Version}' scilab-cli | grep -o '^[0-9.]*'",
            {"read.sce": "a = h5read('scene.h5', '/y'); mprintf('%g\\n', a(8)); b = h5read('scene.h5', '/img'); mprintf('%.0f\\n', sum(double(b))); exit\n"}),
        Program("Perl, PDL::IO::HDF5", "perl read.pl", [Y, IMG], "`get`", ["perl", "use PDL::IO::HDF5"], "perl -MPDL::IO::HDF5 -e 'print $PDL::IO::HDF5::VERSION'",
            {"read.pl": "use PDL; use PDL::IO::HDF5; my $f = new PDL::IO::HDF5('scene.h5'); print $f->dataset('y')->get->at(7), ' ', $f->dataset('img')->get->double->sum, \"\\n\";\n"}),
        Program("h5utils", "h5totxt -d img scene.h5 | tail -1", [r"1797"], "`h5totxt`", ["h5totxt"], "dpkg-query -W -f '${Version}' h5utils | grep -o '^[0-9.]*'"),
        Program("GrADS", "grads -blc 'run read.gs'", [SPEED], "`sdfopen`, a live variable", ["grads"], "dpkg-query -W -f '${Version}' grads | grep -o '[0-9.]*' | sed -n 2p",
            {"read.gs": "'sdfopen n.nc'\n'set gxout print'\n'd speed'\nsay result\n'quit'\n"}),
        Program("netCDF's C library", "gcc -o ncread ncread.c $(nc-config --cflags --libs) && ./ncread", [SPEED], "`nc_get_var_double`", ["gcc", "nc-config"], "nc-config --version | grep -o '[0-9.]*'", {"ncread.c": NETCDF_C}),
        Program("C, shared libhdf5", "h5cc -shlib -o shared read.c && ./shared", [Y, IMG, PY, LABEL], "`H5Dread`", ["h5cc"], tool, {"read.c": C}),
        Program("C, libhdf5 inside", f"gcc {flags} -o inside read.c {static} && ./inside", [Y, IMG, PY, LABEL], "the same", ["gcc"], tool, {"read.c": C}),
        Program("C, libhdf5 inside, `-rdynamic`", f"gcc -rdynamic {flags} -o exports read.c {static} && ./exports", [Y, IMG, PY, LABEL], "the same", ["gcc"], tool, {"read.c": C}),
        Program("C, libhdf5 inside, stripped", f"gcc -s {flags} -o stripped read.c {static} && ./stripped; echo status $?", ["status 1", "do not strip it"], "the same: a refusal, with the reason on standard error", ["gcc"], tool, {"read.c": C}),
        Program("C, libhdf5 loaded late (`dlopen`)", "gcc -shared -fPIC -o libread.so $(pkg-config --cflags hdf5) read.c $(pkg-config --libs hdf5) && gcc -o late late.c -ldl && ./late", [Y, IMG, PY, LABEL], "the same", ["gcc"], tool,
            {"read.c": C, "late.c": '#include <dlfcn.h>\nint main(int c, char **v) { void *l = dlopen("./libread.so", RTLD_NOW | RTLD_LOCAL); return ((int (*)(int, char **))dlsym(l, "main"))(c, v); }\n'}),
        Program("C++, H5Cpp", f"g++ {flags} -o cpp read.cpp $(pkg-config --libs hdf5) -lhdf5_serial_cpp -lhdf5_cpp 2>/dev/null || g++ {flags} -o cpp read.cpp -lhdf5_serial_cpp $(pkg-config --libs hdf5); ./cpp", [Y, IMG], "`DataSet::read`", ["g++"], tool, {"read.cpp": CPP}),
        Program("Fortran", "gfortran -I/usr/include/hdf5/serial -o fortran read.f90 -L/usr/lib/x86_64-linux-gnu/hdf5/serial -lhdf5_fortran -lhdf5 && ./fortran", [Y], "`h5dread_f`", ["gfortran"], tool, {"read.f90": FORTRAN}),
        Program("MPI, two ranks", "h5pcc.openmpi -shlib -DMPI -o ranks read.c 2>/dev/null || h5pcc -shlib -DMPI -o ranks read.c; mpirun --allow-run-as-root --oversubscribe -n 2 ./ranks", [Y, IMG, PY, LABEL], "a collective `H5Dread`", ["h5pcc", "mpirun"], "mpirun --version | grep -o '[0-9.]*' | head -1", {"read.c": C}),
        module("h5py", "h.py", [Y, IMG, PY, LABEL], "`f[\"y\"][7]`", H5PY),
        Program("h5py of Debian", f"{debian} h.py", [Y, IMG, PY, LABEL], "the same", [f"import h5py {debian}"], f"{debian} -c 'import h5py; print(h5py.__version__)'", {"h.py": H5PY}),
        module("netCDF4", "n.py", [SPEED], "a variable", "import netCDF4\nprint(netCDF4.Dataset('n.nc')['speed'][1, 2, 3])\n"),
        module("tables", "t.py", [Y, IMG, PY, LABEL], "PyTables: `read()`", "import tables\nf = tables.open_file('scene.h5')\nprint(f.root.y[7], f.root.img.read().sum(dtype=float), f.root.py[7], f.root.label[7].decode())\n"),
        Program("PyTables of Debian", f"{debian} t.py", [Y, IMG, PY, LABEL], "the same", [f"import tables {debian}"], f"{debian} -c 'import tables; print(tables.__version__)'", {"t.py": "import tables\nf = tables.open_file('scene.h5')\nprint(f.root.y[7], f.root.img.read().sum(dtype=float), f.root.py[7], f.root.label[7].decode())\n"}),
        module("xarray", "x.py", [SPEED, "120"], "engines `netcdf4` and `h5netcdf`", "import xarray\nfor e in ('netcdf4', 'h5netcdf'):\n    d = xarray.open_dataset('n.nc', engine=e)\n    print(d.speed.values.ravel()[-1], float(d.speed.sum()))\n"),
        module("dask", "d.py", [IMG, "120"], "`from_array` over h5py in threads; xarray's chunks", "import dask.array as da, h5py, xarray\nprint(da.from_array(h5py.File('scene.h5')['img'], chunks=(5, 30)).sum(dtype=float).compute())\nprint(float(xarray.open_dataset('n.nc', chunks={'lat': 1}).speed.sum()))\n"),
        module("h5grove", "g.py", [Y, IMG], "the answers of a server of h5web", "import h5py, h5grove\nfrom h5grove.content import get_content_from_file\nwith get_content_from_file('scene.h5', '/y', lambda e: e) as c: print(c.data()[7])\nwith get_content_from_file('scene.h5', '/img', lambda e: e) as c: print(c.data().sum(dtype=float))\n"),
        module("silx", "s.py", [Y], "`silx.io.get_data`", "import silx.io\nprint(silx.io.get_data('silx:scene.h5?/y')[7])\n"),
        module("vtk", "v.py", [r"1797"], "`vtkHDFReader` (its own libhdf5, with a prefix)", "from vtkmodules.vtkIOHDF import vtkHDFReader\nr = vtkHDFReader(); r.SetFileName('image.vtkhdf'); r.Update()\nprint(r.GetOutput().GetPointData().GetArray(0).GetRange())\n"),
        module("itk", "i.py", [IMG], "an image of `itk.imwrite`, made live (its own libhdf5, with a prefix)", textwrap.dedent("""
            import h5py, itk, numpy as np, os, subprocess
            itk.imwrite(itk.image_from_array(np.arange(600, dtype="f4").reshape(20, 30)), "itk.hdf5")
            subprocess.run([os.environ["PYTHON_WITH_HYPERCHUNK"], "make_live.py"], check=True)
            print(itk.array_from_image(itk.imread("itk.hdf5")).sum(dtype=float))
            """)),
    ]  # fmt: skip
    found[-1].files["make_live.py"] = textwrap.dedent("""
        import h5py, subprocess
        with h5py.File("itk.hdf5", "r+") as f: f.move("/ITKImage/0/VoxelData", "/ITKImage/0/stored")
        subprocess.run(["hyperchunk", "udf", "attach", "itk.hdf5", "/ITKImage/0/VoxelData", "--expression", '"/ITKImage/0/stored" * 3'], check=True, stdout=subprocess.DEVNULL)
        """)
    newer = str(tools / "h5dump") if tools else ""
    of = f"{newer} --version | grep -o '[0-9.]*$'"
    found.insert(
        6,
        Program(
            "h5dump, newer",
            f"for n in y py label; do {newer} -d $n -s 7 -c 1 scene.h5; done",
            [Y, PY, LABEL],
            "three datasets, an element each",
            [newer or "HDF5's tools of release 2 (--tools)"],
            of,
        ),
    )
    return found


def missing(program: Program) -> str:
    """Returns the missing requirement of a program, or an empty string."""
    for need in program.needs:
        words = need.split()
        if words[0] == "import" and len(words) == 3:
            if subprocess.run([words[2], "-c", f"import {words[1]}"], capture_output=True, check=False).returncode != 0:
                return f"the package {words[1]}"
        elif need.startswith("library("):
            if subprocess.run(["Rscript", "-e", need], capture_output=True, check=False).returncode != 0:
                return f"R's package {need[8:-1]}"
        elif need.startswith("use "):
            if subprocess.run(["perl", "-e", need], capture_output=True, check=False).returncode != 0:
                return f"Perl's module {need[4:]}"
        elif shutil.which(need) is None and not Path(need).exists():
            return Path(need).name if need.startswith("/") else need
    return ""


def tried(program: Program, folder: Path, environment: dict[str, str]) -> tuple[str, str, str]:
    """Runs a program; returns its version, the verdict, and a line of unexpected output."""
    lacking = missing(program)
    if lacking:
        return "", "not installed", f"{lacking} is not on this machine"
    for name, text in program.files.items():
        (folder / name).write_text(text, encoding="utf-8")

    def shell(text: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-c", text]
        return subprocess.run(
            words,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            errors="replace",
        )

    version = shell(program.version).stdout.strip() if program.version else ""
    done = shell(program.run)
    said = done.stdout + done.stderr
    if all(re.search(pattern, said) for pattern in program.expected):
        return version, "right", ""
    last = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1]
    print(said, file=sys.stderr)
    return version, "**wrong**", last[:160].replace("|", "\\|")


def main() -> None:
    """Runs all programs, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--environment", type=Path, default=HOME / "programs")
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    if not given.environment.exists():
        subprocess.run([sys.executable, "-m", "venv", given.environment], check=True)
        for package in PACKAGES:
            # Installed one by one: an unavailable package is noted in the table.
            subprocess.run([given.environment / "bin" / "pip", "install", "--quiet", package], check=False)
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        home = folder / "home"
        home.mkdir()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_", "XDG_"))
        }
        own = str(Path(sys.executable).parent)
        system = {"HOME": str(home), "PATH": f"/usr/bin:/bin:/usr/local/bin:{own}"}
        os.environ.update(system | {"PATH": f"{own}:{kept.get('PATH', '')}"})
        for name in [name for name in os.environ if name.startswith(("HDF5_", "HYPERCHUNK_", "XDG_"))]:
            del os.environ[name]
        subprocess.run(["hyperchunk", "key", "new"], check=True, stdout=subprocess.DEVNULL)
        make_files(folder)
        plugins = str(Path(hyperchunk.__file__).parent / "plugins")
        environment = (
            kept | system | {"HDF5_PLUGIN_PATH": plugins, "PLUGINS": plugins, "PYTHON_WITH_HYPERCHUNK": sys.executable}
        )
        os.environ["PATH"] = f"{system['PATH']}"
        for program in programs(given.environment, given.tools):
            if given.only.lower() not in program.name.lower():
                continue
            version, came, why = tried(program, folder, environment)
            print(f"{program.name} {version}: {came} {why}", flush=True)
            rows.append(f"| {program.name} | {version} | {program.what} | {came}{': ' if why else ''}{why} |")
    right = sum("| right |" in row for row in rows)
    absent = sum("| not installed" in row for row in rows)
    table = ["| program | version | read | result |", "|---|---|---|---|", *rows]
    table += ["", f"{right} right, {len(rows) - right - absent} wrong, {absent} not installed."]
    if given.page:
        page = given.page.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        given.page.write_text(
            f"{before}{BEGIN}\n\n" + "\n".join(table) + f"\n\n{END}{rest.split(END)[1]}", encoding="utf-8"
        )
    if right + absent < len(rows):
        raise SystemExit(f"{len(rows) - right - absent} programs printed unexpected results")


if __name__ == "__main__":
    main()
