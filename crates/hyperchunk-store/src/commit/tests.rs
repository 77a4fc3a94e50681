//! The rules of commits, one by one.

mod model;
mod queries;

use super::*;
use crate::Marker;
use crate::admin::compact;
use crate::admin::compact::CompactOptions;
use crate::admin::pack;
use crate::admin::pack::PackOptions;
use crate::commit::external_links;
use crate::commit::overlap::{fetch, layers, rows};
use crate::tests::{Folder, options};
use crate::{DatasetId, Definition, Hyperslab, LogWriter, Mode, WriterOptions, create};
use crate::{log_path, store_folder};
use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
use hyperchunk_format::codec::{Encoder, Target, preset};
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype, FillValue, FillWhen};
use hyperchunk_format::select::Selection;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Options for reading as libhdf5 does.
fn native_options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.ignore_stores = true;
    options
}

fn byte() -> Datatype {
    Datatype::integer(1, false, ByteOrder::Little)
}

/// Makes a dataset of bytes that can grow.
fn bytes(path: &str, dims: &[u64]) -> Definition {
    let mut definition = Definition::new(path, byte(), dims.to_vec());
    definition.max = vec![None; dims.len()];
    definition.chunk = Some(vec![3; dims.len()]);
    definition
}

fn never() -> CommitOptions {
    CommitOptions { sync: Sync::Never, ..CommitOptions::default() }
}

fn done(path: &Path) -> Arc<Manifest> {
    commit(path, &never()).unwrap().unwrap().manifest
}

fn writer(path: &Path) -> LogWriter {
    LogWriter::create(path, &options()).unwrap()
}

fn anew(path: &Path) -> LogWriter {
    LogWriter::create(path, &WriterOptions { mode: Mode::Truncate, ..options() }).unwrap()
}

/// Reads a dataset of an epoch straight from the logs.
fn read(path: &Path, manifest: &Manifest, id: &DatasetId) -> Vec<u8> {
    let stored = manifest.dataset(id).unwrap();
    let all = Hyperslab::new(vec![0; stored.extent.len()], stored.extent.clone());
    let fill = match &stored.definition.fill.value {
        FillWhen::User(bytes) => bytes[0],
        _ => 0,
    };
    let mut values = vec![fill; usize::try_from(all.elements().unwrap()).unwrap()];
    for layer in layers(stored) {
        let log = manifest.logs[stored.parts[layer.part].log as usize].writer;
        let log = Log::open_for_reads(&log_path(path, log)).unwrap();
        let found = fetch(&log, &stored.definition, &layer.piece, &layer.seen).unwrap();
        for (to, from, length) in rows(&layer.seen, &all, &layer.seen) {
            let range =
                |start: u64| usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap();
            values[range(to)].copy_from_slice(&found[range(from)]);
        }
    }
    values
}

/// Reads it as a program that does not know stores.
fn native(path: &Path, name: &str) -> Result<Vec<u8>> {
    let file = File::open(path, &native_options())?;
    let dataset = file.root()?.group()?.get(name.as_bytes())?.dataset()?;
    let mut values = vec![0; usize::try_from(dataset.elements()?).unwrap()];
    dataset.read(&Selection::All, &mut values)?;
    Ok(values)
}

/// Reads it through the engine.
fn engine(path: &Path, epoch: u64, name: &str) -> Vec<u8> {
    let file = File::open_epoch(path, epoch).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let mut values = vec![0; usize::try_from(dataset.elements().unwrap()).unwrap()];
    dataset.read(&Selection::All, &mut values).unwrap();
    values
}

fn marked(path: &Path, name: &str) -> Vec<hyperchunk_format::model::ExternalFile> {
    let file = File::open(path, &native_options()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    dataset.external().to_vec()
}

/// Makes an HDF5 file with a marker for each dataset.
fn image(datasets: &[&Definition]) -> Vec<u8> {
    let sink = Arc::new(MemorySink::default());
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
    for definition in datasets {
        let marker = Marker { dataset: definition.id().unwrap(), epoch: 0 };
        let dims: Vec<u64> = definition.dims.iter().map(|dim| (*dim).max(1)).collect();
        let space = Dataspace::Simple { max: dims.iter().copied().map(Some).collect(), dims };
        let options = DatasetOptions::new(definition.datatype.clone(), space)
            .with_layout(NewLayout::External(vec![marker.to_external_file(false)]));
        file.create_dataset(NodeId::ROOT, &definition.path[1..], options).unwrap();
    }
    file.close().unwrap();
    sink.bytes()
}

#[test]
fn equal_definitions_of_many_writers_are_one_dataset() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/deep/a", &[8]);
    for half in 0..2_u8 {
        let writer = writer(&path);
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[4 * u64::from(half)], &[4], &[half + 1; 4]).unwrap();
        writer.close().unwrap();
    }
    let made = commit(&path, &never()).unwrap().unwrap();
    assert_eq!((made.writers.len(), made.left.len(), made.manifest.conflicts.len()), (2, 0, 0));
    assert_eq!(made.links, [(b"/deep/a".to_vec(), Ok(2))]);
    let id = definition.id().unwrap();
    assert_eq!(read(&path, &made.manifest, &id), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(native(&path, "deep/a").unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(Marker::from_external_files(&marked(&path, "deep/a")), Some(Marker { dataset: id, epoch: 1 }));
    assert!(commit(&path, &never()).unwrap().is_none(), "nothing is new");
    // Two logs and one manifest.
    assert_eq!(fs::read_dir(store_folder(&path)).unwrap().count(), 3);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
}

#[test]
fn two_definitions_at_one_path_are_a_conflict_that_names_both_writers() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let mut writers = Vec::new();
    for dims in [[8], [9]] {
        let writer = writer(&path);
        writer.define(&bytes("/a", &dims)).unwrap();
        writer.close().unwrap();
        writers.push((writer.id(), dims));
    }
    let error = commit(&path, &CommitOptions { conflicts_are_errors: true, ..never() }).unwrap_err();
    for (writer, _) in &writers {
        assert!(error.to_string().contains(&writer.to_string()), "{error}");
    }
    assert_eq!(Manifest::newest(&path).unwrap(), None, "nothing was committed");
    let manifest = done(&path);
    let [conflict] = &*manifest.conflicts else { panic!("{:?}", manifest.conflicts) };
    assert_eq!((&*conflict.path, conflict.kept, conflict.other), (&b"/a"[..], writers[1].0, writers[0].0));
    assert_eq!(
        manifest.datasets.iter().map(|stored| stored.extent.clone()).collect::<Vec<_>>(),
        [writers[1].1]
    );
}

#[test]
fn overlaps_of_one_epoch_are_resolved_by_priority_then_by_time() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[10]);
    let mut ids = Vec::new();
    for (priority, start, value) in [(0, 0, 1), (0, 3, 2), (5, 4, 3)] {
        let writer = LogWriter::create(&path, &WriterOptions { priority, ..options() }).unwrap();
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[start], &[4], &[value; 4]).unwrap();
        // Both wrote the same here, so there is no conflict.
        writer.write_box(number, &[9], &[1], &[7]).unwrap();
        writer.close().unwrap();
        ids.push(writer.id());
    }
    let manifest = done(&path);
    let expected = [1, 1, 1, 2, 3, 3, 3, 3, 0, 7];
    assert_eq!(read(&path, &manifest, &definition.id().unwrap()), expected);
    assert_eq!(native(&path, "a").unwrap(), expected);
    let [conflict] = &*manifest.conflicts else { panic!("{:?}", manifest.conflicts) };
    assert_eq!(conflict.slab, Hyperslab::new([3], [1]));
    assert_eq!([conflict.other, conflict.kept], ids[..2]);
}

#[test]
fn a_later_epoch_lies_over_an_earlier_one_without_a_conflict() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[6]);
    for value in 1..=3_u8 {
        let writer = writer(&path);
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[u64::from(value)], &[3], &[value; 3]).unwrap();
        writer.close().unwrap();
        assert!(done(&path).conflicts.is_empty());
    }
    let id = definition.id().unwrap();
    assert_eq!(native(&path, "a").unwrap(), [0, 1, 2, 3, 3, 3]);
    // Earlier epochs are unchanged.
    for (number, expected) in [(1, [0, 1, 1, 1, 0, 0]), (2, [0, 1, 2, 2, 2, 0])] {
        let epoch = Manifest::epoch(&path, number).unwrap();
        assert_eq!(
            (read(&path, &epoch, &id), epoch.number, epoch.parent),
            (expected.to_vec(), number, number - 1)
        );
        let image = File::from_bytes(epoch.image.clone(), &OpenOptions::default()).unwrap();
        let dataset = image.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap();
        assert_eq!(Marker::from_external_files(dataset.external()).unwrap().epoch, number);
    }
}

#[test]
fn a_writer_that_begins_anew_hides_what_was_there() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let (old, new) = (bytes("/old", &[4]), bytes("/new", &[4]));
    let fill = |writer: &LogWriter, definition: &Definition, value: u8| {
        let number = writer.define(definition).unwrap();
        writer.write_box(number, &[0], &[2], &[value; 2]).unwrap();
    };
    let first = writer(&path);
    fill(&first, &old, 1);
    first.close().unwrap();
    done(&path);
    let stray = writer(&path);
    fill(&stray, &bytes("/stray", &[4]), 9);
    stray.close().unwrap();
    let second = anew(&path);
    second.hide(&[stray.id()]).unwrap();
    fill(&second, &new, 2);
    let together = anew(&path);
    fill(&together, &new, 2);
    fill(&together, &old, 3);
    second.close().unwrap();
    let one = done(&path);
    assert_eq!((one.floor, one.datasets.len(), one.logs.len()), (1, 1, 1));
    let mut hidden = vec![first.id(), stray.id()];
    hidden.sort_unstable();
    assert_eq!(one.hidden, hidden);
    // Another writer that truncated the file at the same time adds to the first.
    together.close().unwrap();
    let both = done(&path);
    assert_eq!((both.floor, both.datasets.len(), both.hidden.clone()), (1, 2, hidden));
    assert_eq!(native(&path, "new").unwrap(), [2, 2, 0, 0]);
    assert_eq!(native(&path, "old").unwrap(), [3, 3, 0, 0]);
    assert!(waiting(&path, Some(&both)).unwrap().is_empty());
}

#[test]
fn only_tickets_and_only_a_session() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[4]);
    let writers: Vec<LogWriter> = (0..3_u8)
        .map(|at| {
            let session = Session::named(if at == 2 { "other" } else { "one" });
            let writer = LogWriter::create(&path, &WriterOptions { session, ..options() }).unwrap();
            let number = writer.define(&definition).unwrap();
            writer.write_box(number, &[u64::from(at)], &[1], &[at + 1]).unwrap();
            writer
        })
        .collect();
    let ticket = writers[0].flush().unwrap();
    let number = writers[0].define(&definition).unwrap();
    writers[0].write_box(number, &[3], &[1], &[9]).unwrap();
    let made = commit(&path, &CommitOptions { tickets: vec![ticket], ..never() }).unwrap().unwrap();
    assert_eq!((made.writers.clone(), made.left.len()), (vec![writers[0].id()], 2));
    assert_eq!(native(&path, "a").unwrap(), [1, 0, 0, 0], "up to the ticket");
    assert!(commit(&path, &CommitOptions { tickets: vec![ticket], ..never() }).unwrap().is_none());
    for writer in &writers {
        writer.close().unwrap();
    }
    let session = Some(Session::named("one"));
    let made = commit(&path, &CommitOptions { session, ..never() }).unwrap().unwrap();
    assert_eq!((made.writers.len(), made.left.len()), (2, 1));
    assert_eq!(native(&path, "a").unwrap(), [1, 2, 0, 9]);
    done(&path);
    assert_eq!(native(&path, "a").unwrap(), [1, 2, 3, 9]);
    let lost = Ticket { writer: WriterId([3; 16]), ..ticket };
    let error = commit(&path, &CommitOptions { tickets: vec![lost], ..never() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn writers_that_go_on_are_committed_as_far_as_they_flushed() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[4]);
    let writer = writer(&path);
    let number = writer.define(&definition).unwrap();
    writer.put_image(&image(&[&definition])).unwrap();
    writer.write_box(number, &[0], &[2], &[1, 1]).unwrap();
    writer.flush().unwrap();
    assert!(commit(&path, &never()).unwrap().is_none());
    let flushed = CommitOptions { flushed: true, ..never() };
    commit(&path, &flushed).unwrap().unwrap();
    assert!(commit(&path, &flushed).unwrap().is_none());
    // Data after the flush wait for the next one; flushed data do not.
    writer.write_box(number, &[3], &[1], &[3]).unwrap();
    writer.flush().unwrap();
    writer.write_box(number, &[2], &[1], &[4]).unwrap();
    writer.read_at(0, &mut [0]).unwrap();
    let made = commit(&path, &flushed).unwrap().unwrap();
    assert_eq!(read(&path, &made.manifest, &definition.id().unwrap()), [1, 1, 0, 3]);
    assert!(commit(&path, &flushed).unwrap().is_none());
    // Another writer deletes the dataset: this writer, which did not change its structure, does not
    // restore it.
    writer.write_box(number, &[1], &[2], &[2, 2]).unwrap();
    writer.close().unwrap();
    let manifest = done(&path);
    assert_eq!(read(&path, &manifest, &definition.id().unwrap()), [1, 2, 2, 3]);
    assert_eq!(manifest.datasets[0].parts.len(), 3);
    assert_eq!(manifest.logs.len(), 1);
}

#[test]
fn logs_of_writers_that_were_stopped_are_committed_on_request_only() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[1000]);
    let writer = writer(&path);
    let number = writer.define(&definition).unwrap();
    writer.write_box(number, &[0], &[500], &[1; 500]).unwrap();
    writer.flush().unwrap();
    writer.write_box(number, &[500], &[300], &[2; 300]).unwrap();
    writer.read_at(0, &mut [0]).unwrap();
    let made = commit(&path, &never()).unwrap();
    assert!(made.is_none());
    let made = commit(&path, &CommitOptions { salvage: true, ..never() }).unwrap().unwrap();
    assert!(made.manifest.logs[0].salvaged && !made.manifest.logs[0].finished);
    let expected = [vec![1; 500], vec![2; 300], vec![0; 200]].concat();
    assert_eq!(native(&path, "a").unwrap(), expected);
    // The writer was still alive.
    writer.write_box(number, &[900], &[100], &[3; 100]).unwrap();
    writer.close().unwrap();
    let manifest = done(&path);
    let pieces: Vec<u64> = manifest.datasets[0].parts.iter().map(|part| part.written.pieces.len()).collect();
    assert_eq!(pieces, [2, 1], "nothing twice");
    assert_eq!(native(&path, "a").unwrap(), [&expected[..900], &[3; 100]].concat());
}

#[test]
fn growing_from_an_old_extent_takes_nothing_away() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[0]);
    let id = definition.id().unwrap();
    let first = writer(&path);
    first.define(&definition).unwrap();
    first.close().unwrap();
    done(&path);
    let (one, other, third) = (writer(&path), writer(&path), writer(&path));
    for (writer, extent, value) in [(&one, 20, 1), (&other, 15, 2), (&third, 15, 3)] {
        let number = writer.define(&definition).unwrap();
        writer.set_extent(number, &[extent]).unwrap();
        writer.write_box(number, &[extent - 5], &[5], &[value; 5]).unwrap();
        writer.close().unwrap();
        assert_eq!(done(&path).dataset(&id).unwrap().extent, [20]);
    }
    let number = |value: u8| vec![value; 5];
    assert_eq!(native(&path, "a").unwrap(), [vec![0; 10], number(3), number(1)].concat());
    // Shrinking clips.
    let last = writer(&path);
    let dataset = last.define(&definition).unwrap();
    last.set_extent(dataset, &[12]).unwrap();
    last.set_extent(dataset, &[14]).unwrap();
    last.close().unwrap();
    let manifest = done(&path);
    assert_eq!(read(&path, &manifest, &id), [vec![0; 10], vec![3; 2], vec![0; 2]].concat());
}

#[test]
fn holes_are_linked_whatever_the_fill_value_is() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let zero = bytes("/zero", &[100]);
    let mut seven = bytes("/seven", &[100]);
    seven.fill = FillValue { value: FillWhen::User(vec![7]), ..FillValue::default() };
    let mut chunks = bytes("/chunks", &[100]);
    let empty = bytes("/empty", &[0]);
    let target = Target { datatype: &byte(), chunk: &[3], fill: &FillWhen::Default };
    chunks.pipeline = preset("deflate", &target).unwrap();
    let writer = writer(&path);
    for definition in [&zero, &seven] {
        let number = writer.define(definition).unwrap();
        writer.write_box(number, &[40], &[10], &[1; 10]).unwrap();
    }
    writer.define(&empty).unwrap();
    let number = writer.define(&chunks).unwrap();
    let (encoded, mask) =
        Encoder::default().encode(&chunks.pipeline, &[1, 2, 3]).map(|(b, m)| (b.to_vec(), m)).unwrap();
    writer.write_chunk(number, &[3], mask, &encoded).unwrap();
    writer.close().unwrap();
    let made = commit(&path, &never()).unwrap().unwrap();
    let expected = [
        (b"/chunks".to_vec(), Err(external_links::UnlinkedReason::Chunks)),
        (b"/empty".to_vec(), Err(external_links::UnlinkedReason::Empty)),
        (b"/seven".to_vec(), Ok(1)),
        (b"/zero".to_vec(), Ok(3)),
    ];
    let mut links = made.links.clone();
    links.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(links, expected);
    let mut values = vec![0; 100];
    values[40..50].fill(1);
    assert_eq!(native(&path, "zero").unwrap(), values);
    assert_eq!(native(&path, "empty").unwrap(), [0_u8; 0]);
    let error = native(&path, "chunks").unwrap_err();
    assert!(error.to_string().contains("hyperchunk store link"), "{error}");
    values = vec![7; 100];
    values[40..50].fill(1);
    assert_eq!(native(&path, "seven").unwrap(), values);
    assert_eq!(read(&path, &made.manifest, &seven.id().unwrap()), values);
    assert_eq!(read(&path, &made.manifest, &chunks.id().unwrap())[..7], [0, 0, 0, 1, 2, 3, 0]);
}

#[test]
fn too_many_segments_stay_unlinked_and_neighbours_count_once() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let writers = [writer(&path), writer(&path)];
    let (many, few) = (bytes("/many", &[6000]), bytes("/few", &[6000]));
    for (writer, number) in writers.iter().zip(0..) {
        let dataset = writer.define(&many).unwrap();
        for at in (number..6000).step_by(2) {
            writer.write_box(dataset, &[at], &[1], &[1]).unwrap();
        }
        let dataset = writer.define(&few).unwrap();
        for at in number * 3000..(number + 1) * 3000 {
            writer.write_box(dataset, &[at], &[1], &[2]).unwrap();
        }
        writer.close().unwrap();
    }
    let made = commit(&path, &never()).unwrap().unwrap();
    let links: HashMap<_, _> = made.links.into_iter().collect();
    assert_eq!(links[&b"/many"[..]], Err(external_links::UnlinkedReason::Segments));
    // One segment per batch.
    assert!(links[&b"/few"[..]].unwrap() < 20, "{:?}", links[&b"/few"[..]]);
    assert_eq!(native(&path, "few").unwrap(), vec![2; 6000]);
}

#[test]
fn a_store_that_was_moved_is_linked_again() {
    let folder = Folder::new();
    let (path, moved) = (folder.0.join("a.h5"), folder.0.join("b.h5"));
    let definition = bytes("/a", &[4]);
    let writer = writer(&path);
    let number = writer.define(&definition).unwrap();
    writer.write_box(number, &[0], &[4], &[1, 2, 3, 4]).unwrap();
    writer.close().unwrap();
    done(&path);
    assert_eq!(
        external_links::LinkReport::examine(&path).unwrap(),
        external_links::LinkReport { linked: 1, ..Default::default() }
    );
    fs::rename(&path, &moved).unwrap();
    fs::rename(store_folder(&path), store_folder(&moved)).unwrap();
    assert_eq!(external_links::LinkReport::examine(&moved).unwrap().missing.len(), 1);
    assert!(native(&moved, "a").is_err());
    for linking in [Linking::Relative, Linking::Absolute] {
        assert_eq!(external_links::link(&moved, linking, Sync::Never).unwrap(), [(b"/a".to_vec(), Ok(1))]);
        assert_eq!(native(&moved, "a").unwrap(), [1, 2, 3, 4]);
        let relative = marked(&moved, "a")[0].name.to_string().starts_with("b.h5.d/");
        assert_eq!(relative, linking == Linking::Relative);
    }
    external_links::link(&moved, Linking::Never, Sync::Never).unwrap();
    assert_eq!(
        external_links::LinkReport::examine(&moved).unwrap(),
        external_links::LinkReport { unlinked: 1, ..Default::default() }
    );
    assert!(native(&moved, "a").is_err());
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn what_others_change_in_the_skeleton_is_kept() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[2]);
    let first = writer(&path);
    let number = first.define(&definition).unwrap();
    first.write_box(number, &[0], &[2], &[1, 2]).unwrap();
    first.close().unwrap();
    done(&path);
    // Imitates a program that edits the file: one more group, all else unchanged.
    let base = File::open(&path, &native_options()).unwrap();
    let edited = {
        let sink = Arc::new(MemorySink::default());
        let file =
            Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
        file.create_group(NodeId::ROOT, b"by hand", false).unwrap();
        let old = base.root().unwrap().group().unwrap().get(b"a").unwrap().dataset().unwrap();
        let options = DatasetOptions::new(byte(), old.dataspace().clone())
            .with_layout(NewLayout::External(old.external().to_vec()));
        file.create_dataset(NodeId::ROOT, b"a", options).unwrap();
        file.close().unwrap();
        sink.bytes()
    };
    fs::write(&path, edited).unwrap();
    let second = writer(&path);
    let number = second.define(&definition).unwrap();
    second.write_box(number, &[0], &[1], &[9]).unwrap();
    second.close().unwrap();
    let manifest = done(&path);
    assert!(manifest.conflicts.is_empty());
    let file = File::open(&path, &OpenOptions::default()).unwrap();
    assert!(file.root().unwrap().group().unwrap().get(b"by hand").is_ok());
    assert_eq!(native(&path, "a").unwrap(), [9, 2]);
}

#[test]
fn committers_at_the_same_time_lose_nothing() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[24]);
    std::thread::scope(|scope| {
        for at in 0..24_u8 {
            let (path, definition) = (&path, &definition);
            scope.spawn(move || {
                let writer = writer(path);
                let number = writer.define(definition).unwrap();
                writer.write_box(number, &[u64::from(at)], &[1], &[at + 1]).unwrap();
                writer.close().unwrap();
                commit(path, &never()).unwrap();
                let newest = Manifest::newest(path).unwrap().unwrap();
                assert!(newest.log(&writer.id()).is_some());
            });
        }
    });
    let expected: Vec<u8> = (1..=24).collect();
    assert_eq!(native(&path, "a").unwrap(), expected);
    assert!(commit(&path, &never()).unwrap().is_none());
    let newest = Manifest::newest(&path).unwrap().unwrap();
    assert_eq!(Marker::from_external_files(&marked(&path, "a")).unwrap().epoch, newest.number);
}

#[test]
fn an_epoch_whose_maker_was_stopped_is_none() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[2]);
    let write = |value: u8| {
        let writer = writer(&path);
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[0], &[2], &[value; 2]).unwrap();
        writer.close().unwrap();
    };
    write(1);
    done(&path);
    let torn = Manifest::path(&path, 2);
    fs::write(&torn, b"HCEPOCH").unwrap();
    let old = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(&torn).unwrap().set_modified(old).unwrap();
    write(2);
    let manifest = done(&path);
    assert_eq!((manifest.number, manifest.parent), (3, 1));
    assert_eq!(native(&path, "a").unwrap(), [2, 2]);
}

#[test]
fn what_was_announced_is_there_also_if_nobody_wrote_to_it() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let (written, not) = (bytes("/g/written", &[4]), bytes("/g/not", &[0]));
    let known = create(&path, &[written.clone(), not.clone()], None, false, Sync::Never).unwrap();
    let writer = LogWriter::create(&path, &WriterOptions { known: Some(known.known), ..options() }).unwrap();
    let dataset = writer.define(&written).unwrap();
    writer.write_box(dataset, &[1], &[2], &[5, 6]).unwrap();
    writer.close().unwrap();
    let manifest = done(&path);
    assert_eq!(manifest.dataset(&not.id().unwrap()).unwrap().definition, not);
    assert_eq!(native(&path, "g/written").unwrap(), [0, 5, 6, 0]);
    assert_eq!(engine(&path, 1, "g/not"), [0; 0]);
}

#[test]
fn a_log_with_a_damaged_header_does_not_stop_the_others() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[2]);
    let writers: Vec<LogWriter> = (0..2_u8)
        .map(|at| {
            let writer = writer(&path);
            let number = writer.define(&definition).unwrap();
            writer.write_box(number, &[u64::from(at)], &[1], &[at + 1]).unwrap();
            writer.close().unwrap();
            writer
        })
        .collect();
    let mut damaged = fs::read(writers[0].log()).unwrap();
    damaged[20] ^= 1;
    fs::remove_file(writers[0].log()).unwrap();
    fs::write(writers[0].log(), damaged).unwrap();
    let made = commit(&path, &never()).unwrap().unwrap();
    assert_eq!((made.writers, made.damaged), (vec![writers[1].id()], vec![writers[0].id()]));
    assert_eq!(native(&path, "a").unwrap(), [0, 2]);
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn a_skeleton_that_was_not_replaced_in_time_is_replaced_later() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[2]);
    let mut old = Vec::new();
    for value in 1..3 {
        old = fs::read(&path).unwrap_or_default();
        let writer = writer(&path);
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[0], &[2], &[value; 2]).unwrap();
        writer.close().unwrap();
        done(&path);
    }
    // As if the second commit had been stopped before the rename.
    fs::write(&path, &old).unwrap();
    assert_eq!(native(&path, "a").unwrap(), [1, 1], "the epoch before, whole");
    assert!(commit(&path, &never()).unwrap().is_none());
    assert_eq!(native(&path, "a").unwrap(), [2, 2]);
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn a_commit_that_cannot_replace_the_file_says_that_the_data_are_committed() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let definition = bytes("/a", &[2]);
    let begun = create(&path, std::slice::from_ref(&definition), None, false, Sync::Never).unwrap();
    let aside = folder.0.join("aside");
    for value in 1..3 {
        let known = (value == 1).then(|| begun.known.clone());
        let writer = LogWriter::create(&path, &WriterOptions { known, ..options() }).unwrap();
        let number = writer.define(&definition).unwrap();
        writer.write_box(number, &[0], &[2], &[value; 2]).unwrap();
        writer.close().unwrap();
        if value == 1 {
            // As if the commit had been stopped before the rename.
            fs::hard_link(&path, &aside).unwrap();
            done(&path);
        } else {
            fs::rename(&path, &aside).unwrap();
            fs::create_dir_all(path.join("in the way")).unwrap();
            let error = commit(&path, &never()).unwrap_err().to_string();
            assert!(error.contains("the data are committed as epoch 2"), "{error}");
            assert!(error.contains("repeat `hyperchunk store commit`"), "{error}");
            fs::remove_dir_all(&path).unwrap();
        }
        fs::rename(&aside, &path).unwrap();
        assert!(commit(&path, &never()).unwrap().is_none());
        assert_eq!(native(&path, "a").unwrap(), [value; 2]);
    }
}

#[test]
fn a_file_that_is_no_hdf5_is_not_replaced() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    fs::write(&path, b"my thesis").unwrap();
    let writer = writer(&path);
    writer.define(&bytes("/a", &[2])).unwrap();
    writer.close().unwrap();
    assert_eq!(commit(&path, &never()).unwrap_err().kind(), ErrorKind::NotHdf5);
    assert_eq!(fs::read(&path).unwrap(), b"my thesis");
}

#[test]
fn test_logs_of_others_are_never_those_of_the_writer_or_its_session() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let started =
        |session: Session| LogWriter::create(&path, &WriterOptions { session, ..options() }).unwrap();
    let (mine, theirs) = (Session::named("mine"), Session::named("theirs"));
    for session in [Session::default(), mine] {
        let own = started(session);
        let (same, other) = (started(session), started(theirs));
        let found = waiting_of_others(&path, session, own.id()).unwrap();
        let found: Vec<WriterId> = found.iter().map(|log| log.header.writer).collect();
        assert!(!found.contains(&own.id()), "{session:?}");
        assert!(found.contains(&other.id()), "{session:?}");
        assert_eq!(found.contains(&same.id()), session.is_unknown(), "{session:?}");
    }
}
