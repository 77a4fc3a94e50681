//! Tests with real programs: a shared object, a C++ compiler, and CPython.

use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use super::super::seccomp::{Phase, programs};
use super::super::{Access, DENIED_EXIT_CODE, Policy, Rights, Runtime, StopReason, end_loading, restrict};

use super::harness::{
    Outcome, PAYLOAD, SURVIVED_EXIT_CODE, SharedPage, call, policy, run, step, worker_start,
};

pub(super) const DIRECTORY: &str = "HYPERCHUNK_LOCKDOWN_DIRECTORY";
const COMPILER: &CStr = c"/usr/bin/c++";
const PYTHON: &CStr = c"/usr/bin/python3";

pub(super) fn scenario(name: &str) -> bool {
    match name {
        "object" => object_scenario(),
        "compiler" => compiler_scenario(),
        "python" => ["compute", "socket", "system", "thread", "memfd"].into_iter().for_each(python_step),
        _ => return false,
    }
    true
}

/// Private directory that the ordinary user of the scenarios may use.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new(name: &str) -> Directory {
        let path = env::temp_dir().join(format!("hyperchunk-lockdown-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        Directory(path)
    }

    pub(super) fn in_scenario() -> PathBuf {
        env::var_os(DIRECTORY).unwrap().into()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_there(program: &CStr) -> bool {
    let path = Path::new(program.to_str().unwrap());
    path.exists() || {
        eprintln!("skipped: there is no {}", path.display());
        false
    }
}

/// Source with a constructor, both ways to print, an exception and heap use.
const OBJECT: &str = r#"
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
static std::map<std::string, int> factors{{"twice", 2}};
extern "C" int twice(int x) {
    std::vector<double> large(1 << 20, 1.0);
    std::cout << "printed by a stream " << large.size() << std::endl;
    std::printf("printed by printf %f\n", std::sin(large[7]));
    std::fflush(stdout);
    try {
        throw std::runtime_error("caught");
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
    }
    return factors.at("twice") * x;
}
"#;

/// Operations tried in the loading phase and after it.
const OBJECT_STEPS: [&str; 7] =
    ["call", "read", "write", "create", "after/open", "after/executable", "after/filter"];

fn object_scenario() {
    let object = fs::read(Directory::in_scenario().join("object.so")).unwrap();
    for name in OBJECT_STEPS {
        step(&format!("object/{name}"), |shared| load_object(shared, name, &object));
    }
}

/// Writes the object to a memory file, as the host does, loads it in the sandbox and calls it.
fn load_object(shared: &SharedPage, name: &str, object: &[u8]) {
    worker_start(shared);
    // SAFETY: the name is a literal; the descriptor is ours.
    let memory = unsafe { libc::memfd_create(c"object".as_ptr(), 0) };
    // SAFETY: the owner of descriptor 5 is not used again in this child.
    assert_eq!(unsafe { libc::dup2(memory, PAYLOAD) }, PAYLOAD);
    let mut file = File::options().write(true).open(format!("/proc/self/fd/{PAYLOAD}")).unwrap();
    file.write_all(object).unwrap();
    drop(file);
    for library in [c"libm.so.6", c"libgcc_s.so.1", c"libstdc++.so.6"] {
        // SAFETY: libraries of the system, loaded before files become inaccessible.
        assert!(!unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) }.is_null());
    }
    restrict(&policy(Runtime::Cpp)).unwrap();
    let flags = match name {
        "read" => Some(libc::O_RDONLY),
        "write" => Some(libc::O_RDWR),
        "create" => Some(libc::O_RDONLY | libc::O_CREAT),
        _ => None,
    };
    let passwd = c"/etc/passwd".as_ptr() as usize;
    if let Some(flags) = flags {
        let flags = usize::try_from(flags).unwrap();
        shared.put(0, call(libc::SYS_openat, [libc::AT_FDCWD as usize, passwd, flags, 0, 0, 0]));
        return;
    }
    // SAFETY: the object was made by the test, and its constructors are harmless.
    let handle = unsafe { libc::dlopen(c"/proc/self/fd/5".as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        // SAFETY: after a failure dlerror returns a valid string.
        panic!("{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
    }
    // SAFETY: the handle is valid and the name a literal.
    let symbol = unsafe { libc::dlsym(handle, c"twice".as_ptr()) };
    assert!(!symbol.is_null());
    end_loading(Runtime::Cpp, &Rights::default()).unwrap();
    // SAFETY: the symbol is the function of OBJECT.
    let twice = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(symbol) };
    shared.put(0, i64::from(twice(21)));
    match name {
        "after/open" => shared.put(1, call(libc::SYS_openat, [libc::AT_FDCWD as usize, passwd, 0, 0, 0, 0])),
        "after/executable" => {
            shared.put(1, call(libc::SYS_mprotect, [symbol as usize & !4095, 4096, 5, 0, 0, 0]))
        }
        "after/filter" => shared.put(1, call(libc::SYS_seccomp, [1, 0, 0, 0, 0, 0])),
        _ => {}
    }
}

#[test]
fn an_object_loads_and_then_has_less() {
    if !is_there(COMPILER) {
        return;
    }
    let directory = Directory::new("object");
    let source = directory.0.join("object.cpp");
    let object = directory.0.join("object.so");
    fs::write(&source, OBJECT).unwrap();
    let built = Command::new(COMPILER.to_str().unwrap())
        .args(["-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .status();
    assert!(built.unwrap().success());
    let Some(outcomes) = run("object", &[(DIRECTORY, &directory.0)]) else { return };
    let find = |name: &str| -> Outcome {
        let name = format!("object/{name}");
        outcomes.iter().find(|outcome| outcome.step == name).unwrap().clone()
    };
    let ran = find("call");
    assert_eq!((ran.code, ran.values[0]), (i64::from(SURVIVED_EXIT_CODE), 42), "{ran:?}");
    let read = find("read");
    assert_eq!(
        (read.code, read.values[0]),
        (i64::from(SURVIVED_EXIT_CODE), -i64::from(libc::EACCES)),
        "{read:?}"
    );
    for (name, reason, number) in [
        ("write", StopReason::DeniedCall, libc::SYS_openat),
        ("create", StopReason::DeniedCall, libc::SYS_openat),
        ("after/open", StopReason::DeniedCall, libc::SYS_openat),
        ("after/executable", StopReason::ExecutableMemory, libc::SYS_mprotect),
        ("after/filter", StopReason::DeniedCall, libc::SYS_seccomp),
    ] {
        let outcome = find(name);
        assert_eq!(outcome.code, i64::from(DENIED_EXIT_CODE), "{outcome:?}");
        assert_eq!((outcome.reason, outcome.syscall), (i64::from(reason as u32), number), "{outcome:?}");
    }
}

fn execute(program: &CStr, arguments: &[&str], environment: &[&str]) -> io::Error {
    let own = |texts: &[&str]| texts.iter().map(|text| CString::new(*text).unwrap()).collect::<Vec<_>>();
    let pointers =
        |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let mut all = vec![program.to_str().unwrap()];
    all.extend(arguments);
    let (all, environment) = (own(&all), own(environment));
    // SAFETY: both lists end with a null pointer, and their strings live in this frame.
    unsafe { libc::execve(program.as_ptr(), pointers(&all).as_ptr(), pointers(&environment).as_ptr()) };
    io::Error::last_os_error()
}

fn compile(directory: &Path, source: &str, target: &Path) {
    let policy = Policy {
        memory: 2 << 30,
        cpu_seconds: 20,
        file_size: 64 << 20,
        scratch: Some(directory.join("scratch")),
        keep_descriptors: vec![0, 1, 2],
        ..policy(Runtime::Compiler)
    };
    let temporary = format!("TMPDIR={}", directory.join("scratch").display());
    let source = directory.join("scratch").join(source);
    let (source, target) = (source.to_str().unwrap(), target.to_str().unwrap());
    restrict(&policy).unwrap();
    let error = execute(
        COMPILER,
        &["-shared", "-fPIC", "-O2", "-o", target, source],
        &["PATH=/usr/bin:/bin", &temporary, "LC_ALL=C"],
    );
    panic!("{error}");
}

const COMPILER_ATTACKS: [(&str, i64); 6] = [
    ("socket", libc::SYS_socket),
    ("prlimit", libc::SYS_prlimit64),
    ("kill", libc::SYS_kill),
    ("chmod", libc::SYS_fchmodat),
    ("ptrace", libc::SYS_ptrace),
    ("execveat", libc::SYS_execveat),
];

fn compiler_scenario() {
    let directory = Directory::in_scenario();
    step("good", |_| compile(&directory, "good.cpp", &directory.join("scratch/good.so")));
    step("include", |_| compile(&directory, "include.cpp", &directory.join("scratch/include.so")));
    step("outside", |_| compile(&directory, "good.cpp", &directory.join("outside.so")));
    for (name, number) in COMPILER_ATTACKS {
        step(name, |shared| {
            worker_start(shared);
            let scratch = Some(directory.join("scratch"));
            restrict(&Policy { scratch, ..policy(Runtime::Compiler) }).unwrap();
            shared.put(0, call(number, [1, 1, 0, 0, 0, 0]));
        });
    }
}

#[test]
fn a_compiler_compiles_and_sees_nothing_else() {
    if !is_there(COMPILER) {
        return;
    }
    let directory = Directory::new("compiler");
    let scratch = directory.0.join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::set_permissions(&scratch, Permissions::from_mode(0o777)).unwrap();
    fs::write(scratch.join("good.cpp"), "#include <cmath>\n#include <vector>\ndouble f(double x) {\nstd::vector<double> v(9, x);\nreturn std::sin(v[3]); }\n").unwrap();
    // Readable for the user, and no header: the test checks whether the compiler sees a line of it.
    fs::write(scratch.join("include.cpp"), "#include \"/etc/passwd\"\n").unwrap();
    let Some(outcomes) = run("compiler", &[(DIRECTORY, &directory.0)]) else { return };
    let find = |name: &str| outcomes.iter().find(|outcome| outcome.step == name).unwrap();
    assert_eq!(find("good").code, 0, "{:?}", find("good"));
    assert!(scratch.join("good.so").exists());
    assert_eq!(find("include").code, 1, "{:?}", find("include"));
    assert_eq!(find("outside").code, 1, "{:?}", find("outside"));
    assert!(!directory.0.join("outside.so").exists());
    for (name, number) in &COMPILER_ATTACKS[..3] {
        assert_eq!(find(name).syscall, *number, "{name}");
    }
    // Not executed: with these arguments, it would fail.
    assert_eq!(find("chmod").values[0], 0);
    for name in ["ptrace", "execveat"] {
        assert_eq!(find(name).signal, i64::from(libc::SIGSYS), "{name}");
    }
}

/// Runs CPython, which installs the filters on itself (without the other layers) and then acts according to
/// `mode`.
fn python_step(mode: &str) {
    step(mode, |_| {
        let mut filters = Vec::new();
        for program in programs(Runtime::Python, Phase::First, Access::default()).unwrap() {
            let mut hex = String::new();
            for i in program {
                let [a, b] = i.code.to_le_bytes();
                let [c, d, e, f] = i.k.to_le_bytes();
                hex.extend([a, b, i.jt, i.jf, c, d, e, f].map(|byte| format!("{byte:02x}")));
            }
            filters.push(hex);
        }
        let number = libc::SYS_seccomp.to_string();
        let error = execute(
            PYTHON,
            &["-I", "-c", include_str!("python.py"), mode, &number, &filters.join(",")],
            &["PATH=/usr/bin:/bin"],
        );
        panic!("{error}");
    });
}

#[test]
fn python_computes_and_gets_exceptions_for_files() {
    if !is_there(PYTHON) {
        return;
    }
    let Some(outcomes) = run("python", &[]) else { return };
    for outcome in &outcomes {
        if outcome.step == "compute" {
            assert_eq!(outcome.code, 0, "{outcome:?}");
        } else {
            // CPython does not have our handler here.
            assert_eq!(outcome.signal, i64::from(libc::SIGSYS), "{outcome:?}");
        }
    }
    assert_eq!(outcomes.len(), 5);
}
