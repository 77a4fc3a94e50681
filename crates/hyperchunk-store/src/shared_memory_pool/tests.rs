#![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicU32;

/// A pool of this test alone.
struct TestPool(Pool, String);

impl TestPool {
    fn new(options: &PoolOptions) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(Pool::create(&name, options).unwrap(), name)
    }

    fn small() -> Self {
        Self::new(&PoolOptions { quota: Some(1 << 20), spill: None })
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        drop(Pool::remove(&self.1));
    }
}

#[test]
fn objects_are_made_read_and_deleted_and_their_memory_is_used_again() {
    let own = TestPool::small();
    let pool = &own.0;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(pool.folder()), 0o700);
    pool.put("a", b"hello").unwrap();
    pool.put("ä", &[7; 100_000]).unwrap();
    assert!(fs::read_dir(pool.folder()).unwrap().flatten().all(|file| mode(&file.path()) == 0o600));
    let other = Pool::open(&own.1).unwrap();
    let a = other.get("a").unwrap();
    assert_eq!((&*a, other.get("ä").unwrap().len()), (b"hello".as_slice(), 100_000));
    assert!(pool.put("a", b"again").is_err());
    assert!(pool.put("", b"").is_err() && pool.put(&"n".repeat(161), b"").is_err());
    pool.put(&"n".repeat(160), b"").unwrap();
    assert_eq!(&*pool.get(&"n".repeat(160)).unwrap(), b"");
    let stats = pool.stats().unwrap();
    assert_eq!((stats.objects, stats.bytes, stats.memory), (3, 100_005, (1 << 16) * 2 + (1 << 17)));
    // A segment is reused only when it is no longer read.
    assert!(pool.delete("a").unwrap() && !pool.delete("a").unwrap());
    assert!(pool.get("a").is_err());
    pool.put("a", b"new").unwrap();
    assert_eq!((&*a, &*pool.get("a").unwrap()), (b"hello".as_slice(), b"new".as_slice()));
    assert_eq!(pool.stats().unwrap().deleted, 1);
    drop(a);
    let stats = pool.stats().unwrap();
    assert_eq!((stats.deleted, stats.free), (0, 1 << 16));
    pool.put("b", b"in what a was").unwrap();
    assert_eq!(pool.stats().unwrap().free, 0);
    let names: Vec<String> = pool.list().unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "b", &*"n".repeat(160), "ä"]);
    assert!(Pool::all().unwrap().contains(&own.1));
    assert!(Pool::create(&own.1, &PoolOptions::default()).is_err());
    for name in ["", ".x", "a b", "..", "ä"] {
        assert!(Pool::create(name, &PoolOptions::default()).is_err());
    }
}

#[test]
fn what_is_not_sealed_is_never_seen_and_its_memory_comes_back() {
    let own = TestPool::small();
    let pool = &own.0;
    let mut writer = pool.begin("a", 100).unwrap();
    writer.memory().fill(1);
    assert!(pool.get("a").is_err() && pool.list().unwrap().is_empty());
    assert_eq!(pool.stats().unwrap().unsealed, 1);
    drop(writer);
    let stats = pool.stats().unwrap();
    assert_eq!((stats.unsealed, stats.free), (0, 1 << 16));
    let (one, two) = (pool.begin("b", 1).unwrap(), pool.begin("b", 1).unwrap());
    one.seal(1).unwrap();
    assert!(two.seal(1).is_err());
    assert!(pool.begin("c", 1).unwrap().seal(1 << 17).is_err());
}

#[test]
fn the_quota_is_an_error_or_the_oldest_objects_go_to_files() {
    let own = TestPool::small();
    for number in 0..8 {
        own.0.put(&number.to_string(), &[number; 1 << 17]).unwrap();
    }
    let error = own.0.put("9", &[0; 10]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("delete objects"), "{error}");
    assert!(own.0.put("9", &[0; 2 << 20]).unwrap_err().to_string().contains("larger quota"));
    own.0.delete("3").unwrap();
    // For an object of another size, the free segment is released.
    own.0.put("9", &[9; 10]).unwrap();
    let folder = std::env::temp_dir().join(format!("hyperchunk-pool-{}", std::process::id()));
    let own = TestPool::new(&PoolOptions { quota: Some(1 << 20), spill: Some(folder.clone()) });
    let held = {
        own.0.put("held", &[99; 1 << 17]).unwrap();
        own.0.get("held").unwrap()
    };
    for number in 0..20 {
        own.0.put(&number.to_string(), &[number; 100_000]).unwrap();
    }
    let stats = own.0.stats().unwrap();
    assert!(stats.memory <= 1 << 20 && stats.spilled >= 13, "{stats:?}");
    for number in 0..20 {
        assert_eq!(&*own.0.get(&number.to_string()).unwrap(), &[number; 100_000]);
    }
    assert!(own.0.put("0", b"").is_err(), "it is there, in a file");
    assert_eq!(own.0.list().unwrap().len(), 21);
    assert!(own.0.list().unwrap().iter().all(|entry| !(entry.spilled && entry.name == "held")));
    assert!(own.0.delete("0").unwrap() && own.0.get("0").is_err());
    drop(held);
    // An incomplete spilled object does not count.
    let file = folder.join(spill::file_name("1"));
    let bytes = fs::read(&file).unwrap();
    for cut in [0, 100, 4096, bytes.len() - 1] {
        fs::write(&file, &bytes[..cut]).unwrap();
        assert!(own.0.get("1").is_err());
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn many_threads_make_read_and_delete() {
    let own = TestPool::new(&PoolOptions { quota: Some(8 << 20), spill: None });
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let name = &own.1;
            scope.spawn(move || {
                let pool = Pool::open(name).unwrap();
                let mut state = thread + 1;
                for round in 0..400_u64 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let object = format!("{}", (state >> 33) % 12);
                    match (state >> 50) % 3 {
                        0 => {
                            let size = 1 + (state >> 40) % 200_000;
                            if let Ok(mut writer) = pool.begin(&object, size) {
                                let value = (round % 251) as u8;
                                writer.memory()[..size as usize].fill(value);
                                drop(writer.seal(size));
                            }
                        }
                        1 => drop(pool.delete(&object)),
                        _ => {
                            if let Ok(found) = pool.get(&object) {
                                let first = found.first().copied().unwrap_or(0);
                                std::thread::yield_now();
                                assert!(
                                    found.iter().all(|byte| *byte == first),
                                    "it changed while it was read"
                                );
                            }
                        }
                    }
                }
            });
        }
    });
    let stats = own.0.stats().unwrap();
    assert_eq!((stats.unsealed, stats.deleted), (0, 0), "{stats:?}");
    assert!(stats.memory <= 9 << 20);
}

#[test]
fn a_new_segment_that_was_taken_for_a_leftover_is_given_up() {
    let own = TestPool::small();
    let pool = &own.0;
    let index = &pool.0.index;
    let empty = index.word(0).1;
    assert!(index.change(0, empty, State::Creating));
    let word = index.word(0).1;
    // The process stops between making the file and locking it; another one sweeps.
    let file = open_file(&segment::segment_path(pool, 0), true).unwrap();
    segment::sweep(pool).unwrap();
    assert_eq!(index.word(0).0, State::Empty);
    pool.put("a", &[1; 100]).unwrap();
    assert!(segment::claim(pool, 0, word, 17, file).unwrap().is_none());
    assert_eq!(index.order(0), Some(16));
    assert_eq!(&*pool.get("a").unwrap(), &[1; 100]);
}

#[test]
fn an_object_that_is_deleted_while_it_goes_to_a_file_stays_deleted() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-pool-deleted-{}", std::process::id()));
    let own = TestPool::new(&PoolOptions { quota: Some(1 << 20), spill: Some(folder.clone()) });
    own.0.put("a", b"old").unwrap();
    let (number, word) = own.0.0.index.sealed("a")[0];
    own.0.delete("a").unwrap();
    assert!(!object::spill(&own.0, number, word).unwrap());
    own.0.put("a", b"new").unwrap();
    assert!(!object::spill(&own.0, number, word).unwrap());
    assert_eq!(&*own.0.get("a").unwrap(), b"new");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_pool_is_removed_while_others_fill_it() {
    for _ in 0..20 {
        let own = TestPool::small();
        std::thread::scope(|scope| {
            let busy = Pool::open(&own.1).unwrap();
            let (started, ready) = std::sync::mpsc::channel();
            scope.spawn(move || {
                for number in 0_u32.. {
                    let put = busy.put(&number.to_string(), &[7; 1000]);
                    if put.is_err() || !busy.delete(&number.to_string()).is_ok_and(|found| found) {
                        break;
                    }
                    started.send(()).unwrap_or_default();
                }
            });
            ready.recv().unwrap();
            Pool::remove(&own.1).unwrap();
        });
        assert!(Pool::open(&own.1).is_err());
    }
}

#[test]
fn objects_are_read_while_they_go_to_files() {
    const SIZE: usize = 8 << 20;
    let folder = std::env::temp_dir().join(format!("hyperchunk-pool-moving-{}", std::process::id()));
    // Room for two, so that every new object moves another one to a file.
    let own = TestPool::new(&PoolOptions { quota: Some(2 * SIZE as u64), spill: Some(folder.clone()) });
    let (sealed, done) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (pool, sealed, done) = (Pool::open(&own.1).unwrap(), &sealed, &done);
            scope.spawn(move || {
                let mut count = 0;
                while done.load(Ordering::SeqCst) == 0 {
                    for number in (0..sealed.load(Ordering::SeqCst)).rev().take(3) {
                        let object = pool.get(&number.to_string()).unwrap();
                        assert_eq!((object.len(), object[0], object[SIZE - 1]), (SIZE, 7, number as u8));
                        count += 1;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(100 + 50 * reader));
                }
                assert!(count > 0);
            });
        }
        let put = || {
            let mut bytes = vec![7; SIZE];
            for number in 0..16 {
                bytes[SIZE - 1] = number as u8;
                own.0.put(&number.to_string(), &bytes)?;
                sealed.store(number + 1, Ordering::SeqCst);
            }
            Ok::<_, Error>(())
        };
        let put = put();
        done.store(1, Ordering::SeqCst);
        put.unwrap();
    });
    let stats = own.0.stats().unwrap();
    assert!(stats.spilled >= 14 && stats.deleted == 0, "{stats:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_object_is_read_after_sealing_while_a_forked_process_has_its_file_open() {
    let own = TestPool::small();
    let pool = &own.0;
    for round in 0..2_u8 {
        let mut writer = pool.begin("a", 100).unwrap();
        writer.memory()[..100].fill(round);
        // As a forked process has it: the lock belongs to both.
        let forked = writer.forked_file();
        writer.seal(100).unwrap();
        assert_eq!(&*pool.get("a").unwrap(), &[round; 100]);
        // Its memory is used again, too.
        assert!(pool.delete("a").unwrap());
        assert_eq!(pool.stats().unwrap().free, 1 << 16);
        drop(forked);
    }
    // Without sealing, a forked process may still be writing to it.
    let writer = pool.begin("b", 100).unwrap();
    let forked = writer.forked_file();
    drop(writer);
    assert_eq!(pool.stats().unwrap().unsealed, 1);
    drop(forked);
    assert_eq!(pool.stats().unwrap().unsealed, 0);
}

#[test]
fn an_object_that_stays_locked_is_an_error_that_says_so() {
    let own = TestPool::small();
    own.0.put("a", b"there").unwrap();
    let held = segment::lock_exclusive(&own.0, 0).unwrap().unwrap();
    let started = std::time::Instant::now();
    let error = own.0.get("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("locked by another process"), "{error}");
    assert!((1..20).contains(&started.elapsed().as_secs()));
    // A lock that ends in time is waited for.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(held);
        });
        assert_eq!(&*own.0.get("a").unwrap(), b"there");
    });
    let started = std::time::Instant::now();
    assert_eq!(own.0.get("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(started.elapsed().as_secs() < 20);
}

/// Numbers of a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

#[test]
fn segments_that_come_and_go_never_hold_two_objects() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-pool-churn-{}", std::process::id()));
    for spill in [None, Some(folder.clone())] {
        // Room for a few objects of differing sizes, so that segments are removed all the time.
        let own = TestPool::new(&PoolOptions { quota: Some(1 << 19), spill });
        let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (pool, mut random) = (Pool::open(&own.1).unwrap(), Random(thread + 1));
                scope.spawn(move || {
                    while std::time::Instant::now() < end {
                        let name = format!("{}", random.below(6));
                        match random.below(4) {
                            0 | 1 => {
                                let size = 1 + random.below(200_000);
                                let writer = pool.begin(&name, size);
                                if let Ok(mut writer) = writer {
                                    // Every byte says whose object it is, and how large.
                                    let value = (size % 251) as u8;
                                    writer.memory()[..size as usize].fill(value);
                                    if let Err(error) = writer.seal(size) {
                                        assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}");
                                    }
                                }
                            }
                            2 => drop(pool.delete(&name)),
                            _ => {
                                if let Ok(found) = pool.get(&name) {
                                    let value = (found.len() % 251) as u8;
                                    assert!(found.iter().all(|byte| *byte == value), "another object's");
                                }
                            }
                        }
                    }
                });
            }
        });
        let stats = own.0.stats().unwrap();
        assert_eq!((stats.unsealed, stats.deleted), (0, 0), "{stats:?}");
        assert!(stats.memory <= (1 << 19) + 8 * (1 << 18), "{stats:?}");
    }
    drop(fs::remove_dir_all(folder));
}

#[test]
fn a_garbled_index_does_no_harm() {
    let own = TestPool::small();
    for number in 0..5 {
        own.0.put(&number.to_string(), &[number; 10_000]).unwrap();
    }
    let index = own.0.folder().join(index::NAME);
    let whole = fs::read(&index).unwrap();
    let mut state = 3_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut garbled = whole.clone();
        for _ in 0..1 + random(20) {
            let at = if random(4) == 0 { random(64) } else { 4096 + random(8 * 256) };
            garbled[at] = random(256) as u8;
        }
        // Written in place, since the file is mapped.
        let file = File::options().write(true).open(&index).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &garbled, 0).unwrap();
        let Ok(pool) = Pool::open(&own.1) else { continue };
        for number in 0..5 {
            if let Ok(object) = pool.get(&number.to_string()) {
                assert!(object.iter().map(|byte| usize::from(*byte)).sum::<usize>() < usize::MAX);
            }
        }
        drop((pool.list(), pool.stats(), pool.put("new", &[1; 100]), pool.delete("new"), pool.delete("2")));
    }
    // Truncated, or of another size.
    for cut in [0, 100, 4096, whole.len() - 1] {
        fs::write(&index, &whole[..cut]).unwrap();
        assert!(Pool::open(&own.1).is_err());
    }
    fs::write(&index, &whole).unwrap();
    fs::set_permissions(own.0.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Pool::open(&own.1).is_err(), "open to others");
    fs::set_permissions(own.0.folder(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_segment_that_was_cut_off_is_an_error() {
    let own = TestPool::small();
    own.0.put("a", &[1; 50_000]).unwrap();
    let segment = fs::read_dir(own.0.folder()).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.into_iter().find(|path| path.file_name().unwrap() != index::NAME).unwrap();
    File::options().write(true).open(&segment).unwrap().set_len(40_000).unwrap();
    assert_eq!(own.0.get("a").unwrap_err().kind(), ErrorKind::Truncated);
    own.0.delete("a").unwrap();
    own.0.put("b", &[2; 60_000]).unwrap();
    assert_eq!(&*own.0.get("b").unwrap(), &[2; 60_000]);
}

#[test]
fn spilled_objects_are_the_owners_alone() {
    let base = std::env::temp_dir().join(format!("hyperchunk-pool-own-{}", std::process::id()));
    let folder = base.join("a/b");
    let options = PoolOptions { quota: Some(1 << 17), spill: Some(folder.clone()) };
    let own = TestPool::new(&options);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&base)), (0o700, 0o700));
    for number in 0..3 {
        own.0.put(&number.to_string(), &[number; 50_000]).unwrap();
    }
    let file = folder.join(spill::file_name("0"));
    assert_eq!(mode(&file), 0o600);
    assert_eq!(&*own.0.get("0").unwrap(), &[0; 50_000]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), own.0.stats().unwrap().spilled, "no rests");
    // What is no file of the owner's alone does not count, and nothing waits for a pipe.
    let others = folder.join(spill::file_name("other"));
    let unfit = |name: &str| {
        assert!(!own.0.list().unwrap().iter().any(|entry| entry.name == name));
        let error = own.0.get(name).unwrap_err();
        assert!(error.to_string().contains("expected a regular file of yours"), "{error}");
    };
    fs::write(&others, "x").unwrap();
    fs::set_permissions(&others, fs::Permissions::from_mode(0o666)).unwrap();
    unfit("other");
    fs::remove_file(&others).unwrap();
    std::os::unix::fs::symlink(&file, &others).unwrap();
    unfit("other");
    fs::remove_file(&others).unwrap();
    let path = std::ffi::CString::new(others.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    unfit("other");
    own.0.put("other", b"new").unwrap();
    assert_eq!(&*own.0.get("other").unwrap(), b"new");
    // A copy under another name is another object's.
    fs::copy(&file, folder.join(spill::file_name("copy"))).unwrap();
    assert!(own.0.get("copy").is_err());
    assert_eq!(own.0.list().unwrap().iter().filter(|entry| entry.name == "0").count(), 1);
    // A folder that others may write to.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
    let error = own.0.get("0").unwrap_err().to_string();
    assert!(error.contains("that others cannot write to") && error.contains("770"), "{error}");
    assert_eq!(Pool::create("unused", &options).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(own.0.list().is_err() && own.0.put("1", b"").is_err() && own.0.delete("0").is_err());
    fs::remove_dir_all(base).unwrap();
}
