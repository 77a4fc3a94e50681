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
    let file = own.0.spilled("1").unwrap();
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
