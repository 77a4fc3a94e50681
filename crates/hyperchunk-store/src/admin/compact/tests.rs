use super::*;
use crate::admin::vacuum::{VacuumOptions, vacuum};
use crate::commit::{CommitOptions, commit};
use crate::tests::{Folder, options};
use crate::{Definition, Mode, log_path, store_folder};
use hyperchunk::{File, OpenOptions};
use hyperchunk_format::codec::{Target, preset};
use hyperchunk_format::model::{ByteOrder, Datatype, FillWhen};
use hyperchunk_format::select::Selection;
use std::time::Duration;

/// Options for reading as libhdf5 does.
fn native_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.ignore_stores = true;
    options
}

fn byte() -> Datatype {
    Datatype::integer(1, false, ByteOrder::Little)
}

fn commits(path: &Path) -> Arc<Manifest> {
    let options = CommitOptions { sync: Sync::Never, ..CommitOptions::default() };
    commit(path, &options).unwrap().unwrap().manifest
}

fn packed(path: &Path, name: &str) -> Vec<u8> {
    let out = path.with_extension("packed");
    let options = super::super::pack::PackOptions { replace: true, sync: Sync::Never, ..Default::default() };
    super::super::pack::pack(path, &out, &options).unwrap();
    native(&out, name)
}

fn native(path: &Path, name: &str) -> Vec<u8> {
    let file = File::open(path, &native_options()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let mut bytes = vec![0; usize::try_from(dataset.elements().unwrap()).unwrap()];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    bytes
}

fn compacts(path: &Path) -> CompactReport {
    let options = CompactOptions { memory: 300, sync: Sync::Never, ..CompactOptions::default() };
    compact(path, &options).unwrap().unwrap()
}

struct Sources {
    folder: Folder,
    raw: Definition,
    chunked: Definition,
}

fn sources() -> Sources {
    let mut raw = Definition::new("/raw", byte(), vec![40, 10]);
    raw.max = vec![None, Some(10)];
    raw.chunk = Some(vec![7, 7]);
    let mut chunked = Definition { path: b"/chunked".to_vec(), ..raw.clone() };
    let target = Target { datatype: &byte(), chunk: &[7, 7], fill: &FillWhen::Default };
    chunked.pipeline = preset("deflate", &target).unwrap();
    for definition in [&mut raw, &mut chunked] {
        definition.fill.value = FillWhen::User(vec![9]);
    }
    Sources { folder: Folder::new(), raw, chunked }
}

impl Sources {
    fn write(&self, path: &Path, mode: Mode, value: u8) {
        let writer = LogWriter::create(path, &WriterOptions { mode, ..options() }).unwrap();
        for definition in [&self.raw, &self.chunked] {
            let dataset = writer.define(definition).unwrap();
            let start = [u64::from(value) * 3, u64::from(value) % 4];
            writer.write_box(dataset, &start, &[9, 6], &[value; 54]).unwrap();
            writer.write_box(dataset, &[30, 0], &[1, 10], &[value; 10]).unwrap();
            if !definition.pipeline.is_empty() && value % 2 == 1 {
                let mut encoder = Encoder::default();
                let bytes: Vec<u8> = (0..49).map(|at| at + value).collect();
                let (encoded, mask) = encoder.encode(&definition.pipeline, &bytes).unwrap();
                writer.write_chunk(dataset, &[7 * u64::from(value / 2), 7], mask, encoded).unwrap();
            }
        }
        writer.close().unwrap();
    }
}

#[test]
fn a_compacted_store_has_the_same_in_one_log() {
    let sources = sources();
    let path = sources.folder.0.join("a.h5");
    for value in 0..6 {
        sources.write(&path, Mode::Join, value);
        commits(&path);
    }
    let before = [packed(&path, "raw"), packed(&path, "chunked")];
    let old = Manifest::newest(&path).unwrap().unwrap();
    let made = compacts(&path);
    assert_eq!((made.manifest.number, made.manifest.logs.len(), made.replaced.len()), (7, 1, 6));
    assert_eq!([packed(&path, "raw"), packed(&path, "chunked")], before);
    // The previous epoch is unchanged until garbage collection.
    assert_eq!(Manifest::epoch(&path, 6).unwrap(), old);
    assert!(vacuum(&path, &VacuumOptions::default()).unwrap().files.is_empty());
    let done = vacuum(&path, &VacuumOptions { grace: Duration::ZERO, ..Default::default() }).unwrap();
    assert_eq!(done.files.len(), 12);
    assert_eq!(std::fs::read_dir(store_folder(&path)).unwrap().count(), 2);
    assert_eq!([packed(&path, "raw"), packed(&path, "chunked")], before);
    assert!(compact(&path, &CompactOptions::default()).unwrap().is_none(), "there is one log already");
    // Later data take precedence.
    sources.write(&path, Mode::Join, 1);
    commits(&path);
    assert_eq!(packed(&path, "raw")[31], 1);
    let statistics = made.manifest.datasets.iter().find(|stored| stored.definition.path == b"/raw").unwrap();
    assert!(statistics.parts[0].written.statistics.is_some());
}

#[test]
fn what_is_committed_in_the_meantime_lies_over_what_was_compacted() {
    let sources = sources();
    let path = sources.folder.0.join("a.h5");
    for value in 0..3 {
        sources.write(&path, Mode::Join, value);
    }
    let base = commits(&path);
    let known = KnownStore { store: base.store, epoch: base.number, seen: None };
    let writing = WriterOptions { session: Session::compaction(), known: Some(known), ..options() };
    let writer = LogWriter::create(&path, &writing).unwrap();
    write(&path, &base, &writer, 1000).unwrap();
    writer.close().unwrap();
    // Other commits do not include the compacted log.
    sources.write(&path, Mode::Join, 5);
    let between = commits(&path);
    assert!(between.log(&writer.id()).is_none());
    let before = [packed(&path, "raw"), packed(&path, "chunked")];
    let made = publish(&path, &base, &writer, &CompactOptions::default()).unwrap();
    assert_eq!((made.manifest.logs.len(), made.manifest.parent), (2, between.number));
    assert_eq!([packed(&path, "raw"), packed(&path, "chunked")], before);
    // A truncated file does not get its old content back.
    sources.write(&path, Mode::Truncate, 2);
    let anew = commits(&path);
    let error = publish(&path, &base, &writer, &CompactOptions::default()).unwrap_err().error;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(Manifest::newest(&path).unwrap().unwrap(), anew);
}

#[test]
fn many_small_segments_can_be_linked_when_they_are_compacted() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = Definition::new("/a", byte(), vec![10_000]);
    for odd in 0..2_u64 {
        let writer = LogWriter::create(&path, &options()).unwrap();
        let dataset = writer.define(&definition).unwrap();
        for at in (odd..10_000).step_by(2) {
            writer.write_box(dataset, &[at], &[1], &[u8::try_from(odd).unwrap() + 1]).unwrap();
        }
        writer.close().unwrap();
    }
    commits(&path);
    assert_eq!(external_links::LinkReport::examine(&path).unwrap().unlinked, 1);
    let made = compact(&path, &CompactOptions { sync: Sync::Never, ..Default::default() }).unwrap().unwrap();
    assert_eq!(made.links, [(b"/a".to_vec(), Ok(1))]);
    assert_eq!(native(&path, "a"), [1, 2].repeat(5000));
    assert!(log_path(&path, made.writer).exists());
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn a_compaction_that_cannot_replace_the_file_keeps_its_log() {
    let sources = sources();
    let path = sources.folder.0.join("a.h5");
    for value in 0..3 {
        sources.write(&path, Mode::Join, value);
        commits(&path);
    }
    let before = packed(&path, "raw");
    let aside = path.with_extension("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir_all(path.join("in the way")).unwrap();
    let error = compact(&path, &CompactOptions { sync: Sync::Never, ..Default::default() }).unwrap_err();
    assert!(error.to_string().contains("committed as epoch 4"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    let newest = Manifest::newest(&path).unwrap().unwrap();
    assert_eq!((newest.number, newest.logs.len()), (4, 1));
    assert!(log_path(&path, newest.logs[0].writer).exists());
    // The next commit shows the epoch.
    commit(&path, &CommitOptions { sync: Sync::Never, ..Default::default() }).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), newest.image);
    vacuum(&path, &VacuumOptions { grace: Duration::ZERO, ..Default::default() }).unwrap();
    assert_eq!(packed(&path, "raw"), before);
}

#[test]
#[cfg_attr(windows, ignore = "on Windows, a writer does not notice that its log was deleted")]
fn a_compaction_whose_log_is_gone_makes_no_epoch() {
    let sources = sources();
    let path = sources.folder.0.join("a.h5");
    sources.write(&path, Mode::Join, 1);
    let base = commits(&path);
    let writing = WriterOptions { session: Session::compaction(), ..options() };
    let writer = LogWriter::create(&path, &writing).unwrap();
    write(&path, &base, &writer, 1000).unwrap();
    writer.close().unwrap();
    // Another file in its place.
    let bytes = std::fs::read(writer.log()).unwrap();
    std::fs::remove_file(writer.log()).unwrap();
    std::fs::write(writer.log(), bytes).unwrap();
    let failed = publish(&path, &base, &writer, &CompactOptions::default()).unwrap_err();
    assert!(
        !failed.may_be_published && failed.error.to_string().contains("another program deleted"),
        "{failed:?}"
    );
    assert_eq!(Manifest::newest(&path).unwrap().unwrap().number, base.number);
}
