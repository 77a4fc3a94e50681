#![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

use super::marks::Mark;
use super::*;
use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Sync, Writer};
use hyperchunk::{ErrorKind, File, OpenOptions, Read, read_many};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        crate::register();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("hyperchunk-restructure-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn values(dims: &[u64]) -> Vec<u8> {
    let count: u64 = dims.iter().product();
    (0..count).flat_map(|value| (value as u32).wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// Creates a file with the dataset `/g/x`: contiguous, chunked, or chunked with filters.
fn file(path: &Path, dims: &[u64], chunk: Option<&[u64]>, filtered: bool) {
    let mut options = CreateOptions::default();
    options.sync = Sync::Never;
    options.journal = false;
    let writer = Writer::create(path, &options).unwrap();
    let space = Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().copied().map(Some).collect() };
    let datatype = Datatype::integer(4, false, ByteOrder::Little);
    let mut options = DatasetOptions::new(datatype.clone(), space);
    if let Some(chunk) = chunk {
        options = options.with_layout(NewLayout::Chunked(chunk.to_vec()));
        if filtered {
            let fill = hyperchunk::model::FillWhen::Default;
            let target = hyperchunk::codec::Target { datatype: &datatype, chunk, fill: &fill };
            options = options.with_pipeline(hyperchunk::codec::preset("deflate", &target).unwrap());
        }
    }
    let group = writer.create_group(NodeId::ROOT, b"g", false).unwrap();
    let dataset = writer.create_dataset(group, b"x", options).unwrap();
    dataset.write(&Selection::All, &values(dims)).unwrap();
    writer.close().unwrap();
}

fn read(path: &Path) -> Vec<u8> {
    let mut options = OpenOptions::default();
    options.ignore_layouts = true;
    let dataset = File::open(path, &options).unwrap().root().unwrap().group().unwrap();
    let dataset = dataset.get(b"/g/x").unwrap().dataset().unwrap();
    let size = dataset.elements().unwrap() * 4;
    let mut out = vec![0; usize::try_from(size).unwrap()];
    dataset.read(&Selection::All, &mut out).unwrap();
    out
}

fn job(path: &Path, text: &str) -> Job {
    let request = Request::parse(text).unwrap();
    Job::new(path.to_str().unwrap(), request, None, &OpenOptions::default()).unwrap()
}

/// Executes all remaining tasks.
fn finish(job: &Job) -> WorkReport {
    job.start().unwrap();
    let mut sum = WorkReport::default();
    for pass in 0..job.plan().passes.len() {
        let worked = job.work(pass, 0..u64::MAX, 2, &|_| {}).unwrap();
        sum = WorkReport { done: sum.done + worked.done, skipped: sum.skipped + worked.skipped };
    }
    job.commit(Sync::Never).unwrap();
    sum
}

#[track_caller]
fn check(dims: &[u64], chunk: Option<&[u64]>, filtered: bool, rest: &str) -> Job {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    file(&path, dims, chunk, filtered);
    let job = job(&path, &format!("{{\"dataset\":\"/g/x\",{rest}}}"));
    let worked = finish(&job);
    assert_eq!((worked.done, worked.skipped), (job.plan().tasks(), 0));
    assert_eq!(read(&job.result()), values(dims), "{dims:?} {chunk:?} {rest}");
    let names: Vec<_> =
        std::fs::read_dir(&job.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // Windows numbers no files, so that the digest of the contents is not stored.
    assert_eq!(names.len(), if cfg!(unix) { 3 } else { 2 }, "{names:?}");
    let again = job.commit(Sync::Never).unwrap();
    assert!(!again.now && again.path == job.result());
    job
}

#[test]
fn layouts_have_the_same_values() {
    for filtered in [None, Some(false), Some(true)] {
        let chunk = filtered.map(|_| &[30, 21][..]);
        let filtered = filtered == Some(true);
        for rest in [
            r#""order":"column""#,
            r#""order":"column","chunk":[200,3],"memory":"7MiB""#,
            r#""order":"hilbert","chunk":[16,16]"#,
            r#""order":"hilbert","chunk":[7,100],"codec":"gzip:4""#,
            r#""order":[1,0],"chunk":[64,64],"codec":"deflate""#,
            r#""chunk":[1,1000]"#,
            r#""chunk":[300,1]"#,
        ] {
            check(&[200, 103], chunk, filtered, rest);
        }
    }
    check(
        &[7, 11, 13, 5],
        Some(&[2, 11, 3, 5]),
        false,
        r#""order":[3,0,2,1],"chunk":{"target":512,"favor":[2]}"#,
    );
    check(&[100_001], None, false, r#""chunk":[999],"codec":"fast""#);
    check(&[1], None, false, r#""order":"hilbert""#);
}

#[test]
fn what_does_not_fit_goes_in_two_passes() {
    let rest = r#""order":"column","chunk":[1500,50],"codec":"deflate","memory":"11MiB""#;
    let job = check(&[1500, 1600], Some(&[20, 1600]), true, rest);
    assert_eq!(job.plan().passes.len(), 2, "{:?}", job.plan());
}

#[test]
fn a_request_stays_as_long_as_it_is() {
    let folder = Folder::new();
    let mut sizes = Vec::new();
    for dims in [[10, 100], [10_000, 100]] {
        let path = folder.0.join(format!("{}.h5", dims[0]));
        file(&path, &dims, None, false);
        let job =
            job(&path, r#"{"dataset":"/g/x","order":"column","chunk":{"target_mb":1},"memory":"64MiB"}"#);
        job.start().unwrap();
        sizes.push((
            job.request().to_json().len(),
            std::fs::metadata(job.folder.join("request.json")).unwrap().len(),
        ));
    }
    assert!(sizes[0].0 < 130, "{sizes:?}");
    assert_eq!(sizes[0].0, sizes[1].0);
    assert!(sizes[0].1.abs_diff(sizes[1].1) < 16, "{sizes:?}");
}

#[test]
fn tasks_are_done_by_anybody_in_any_order() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let dims = [4000, 1000];
    file(&path, &dims, None, false);
    let text = r#"{"dataset":"/g/x","order":"column","chunk":[4000,10],"memory":"14MiB"}"#;
    let one = job(&path, text);
    let tasks = one.plan().tasks();
    assert!(tasks > 3, "{:?}", one.plan());
    assert!(one.work(0, 0..1, 1, &|_| {}).is_err(), "not begun");
    one.start().unwrap();
    one.work(0, tasks - 1..tasks, 1, &|_| {}).unwrap();
    assert!(one.commit(Sync::Never).unwrap_err().message().contains("are not done"));
    let (two, id) = (job(&path, text), one.id().to_owned());
    two.start().unwrap();
    assert_eq!(two.id(), id);
    let bytes = AtomicU64::new(0);
    let add = |more| {
        bytes.fetch_add(more, Ordering::Relaxed);
    };
    assert_eq!(two.work(0, 1..tasks, 2, &add).unwrap(), WorkReport { done: tasks - 2, skipped: 1 });
    assert_eq!(two.progress().unwrap(), Progress { committed: false, done: tasks - 1, tasks });
    // Marks of another machine count only if the output exists.
    let files = one.files().unwrap().unwrap();
    let (marks, seed) = (files.marks().unwrap(), files.seed);
    let last = marks::read(marks, seed, tasks - 1).unwrap().unwrap();
    assert!(last.is_current_boot());
    marks::write(marks, seed, tasks - 1, Mark { boot: 0, ..last }).unwrap();
    marks::write(marks, seed, 0, Mark { boot: 0, hash: 5 }).unwrap();
    let three = Job::open(path.to_str().unwrap(), &id[..9], &OpenOptions::default()).unwrap();
    assert_eq!(three.work(0, 0..tasks, 2, &add).unwrap(), WorkReport { done: 1, skipped: tasks - 1 });
    assert_eq!(
        bytes.into_inner(),
        4 * (4000 * 1000) * 2 - three.plan.passes[0].tiles.slab(&[0, 0]).elements().unwrap() * 4
    );
    // Marks do not count for a file that was created again.
    let partial = one.folder.join(PARTIAL);
    let kept = one.folder.join("kept");
    std::fs::rename(&partial, &kept).unwrap();
    three.start().unwrap();
    assert_eq!(three.progress().unwrap().done, 0);
    std::fs::remove_file(&partial).unwrap();
    std::fs::rename(&kept, &partial).unwrap();
    assert!(three.commit(Sync::Never).unwrap().now && !one.commit(Sync::Never).unwrap().now);
    assert_eq!(one.work(0, 0..tasks, 2, &|_| {}).unwrap().skipped, tasks, "it is whole");
    assert_eq!(read(&one.result()), values(&dims));
}

#[test]
fn a_file_that_changed_is_another_one() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    file(&path, &[100, 100], None, false);
    let text = r#"{"dataset":"/g/x","order":"column","chunk":[100,1]}"#;
    let old = job(&path, text);
    finish(&old);
    assert_eq!(layouts(&path).unwrap()[0].state, State::Used);
    let mine = job(&path, r#"{"dataset":"/g/x","order":"column"}"#);
    mine.start().unwrap();
    assert_eq!(layouts(&path).unwrap().iter().filter(|one| one.state == State::Unfinished).count(), 1);
    // Another file of the same size and time.
    let times = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(mine.work(0, 0..9, 1, &|_| {}).unwrap_err().kind(), ErrorKind::Changed);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
    assert!(layouts(&path).unwrap().iter().all(|one| one.state == State::Stale));
    let error = Job::open(path.to_str().unwrap(), old.id(), &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert_ne!(job(&path, text).id(), old.id());
    for one in layouts(&path).unwrap() {
        remove(&path, &one.id).unwrap();
    }
    assert!(!crate::store_folder(&path).exists());
    assert_eq!(remove(&path, "ab").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_may_be_lost_is_of_this_run_of_the_machine() {
    for codec in ["none", "gzip:1"] {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let dims = [300, 50];
        file(&path, &dims, None, false);
        let text = format!(r#"{{"dataset":"/g/x","order":"column","chunk":[300,5],"codec":"{codec}"}}"#);
        let job = || job(&path, &text);
        let make = |sync| {
            let one = job();
            one.start().unwrap();
            for (pass, about) in one.plan().passes.iter().enumerate() {
                one.work(pass, 0..about.tiles.len(), 1, &|_| {}).unwrap();
            }
            one.commit(sync).unwrap()
        };
        let made = make(Sync::Never);
        let of_run = names::unsynced(&job().folder).unwrap();
        assert_eq!((made.now, &made.path), (true, &of_run));
        assert_eq!(layouts(&path).unwrap()[0].path.as_ref(), Some(&of_run));
        assert_eq!(read(&made.path), values(&dims));
        // After a reboot.
        let lost = of_run.with_file_name("layout.0123456789abcdef.h5");
        std::fs::rename(&of_run, &lost).unwrap();
        assert_eq!(layouts(&path).unwrap()[0].state, State::Unfinished);
        assert!(!job().is_committed());
        assert!(make(Sync::Never).now);
        assert!(!lost.exists() && of_run.exists());
        // A commit with sync makes the layout durable.
        let kept = make(Sync::Commit);
        assert_eq!((kept.now, &kept.path), (false, &of_run.with_file_name(LAYOUT)));
        assert!(!of_run.exists());
        assert_eq!(make(Sync::Never).path, kept.path);
        assert_eq!(read(&kept.path), values(&dims));
        assert_eq!(layouts(&path).unwrap()[0].state, State::Used);
    }
}

#[test]
fn one_takes_the_place_of_the_others() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    file(&path, &[60, 50], None, false);
    finish(&job(&path, r#"{"dataset":"/g/x","order":"column"}"#));
    finish(&job(&path, r#"{"dataset":"/g/x","chunk":[6,5]}"#));
    let begun = job(&path, r#"{"dataset":"/g/x","chunk":[3,5]}"#);
    begun.start().unwrap();
    let text = r#"{"dataset":"/g/x","order":"hilbert","keep":false}"#;
    let one = job(&path, text);
    one.start().unwrap();
    assert_eq!(layouts(&path).unwrap().len(), 4);
    finish(&one);
    let mut left: Vec<String> = layouts(&path).unwrap().into_iter().map(|one| one.id).collect();
    let mut expected = [begun.id().to_owned(), one.id().to_owned()];
    left.sort();
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(read(&one.result()), values(&[60, 50]));
    let request = Request::parse(text).unwrap();
    let (name, output) = (path.to_str().unwrap(), folder.0.join("b.h5"));
    assert!(Job::new(name, request, Some(&output), &OpenOptions::default()).is_err());
}

#[test]
fn the_reader_takes_what_costs_least() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let dims = [3000, 500];
    file(&path, &dims, None, false);
    let made = job(&path, r#"{"dataset":"/g/x","order":"column","chunk":[3000,5]}"#);
    finish(&made);
    // Change the values in the layout, to see if reads use it.
    let layout = std::fs::read(made.result()).unwrap();
    std::fs::write(made.result(), layout.iter().map(|byte| byte ^ 255).collect::<Vec<u8>>()).unwrap();
    let open = || {
        let file = File::open(&path, &OpenOptions::default()).unwrap();
        file.root().unwrap().group().unwrap().get(b"/g/x").unwrap().dataset().unwrap()
    };
    let column = Selection::Axes(vec![Axis::range(0..3000), Axis::range(7..8)]);
    let row = Selection::Axes(vec![Axis::range(7..8), Axis::range(0..500)]);
    let expected: Vec<u8> = values(&dims).chunks_exact(2000).flat_map(|row| row[28..32].to_vec()).collect();
    let mut out = vec![0; 12_000];
    open().read(&column, &mut out).unwrap();
    assert_eq!(out, expected, "a layout that cannot be read is none");
    // Only the data differ.
    let mut damaged = layout.clone();
    let end = 4096 + 3000 * 500 * 4;
    damaged[4096..end].iter_mut().for_each(|byte| *byte ^= 255);
    std::fs::write(made.result(), &damaged).unwrap();
    let dataset = open();
    dataset.read(&column, &mut out).unwrap();
    let other: Vec<u8> = expected.iter().map(|byte| byte ^ 255).collect();
    assert_eq!(out, other);
    let mut of_many = vec![0; 12_000];
    let many = Read { dataset: &dataset, selection: &column, conversion: None, out: &mut of_many };
    read_many(vec![many]).unwrap();
    assert_eq!(of_many, other);
    let mut line = vec![0; 2000];
    dataset.read(&row, &mut line).unwrap();
    assert_eq!(line, values(&dims)[14_000..16_000]);
    // After a write to the file, it is read itself; a file that was open gets an error.
    let writing = std::fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &writing, b" ").unwrap();
    assert_eq!(dataset.read(&column, &mut out).unwrap_err().kind(), ErrorKind::Changed);
    open().read(&column, &mut out).unwrap();
    assert_eq!(out, expected);
}

#[test]
fn a_file_of_its_own() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    file(&path, &[300, 200], Some(&[10, 200]), true);
    let output = folder.0.join("out.h5");
    for codec in ["none", "gzip:1"] {
        let request = Request { order: Order::Column, codec: codec.into(), ..Request::new("g/x") };
        let job = Job::new(path.to_str().unwrap(), request, Some(&output), &OpenOptions::default()).unwrap();
        finish(&job);
        assert_eq!(read(&output), values(&[300, 200]));
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
        std::fs::remove_file(&output).unwrap();
    }
}

#[test]
fn shares_of_the_work() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let dims = [1500, 1600];
    file(&path, &dims, Some(&[20, 1600]), true);
    let text = r#"{"dataset":"/g/x","order":"column","chunk":[1500,50],"codec":"deflate","memory":"11MiB"}"#;
    let job = job(&path, text);
    job.start().unwrap();
    let share = |part, patience| job.share(part, 3, 1, Duration::from_millis(patience), &|_| {});
    assert!(share(3, 1).is_err());
    let alone = share(1, 1).unwrap_err();
    assert!(alone.message().contains("first pass"), "{alone}");
    assert!(job.commit_if_done(Sync::Never).unwrap().is_none());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..3).map(|part| scope.spawn(move || share(part, 20_000).unwrap())).collect();
        let done: u64 = all.into_iter().map(|one| one.join().unwrap().done).sum();
        assert!(done < job.plan().tasks(), "some were done before");
    });
    assert!(job.commit_if_done(Sync::Never).unwrap().unwrap().now);
    assert_eq!(read(&job.result()), values(&dims));
}

#[test]
fn what_lies_in_the_folder_is_not_believed() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let dims = [900, 300];
    file(&path, &dims, None, false);
    let made = job(&path, r#"{"dataset":"/g/x","order":"column","chunk":[900,1]}"#);
    finish(&made);
    let request = made.folder.join("request.json");
    let good = std::fs::read_to_string(&request).unwrap();
    let column = Selection::Axes(vec![Axis::range(0..900), Axis::range(7..8)]);
    let expected: Vec<u8> = values(&dims).chunks_exact(1200).flat_map(|row| row[28..32].to_vec()).collect();
    let check = |used: bool| {
        let file = File::open(&path, &OpenOptions::default()).unwrap();
        let dataset = file.root().unwrap().group().unwrap().get(b"/g/x").unwrap().dataset().unwrap();
        let mut out = vec![0; 3600];
        dataset.read(&column, &mut out).unwrap();
        assert_eq!(out, expected);
        assert_eq!(Layouts::default().cheapest(&dataset, &column).is_some(), used);
        layouts(&path).unwrap().len()
    };
    assert_eq!(check(true), 1);
    for text in [
        String::new(),
        "{}".into(),
        "[".repeat(100_000),
        " ".repeat(200_000) + &good,
        good.replace("column", "row"),
        good.replace("[900,1]", "[0,0]"),
        good.replace("/g/x", "/g"),
        good.replace("/g/x", "/../../x"),
        good.replace("file:", "store:"),
        good.replace("file:", "file:0"),
    ] {
        std::fs::write(&request, &text).unwrap();
        check(false);
        assert!(Job::open(path.to_str().unwrap(), made.id(), &OpenOptions::default()).is_err());
    }
    std::fs::write(&request, &good).unwrap();
    assert_eq!(check(true), 1);
    // Another file in its place, with the same path in it but another extent.
    file(&made.result(), &[300, 900], None, false);
    check(false);
    file(&made.result(), &dims, None, false);
    check(false);
}

#[test]
#[cfg_attr(windows, ignore = "on Windows, the digest of the contents is not stored")]
fn what_a_killed_process_left_undone_is_done_by_the_next_one() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    file(&path, &[100, 100], None, false);
    let done = job(&path, r#"{"dataset":"/g/x","order":"column","chunk":[100,1]}"#);
    finish(&done);
    // As after a kill between the layout's name and what follows.
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&done.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let expected = names();
    std::fs::remove_file(done.folder.join(CONTENTS)).unwrap();
    let note = format!(".{CONTENTS}.{}.part", "0".repeat(32));
    for part in ["encoded", "sizes", "marks", &note] {
        std::fs::write(done.folder.join(part), b"left").unwrap();
    }
    assert!(!done.commit(Sync::Never).unwrap().now);
    assert_eq!(names(), expected);
    assert_eq!(read(&done.result()), values(&[100, 100]));
}
