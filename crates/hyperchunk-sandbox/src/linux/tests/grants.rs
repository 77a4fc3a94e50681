//! Tests of grants: granted paths are accessible, neighbouring ones are not, and everything else is
//! unchanged.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::super::{Rights, Runtime, restrict};
use super::attacks::attacks;
use super::harness::{Outcome, PAYLOAD, PEER, SURVIVED_EXIT_CODE, SharedPage, call, policy, run, step};
use super::languages::{DIRECTORY, Directory};
use super::{FUNCTIONS, each_attack, lock, lock_with, met};

/// Operations on files, and whether grants allow them.
const TRIES: [(&str, bool); 16] = [
    ("read", true),
    ("read-below", true),
    ("list", true),
    ("read-single", true),
    ("read-written", true),
    ("create", true),
    ("overwrite", true),
    ("rename", true),
    ("remove", true),
    ("neighbour", false),
    ("neighbour-of-single", false),
    ("link-out", false),
    ("dot-dot", false),
    ("write-what-is-read", false),
    ("create-beside", false),
    ("set-user-id", false),
];

pub(super) fn scenario(name: &str) -> bool {
    match name {
        "files" => file_scenario(),
        "attacks-with-files" => {
            for (name, runtime) in FUNCTIONS {
                each_attack(|attack, index| {
                    step(&format!("{name}/{attack}"), |shared| {
                        let attack = &attacks()[index];
                        lock_with(shared, runtime, file_grants());
                        shared.put(0, attack.run());
                    });
                });
            }
        }
        "attacks-with-network" => {
            for (name, runtime) in FUNCTIONS {
                each_attack(|attack, index| {
                    step(&format!("{name}/{attack}"), |shared| {
                        let attack = &attacks()[index];
                        lock_with(shared, runtime, network_grants());
                        shared.put(0, attack.run());
                    });
                });
                step(&format!("{name}/use"), |shared| use_a_connection(shared, runtime));
            }
        }
        "threads" => thread_scenario(),
        "odd-paths" => odd_paths(),
        _ => return false,
    }
    true
}

fn file_grants() -> Rights {
    let at = |name: &str| Directory::in_scenario().join(name);
    Rights { read: vec![at("read"), at("single.txt")], write: vec![at("write")], ..Rights::default() }
}

fn network_grants() -> Rights {
    Rights { connect: true, ..Rights::default() }
}

/// Uses a connection as functions do, on a descriptor that stands for one.
fn use_a_connection(shared: &SharedPage, runtime: Runtime) {
    super::worker_start(shared);
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) }, 0);
    for (end, to) in ends.into_iter().zip([PAYLOAD, PEER]) {
        // SAFETY: the owner of either descriptor is not used again in this child.
        assert_eq!(unsafe { libc::dup2(end, to) }, to);
    }
    super::lock_keeping(runtime, network_grants());
    let (mut text, mut length) = ([0_u8; 4], 4_u32);
    let at = text.as_mut_ptr() as usize;
    let lengths = [&raw mut length as usize, 0];
    let (fd, other) = (PAYLOAD as usize, PEER as usize);
    assert_eq!(call(libc::SYS_sendto, [fd, c"abc".as_ptr() as usize, 3, 0x4000, 0, 0]), 3);
    assert_eq!(call(libc::SYS_recvfrom, [other, at, 4, 0, 0, 0]), 3);
    assert_eq!(call(libc::SYS_write, [other, c"xyz".as_ptr() as usize, 3, 0, 0, 0]), 3);
    assert_eq!(call(libc::SYS_read, [fd, at, 4, 0, 0, 0]), 3);
    assert_eq!(call(libc::SYS_getsockopt, [fd, 1, libc::SO_TYPE as usize, at, lengths[0], 0]), 0);
    text = [1, 0, 0, 0];
    assert_eq!(call(libc::SYS_ioctl, [fd, 0x5421, text.as_mut_ptr() as usize, 0, 0, 0]), 0);
    assert_eq!(call(libc::SYS_setsockopt, [fd, 1, libc::SO_KEEPALIVE as usize, at, 4, 0]), 0);
    assert_eq!(call(libc::SYS_ioctl, [fd, 0x5401, at, 0, 0, 0]), -i64::from(libc::ENOTTY));
    assert_eq!(call(libc::SYS_shutdown, [fd, 1, 0, 0, 0, 0]), 0);
    assert_eq!(call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]), 0);
    shared.put(0, 1);
}

fn file_scenario() {
    for (language, runtime) in FUNCTIONS {
        for (name, _) in TRIES {
            step(&format!("{language}/{name}"), |shared| {
                lock_with(shared, runtime, file_grants());
                shared.put(0, i64::from(attempt(name)));
            });
        }
        step(&format!("{language}/too-large"), |shared| {
            lock_with(shared, runtime, file_grants());
            let written = fs::write(Directory::in_scenario().join("write").join("large"), vec![1; 1 << 17]);
            shared.put(0, i64::from(written.is_ok()));
        });
        // Control: the same without grants.
        step(&format!("{language}/without"), |shared| {
            lock(shared, runtime);
            shared.put(0, i64::from(attempt("read")));
        });
    }
}

/// Returns whether it worked.
fn attempt(name: &str) -> bool {
    let at = |name: &str| Directory::in_scenario().join(name);
    let has = |path: PathBuf, text: &str| fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes());
    match name {
        "read" => has(at("read/a.txt"), "granted"),
        "read-below" => has(at("read/below/b.txt"), "granted"),
        "list" => fs::read_dir(at("read")).is_ok_and(|entries| entries.count() == 3),
        "read-single" => has(at("single.txt"), "granted"),
        "read-written" => has(at("write/old.txt"), "old"),
        "create" => fs::write(at("write/new.txt"), "new").is_ok() && has(at("write/new.txt"), "new"),
        "overwrite" => fs::write(at("write/again.txt"), "again").is_ok(),
        "rename" => {
            fs::write(at("write/from.txt"), "x").is_ok()
                && fs::rename(at("write/from.txt"), at("write/to.txt")).is_ok()
        }
        "remove" => {
            fs::write(at("write/gone.txt"), "x").is_ok() && fs::remove_file(at("write/gone.txt")).is_ok()
        }
        "neighbour" => has(at("readable.txt"), "secret"),
        "neighbour-of-single" => has(at("single.txt2"), "secret"),
        "link-out" => has(at("read/link"), "secret"),
        "dot-dot" => has(at("read/../readable.txt"), "secret"),
        "write-what-is-read" => fs::write(at("read/a.txt"), "changed").is_ok(),
        "create-beside" => fs::write(at("beside.txt"), "x").is_ok(),
        "set-user-id" => {
            use std::os::unix::fs::OpenOptionsExt as _;
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o4755).open(at("write/program")).is_ok()
        }
        other => panic!("{other}"),
    }
}

fn thread_scenario() {
    for (language, runtime) in FUNCTIONS {
        for threads in [true, false] {
            step(&format!("{language}/{threads}"), |shared| {
                lock_with(shared, runtime, Rights { threads, ..Rights::default() });
                let sum = std::thread::spawn(|| (1..=10).sum::<i64>()).join();
                shared.put(0, sum.unwrap_or(-1));
            });
        }
        step(&format!("{language}/process"), |shared| {
            lock_with(shared, runtime, Rights { threads: true, ..Rights::default() });
            // SAFETY: a child would exit at once.
            let child = unsafe { libc::fork() };
            shared.put(0, i64::from(child));
            if child == 0 {
                // SAFETY: _exit does not return.
                unsafe { libc::_exit(0) };
            }
        });
    }
}

fn odd_paths() {
    for name in ["link", "link/below", "none"] {
        step(name, |shared| {
            super::worker_start(shared);
            let read = vec![Directory::in_scenario().join("odd").join(name)];
            let rights = Rights { read, ..Rights::default() };
            let done = restrict(&super::Policy { rights, ..policy(Runtime::Python) });
            shared.put(0, i64::from(done.is_err()));
        });
    }
}

fn folder(name: &str) -> Directory {
    let folder = Directory::new(name);
    let at = |name: &str| folder.0.join(name);
    for name in ["read/below", "write", "odd/real/below"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    fs::set_permissions(at("write"), fs::Permissions::from_mode(0o777)).unwrap();
    for (name, text) in [
        ("read/a.txt", "granted"),
        ("read/below/b.txt", "granted"),
        ("single.txt", "granted"),
        ("single.txt2", "secret"),
        ("readable.txt", "secret"),
        ("write/old.txt", "old"),
    ] {
        fs::write(at(name), text).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o666)).unwrap();
    }
    symlink(at("readable.txt"), at("read/link")).unwrap();
    symlink(at("odd/real"), at("odd/link")).unwrap();
    folder
}

fn find<'a>(outcomes: &'a [Outcome], name: &str) -> &'a Outcome {
    outcomes.iter().find(|outcome| outcome.step == name).unwrap()
}

#[test]
fn granted_files_are_there_and_their_neighbours_are_not() {
    let folder = folder("files");
    let Some(outcomes) = run("files", &[(DIRECTORY, &folder.0)]) else { return };
    for (language, runtime) in FUNCTIONS {
        for (name, allowed) in TRIES {
            let outcome = find(&outcomes, &format!("{language}/{name}"));
            assert_eq!(outcome.values[0], i64::from(allowed), "{outcome:?}");
            // For Python a refusal is an error that it can handle.
            let survives = allowed || name != "set-user-id" && runtime == Runtime::Python;
            assert!(!survives || outcome.code == i64::from(SURVIVED_EXIT_CODE), "{outcome:?}");
        }
        let large = find(&outcomes, &format!("{language}/too-large"));
        assert_eq!(large.signal, i64::from(libc::SIGXFSZ), "{large:?}");
        assert_eq!(find(&outcomes, &format!("{language}/without")).values[0], 0);
    }
    assert_eq!(fs::read(folder.0.join("read/a.txt")).unwrap(), b"granted");
    assert!(!folder.0.join("beside.txt").exists());
    assert!(!folder.0.join("write/program").exists());
}

/// Repeats the attacks as the function of a profile with grants of files.
#[test]
fn every_attack_meets_its_fate_where_files_are_granted() {
    let folder = folder("attacks");
    let Some(outcomes) = run("attacks-with-files", &[(DIRECTORY, &folder.0)]) else { return };
    let mut wrong = Vec::new();
    for (language, runtime) in FUNCTIONS {
        for attack in attacks() {
            let outcome = find(&outcomes, &format!("{language}/{}", attack.name));
            let fate = attack.fate_with_files(runtime);
            if !met(outcome, fate, attack.number) {
                wrong.push(format!("{fate:?} expected: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Repeats the attacks as the function of a profile that grants connections: no socket of its own.
#[test]
fn every_attack_meets_its_fate_where_connections_are_granted() {
    let Some(outcomes) = run("attacks-with-network", &[]) else { return };
    let mut wrong = Vec::new();
    for (language, runtime) in FUNCTIONS {
        for attack in attacks() {
            let outcome = find(&outcomes, &format!("{language}/{}", attack.name));
            let fate = attack.fate_with_network(runtime);
            if !met(outcome, fate, attack.number) {
                wrong.push(format!("{fate:?} expected: {outcome:?}"));
            }
        }
        let used = find(&outcomes, &format!("{language}/use"));
        assert_eq!((used.code, used.values[0]), (i64::from(SURVIVED_EXIT_CODE), 1), "{used:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn threads_run_where_they_are_granted_and_processes_never() {
    let Some(outcomes) = run("threads", &[]) else { return };
    for (language, _) in FUNCTIONS {
        let of = |what: &str| find(&outcomes, &format!("{language}/{what}"));
        assert_eq!(
            (of("true").code, of("true").values[0]),
            (i64::from(SURVIVED_EXIT_CODE), 55),
            "{:?}",
            of("true")
        );
        assert_ne!(of("false").values[0], 55);
        assert_ne!(of("process").code, i64::from(SURVIVED_EXIT_CODE), "{:?}", of("process"));
    }
}

#[test]
fn a_granted_path_with_a_symbolic_link_is_an_error() {
    let folder = folder("odd");
    let Some(outcomes) = run("odd-paths", &[(DIRECTORY, &folder.0)]) else { return };
    for outcome in outcomes {
        assert_eq!((outcome.code, outcome.values[0]), (i64::from(SURVIVED_EXIT_CODE), 1), "{outcome:?}");
    }
}
