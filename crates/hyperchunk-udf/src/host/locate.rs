//! Locations of the workers' programs, next to the plugin or module that contains this code, and of
//! interpreters, compilers and libraries.

use crate::error::{Error, ErrorKind, Result, fail};
use crate::keys;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

const WORKER: &str = "hyperchunk-udf-worker";
const WASM_WORKER: &str = "hyperchunk-wasm-worker";
const COMMAND: &str = "hyperchunk";

static PACKAGE_DIR: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the location of the Python package, for code outside of it.
pub fn set_package_dir(dir: impl Into<PathBuf>) {
    *PACKAGE_DIR.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(dir.into());
}

/// Programs that run functions.
#[derive(Clone, Debug)]
pub struct Programs {
    package: Option<PathBuf>,
    here: PathBuf,
}

impl Programs {
    /// Searches around the object that this code was loaded from.
    ///
    /// # Errors
    /// `Worker` when the system does not report the object's path.
    pub fn find() -> Result<Self> {
        let here = own_object()?;
        let set = PACKAGE_DIR.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        // …/hyperchunk/plugins/lib….so, …/hyperchunk/connector/lib….so and …/hyperchunk/_core….so
        let around = here.ancestors().skip(1).take(2).find(|d| d.join("libexec").join(WORKER).is_file());
        Ok(Programs { package: set.or_else(|| around.map(Path::to_owned)), here })
    }

    /// Returns the folder of the Python package, if this code belongs to one.
    pub fn package(&self) -> Option<&Path> {
        self.package.as_deref()
    }

    /// Returns the folder with the filter plugins, for `HDF5_PLUGIN_PATH`.
    ///
    /// # Errors
    /// `NotFound` when the plugins are not beside this program.
    pub fn plugin_folder(&self) -> Result<PathBuf> {
        self.find_folder("libhyperchunk_filter.so", "plugins")
    }

    /// Returns the folder with the VOL connector, for the `HDF5_PLUGIN_PATH` of programs that name it in
    /// `HDF5_VOL_CONNECTOR`.
    ///
    /// The folder holds nothing else: HDF5 1.13 and newer load every connector on that path after each failed
    /// open.
    ///
    /// # Errors
    /// `NotFound` when the connector is not beside this program.
    pub fn connector_folder(&self) -> Result<PathBuf> {
        self.find_folder("libhyperchunk_vol.so", "connector")
    }

    fn find_folder(&self, plugin: &str, folder: &str) -> Result<PathBuf> {
        let beside = self.here.parent().map(Path::to_owned);
        let candidates = self.package.iter().map(|p| p.join(folder)).chain(beside);
        match candidates.into_iter().find(|d| d.join(plugin).is_file()) {
            Some(dir) => Ok(dir),
            None => {
                fail!(NotFound, "{plugin} is missing beside {}; reinstall hyperchunk", self.here.display())
            }
        }
    }

    /// Returns the path of the worker for Lua, C++ and compilers.
    ///
    /// # Errors
    /// `Worker` when it is missing or another user could have replaced it.
    pub fn worker(&self) -> Result<PathBuf> {
        self.own_program(WORKER)
    }

    /// Returns the path of the worker for WebAssembly.
    ///
    /// # Errors
    /// The errors of [`Programs::worker`].
    pub fn wasm_worker(&self) -> Result<PathBuf> {
        self.own_program(WASM_WORKER)
    }

    fn own_program(&self, name: &str) -> Result<PathBuf> {
        let mut candidates = Vec::new();
        if let Some(dir) = &self.package {
            candidates.push(dir.join("libexec").join(name));
        }
        if let Some(dir) = self.here.parent() {
            // A build folder of cargo.
            candidates.push(dir.join(name));
            candidates.extend(dir.parent().map(|d| d.join(name)));
        }
        match candidates.iter().find(|p| p.is_file()) {
            Some(path) => check_program(path),
            None => fail!(Worker, "{name} is missing beside {}; reinstall hyperchunk", self.here.display()),
        }
    }

    /// Returns the path of the `hyperchunk` command installed with this code, if there is one.
    pub fn command(&self) -> Option<PathBuf> {
        let beside = self.here.ancestors().skip(1).take(2).map(|folder| folder.join(COMMAND));
        let pythons = self.package.iter().flat_map(|folder| package_pythons(folder));
        let scripts = pythons.map(|python| python.with_file_name(COMMAND));
        scripts.chain(beside).find(|path| path.is_file() && check_program(path).is_ok())
    }

    /// Returns the Python interpreter for functions in Python: `$HYPERCHUNK_PYTHON`, else the one to which
    /// this package belongs, else the one that this process runs, else `python3` in the system's folders.
    ///
    /// # Errors
    /// `Worker` when there is none.
    pub fn python(&self) -> Result<PathBuf> {
        if let Some(path) = named("HYPERCHUNK_PYTHON") {
            return check_program(&path).map(|_| path);
        }
        let candidates = self.package.iter().flat_map(|dir| package_pythons(dir)).chain(embedded_python());
        let system = ["/usr/local/bin/python3", "/usr/bin/python3"].map(PathBuf::from);
        let mut candidates = candidates.chain(system);
        // The path is not resolved: a virtual environment's interpreter is a symbolic link.
        match candidates.find(|p| p.is_file() && check_program(p).is_ok()) {
            Some(path) => Ok(path),
            None => fail!(
                Worker,
                "no Python interpreter for functions in Python; set HYPERCHUNK_PYTHON to one that has hyperchunk installed"
            ),
        }
    }

    /// Lists the folders of Python packages: the parent of ours, and those in the environments of its
    /// interpreters.
    fn packages(&self) -> impl Iterator<Item = PathBuf> {
        let beside = self.package.iter().filter_map(|p| p.parent().map(Path::to_owned));
        let pythons = self.package.iter().flat_map(|dir| package_pythons(dir)).chain(embedded_python());
        beside.chain(pythons.flat_map(|python| site_packages(&python)))
    }

    /// Returns the folder of a library from NVIDIA's Python packages, beside ours or in the environment of
    /// its interpreter. `None` also if the environment variable `variable` names another one.
    pub fn nvidia(&self, variable: &str, folder: &str) -> Option<PathBuf> {
        if std::env::var_os(variable).is_some() && !keys::is_set_uid() {
            return None;
        }
        self.packages().map(|p| p.join("nvidia").join(folder)).find(|folder| folder.is_dir())
    }

    /// Returns the path of Zig, which compiles C and C++ to WebAssembly: `$HYPERCHUNK_ZIG`, else the one of
    /// the package `ziglang` beside the Python package or in the environment of its interpreter, else one in
    /// the system's folders.
    ///
    /// # Errors
    /// `NotFound` when there is none, with how to get it; `Worker` when another user could have replaced it.
    pub fn zig(&self) -> Result<PathBuf> {
        if let Some(path) = named("HYPERCHUNK_ZIG") {
            return check_program(&path);
        }
        let system = ["/usr/local/bin/zig", "/usr/bin/zig"].map(PathBuf::from);
        let mut candidates = self.packages().map(|p| p.join("ziglang").join("zig")).chain(system);
        match candidates.find(|p| p.is_file()) {
            Some(path) => check_program(&path),
            None => fail!(
                NotFound,
                "compiling C and C++ to WebAssembly needs Zig: pip install ziglang (or set HYPERCHUNK_ZIG to its program)"
            ),
        }
    }

    /// Returns the path of NVRTC, the library that compiles CUDA to PTX: `$HYPERCHUNK_NVRTC`, else the one of
    /// NVIDIA's Python package beside ours or in the environment of its interpreter, else the system's.
    ///
    /// # Errors
    /// `NotFound` when there is none, with how to get it; `Worker` when another user could have replaced it.
    pub fn nvrtc(&self) -> Result<PathBuf> {
        if let Some(path) = named("HYPERCHUNK_NVRTC") {
            return check_program(&path);
        }
        let folders = self.packages().flat_map(|p| {
            let nvidia = p.join("nvidia");
            ["cuda_nvrtc/lib", "cu13/lib"].map(|folder| nvidia.join(folder))
        });
        let system = [
            "/usr/local/cuda/lib64",
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/opt/cuda/lib64",
        ];
        let folders = folders.chain(system.map(PathBuf::from));
        let mut candidates = folders.flat_map(|folder| {
            ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"].map(|name| folder.join(name))
        });
        match candidates.find(|p| p.is_file()) {
            Some(path) => check_program(&path),
            None => fail!(
                NotFound,
                "compiling CUDA needs NVRTC (and no GPU): pip install 'hyperchunk[cuda]' (or set HYPERCHUNK_NVRTC to libnvrtc.so)"
            ),
        }
    }

    /// Returns the driver's library named by `$HYPERCHUNK_CUDA_DRIVER`, which replaces the system's, if set.
    ///
    /// # Errors
    /// `Worker` when another user could have replaced it.
    pub(crate) fn cuda_driver() -> Result<Option<PathBuf>> {
        named("HYPERCHUNK_CUDA_DRIVER").map(|path| check_program(&path)).transpose()
    }

    /// Returns the path of nvCOMP, which decompresses on the GPU: `$HYPERCHUNK_NVCOMP`, else the one of
    /// NVIDIA's Python package beside ours or in the environment of its interpreter, which does not work with
    /// a substitute for NVIDIA's driver. `None` if the system's loader has to find it.
    ///
    /// # Errors
    /// `Worker` when another user could have replaced it.
    pub(crate) fn nvcomp(&self, substitute: bool) -> Result<Option<PathBuf>> {
        const VARIABLE: &str = "HYPERCHUNK_NVCOMP";
        if let Some(path) = named(VARIABLE) {
            return check_program(&path).map(Some);
        }
        let folder = self.nvidia(VARIABLE, "libnvcomp/lib64").filter(|_| !substitute);
        let library = folder.map(|folder| folder.join("libnvcomp.so.6")).filter(|path| path.is_file());
        library.map(|path| check_program(&path)).transpose()
    }

    /// Returns the path of the Python source with which a Python worker starts.
    pub fn python_main(&self) -> Option<PathBuf> {
        self.package.as_ref().map(|d| d.join("_zygote.py")).filter(|p| p.is_file())
    }
}

/// Returns the absolute path in an environment variable; none in a set-uid program, whose environment comes
/// from its caller.
fn named(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.filter(|path| path.is_absolute() && !keys::is_set_uid())
}

/// Returns the candidate interpreters of a package: `…/lib/python3.N/site-packages/hyperchunk` belongs to
/// `…/bin/python3.N`; a development build names its interpreter in a file.
fn package_pythons(package: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(text) = std::fs::read_to_string(package.join("plugins").join("worker-python")) {
        found.push(PathBuf::from(text.trim_end()));
    }
    let site = package.parent();
    let lib = site.and_then(Path::parent);
    if let (Some(lib), Some(prefix)) = (lib, lib.and_then(Path::parent).and_then(Path::parent))
        && let Some(name) = lib.file_name().and_then(|n| n.to_str()).filter(|n| n.starts_with("python3"))
    {
        found.push(prefix.join("bin").join(name));
        found.push(prefix.join("bin").join("python3"));
    }
    found
}

/// Lists the package folders in an interpreter's environment.
fn site_packages(python: &Path) -> Vec<PathBuf> {
    let lib = python.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    let folders = lib.and_then(|lib| std::fs::read_dir(lib).ok()).into_iter().flatten().flatten();
    let versions = folders.filter(|f| f.file_name().to_string_lossy().starts_with("python3"));
    let mut found: Vec<_> = versions.map(|f| f.path().join("site-packages")).collect();
    found.sort();
    found
}

/// Returns `sys.executable` of the Python in this process, if there is one. None in a set-uid program, whose
/// value depends on its caller's input.
fn embedded_python() -> Option<PathBuf> {
    if keys::is_set_uid() {
        return None;
    }
    type FullPath = unsafe extern "C" fn() -> *const libc::wchar_t;
    // SAFETY: a look-up of a name in this process.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"Py_GetProgramFullPath".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: CPython documents this function: no arguments, a borrowed wide string or null.
    let mut wide = unsafe { std::mem::transmute::<*mut libc::c_void, FullPath>(symbol)() };
    if wide.is_null() {
        return None;
    }
    let mut text = String::new();
    // SAFETY: the string ends with a zero.
    while let c @ 1.. = unsafe { *wide } {
        text.push(char::from_u32(u32::try_from(c).ok()?)?);
        // SAFETY: not yet at the end.
        wide = unsafe { wide.add(1) };
    }
    Some(PathBuf::from(text))
}

fn own_object() -> Result<PathBuf> {
    // SAFETY: all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let inside = own_object as fn() -> Result<PathBuf>;
    // SAFETY: any address may be asked about; the answer is borrowed from the loader.
    let found = unsafe { libc::dladdr(inside as *const libc::c_void, &raw mut info) } != 0
        && !info.dli_fname.is_null();
    if !found {
        fail!(Worker, "the system does not report where hyperchunk is installed")
    }
    // SAFETY: a NUL-terminated string of the loader.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    // A program started by a bare name has no usable path here.
    let path = object_path(name, inside as usize)
        .unwrap_or_else(|| std::env::current_exe().unwrap_or_else(|_| path.to_owned()));
    std::fs::canonicalize(&path).map_err(|e| Error::io(path.display(), &e))
}

/// Returns the absolute path of the object with this code, which the loader knows as `name`: a path that may
/// be relative to a working directory that the process has left, or the bare name of a program. `None` if the
/// system does not report it.
pub fn object_path(name: &CStr, code: usize) -> Option<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let maps = std::fs::read("/proc/self/maps").ok()?;
    mapped_path(&maps, code)
}

/// Returns the path of the mapping that contains an address, from the content of `/proc/PID/maps`: START-END
/// MODE OFFSET DEVICE INODE PATH.
fn mapped_path(maps: &[u8], address: usize) -> Option<PathBuf> {
    maps.split(|&byte| byte == b'\n').find_map(|line| {
        let range = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
        let (start, end) = range.split_once('-')?;
        let bounds = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = line.get(line.iter().position(|&byte| byte == b'/')?..)?;
        bounds.contains(&address).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    })
}

/// Keeps the object with this code loaded. HDF5 unloads plugins when it closes; our threads, and other
/// threads that still hold our state, would then execute unmapped code.
pub fn keep_loaded() {
    static ONCE: Once = Once::new();
    // Not the address of a plugin's function: an object may lack that one.
    let inside: fn() = keep_loaded;
    // SAFETY: all-zero is a valid Dl_info; the address is our own; the name is the loader's; NOLOAD and
    // NODELETE only count and mark.
    ONCE.call_once(|| unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(inside as *const libc::c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
            return;
        }
        let name = CStr::from_ptr(info.dli_fname);
        let path = object_path(name, inside as usize);
        let path = path.and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
        let path = path.as_deref().unwrap_or(name);
        libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_NODELETE | libc::RTLD_LAZY);
    });
}

/// Returns the real path of a program or library.
///
/// # Errors
/// `Worker` if another user could have replaced it, `Io`.
fn check_program(path: &Path) -> Result<PathBuf> {
    let real = std::fs::canonicalize(path).map_err(|e| Error::io(path.display(), &e))?;
    let meta = std::fs::metadata(&real).map_err(|e| Error::io(real.display(), &e))?;
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    // SAFETY: getegid has no preconditions.
    let group = unsafe { libc::getegid() };
    let unsafe_mode = |m: &std::fs::Metadata| {
        // Where every user has a private group, installed files are writable for that group.
        m.mode() & 0o002 != 0 || (m.mode() & 0o020 != 0 && m.gid() != group && m.gid() != 0)
    };
    // A set-gid program runs as its caller.
    let ours = meta.uid() == user && !keys::is_set_uid();
    let foreign = !ours && meta.uid() != 0 && !owned_like_us(&meta);
    if foreign || unsafe_mode(&meta) {
        let message = format!(
            "{} could have been replaced by another user (owner {}, mode {:o})",
            real.display(),
            meta.uid(),
            meta.mode() & 0o7777
        );
        return Err(Error::new(ErrorKind::Worker, message));
    }
    let folder = real.parent().unwrap_or(&real);
    let meta = std::fs::metadata(folder).map_err(|e| Error::io(folder.display(), &e))?;
    // In a folder with the sticky bit, others cannot replace files of other owners.
    if unsafe_mode(&meta) && meta.mode() & 0o1000 == 0 {
        let message = format!("others can replace files in {}; run: chmod go-w {0}", folder.display());
        return Err(Error::new(ErrorKind::Worker, message));
    }
    Ok(real)
}

/// Accepts software that an administrator installed under a dedicated account: it has the same owner as the
/// object that already runs in this process.
fn owned_like_us(meta: &std::fs::Metadata) -> bool {
    own_object()
        .and_then(|p| std::fs::metadata(p).map_err(|e| Error::io("own object", &e)))
        .is_ok_and(|m| m.uid() == meta.uid())
}
