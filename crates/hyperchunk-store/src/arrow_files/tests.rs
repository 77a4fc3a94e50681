#![allow(clippy::cast_possible_truncation, reason = "a test may fail")]

use super::*;
use crate::admin::compact::{CompactOptions, compact};
use crate::admin::pack::{PackOptions, pack};
use crate::admin::vacuum::{VacuumOptions, vacuum};
use crate::admin::verify::verify;
use crate::commit::{CommitOptions, commit};
use crate::tests::{Folder, options};
use crate::{Hyperslab, Log, LogWriter, Segments, WriterOptions, create, log_path};
use hyperchunk::model::{ByteOrder, Datatype};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::Sync;
use hyperchunk::{File, OpenOptions};
use std::time::Duration;

const ROWS: u64 = 60_000;

fn column(name: &str, datatype: Datatype, inner: &[u64], grows: bool) -> Definition {
    let mut dims = vec![if grows { 0 } else { ROWS }];
    dims.extend_from_slice(inner);
    let mut definition = Definition::new(name, datatype, dims);
    if grows {
        definition.max[0] = None;
        definition.chunk = Some([vec![1000], inner.to_vec()].concat());
    }
    definition
}

fn arrow() -> WriterOptions {
    WriterOptions { segments: Segments::Arrow, ..options() }
}

fn never() -> CommitOptions {
    CommitOptions { sync: Sync::Never, ..CommitOptions::default() }
}

/// Reads all of a dataset through the engine.
fn engine(path: &Path, name: &str) -> Vec<u8> {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let size = dataset.elements().unwrap() * dataset.datatype().size;
    let mut out = vec![0; size as usize];
    dataset.read(&Selection::All, &mut out).unwrap();
    out
}

#[test]
fn names_of_tables_tell_groups_apart() {
    let of = |path: &str| {
        table_name(&column(path, Datatype::integer(1, false, ByteOrder::Little), &[], false)).unwrap()
    };
    assert_eq!(of("/a/b/x"), "a+b@60000");
    assert_eq!(of("/x"), "@60000");
    assert_eq!(of("/../x"), "%2E.@60000");
    let all = ["/a/b/x", "/a+b/x", "/a%2Bb/x", "/a.b/x", "/a b/x", "/x"];
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| of(one) != of(other)), "{one}");
    }
    let long = format!("/{}/x", "ä".repeat(2000));
    assert!(of(&long).len() < 250);
    assert_eq!(
        table_name(&Definition::new("/x", Datatype::integer(1, false, ByteOrder::Little), vec![])),
        None
    );
}

#[test]
fn rows_of_many_writers_come_back_whatever_is_done_with_them() {
    let mut state = 88_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..12 {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let columns = [
            column("/g/x", Datatype::ieee(4, ByteOrder::Little), &[], false),
            column("/g/y", Datatype::integer(2, true, ByteOrder::Little), &[], false),
            column("/g/v", Datatype::ieee(8, ByteOrder::Little), &[3], false),
            // Not suitable for a column, so it stays in the log.
            column("/g/b", Datatype::ieee(8, ByteOrder::Big), &[], false),
            column("/h/z", Datatype::ieee(8, ByteOrder::Little), &[], false),
        ];
        let row = |at: usize| [4, 2, 24, 8, 8][at];
        create(&path, &columns, None, false, Sync::Never).unwrap();
        let mut model: Vec<Vec<u8>> = (0..5).map(|at| vec![0; ROWS as usize * row(at)]).collect();
        for epoch in 0..3 {
            let mut written: Vec<(usize, u64, u64, u8)> = Vec::new();
            let arrows = random(3) != 0;
            let how = if arrows { arrow() } else { options() };
            // Less memory than is written.
            let memory = (cfg!(target_os = "linux") && random(2) == 0).then_some(1 << 16);
            let writer = LogWriter::create(&path, &WriterOptions { memory, ..how }).unwrap();
            let numbers: Vec<u32> = columns.iter().map(|column| writer.define(column).unwrap()).collect();
            for _ in 0..40 {
                let at = random(5) as usize;
                let (first, most) = (random(ROWS - 1), [10, 500, 30_000][random(3) as usize]);
                let count = (1 + random(most)).min(ROWS - first);
                let value = random(255) as u8 + 1;
                let bytes = vec![value; count as usize * row(at)];
                match (at, random(6)) {
                    (2, 0) => {
                        // Only some of the cells, so it is not a write of rows.
                        let bytes = vec![value; count as usize * 8];
                        writer.write_box(numbers[2], &[first, 1], &[count, 1], &bytes).unwrap();
                        for row in first..first + count {
                            model[2][row as usize * 24 + 8..][..8].fill(value);
                        }
                        continue;
                    }
                    (2, _) => writer.write_box(numbers[2], &[first, 0], &[count, 3], &bytes).unwrap(),
                    (_, 1) if random(4) == 0 => {
                        // Columns of one table together.
                        for at in [0, 1] {
                            let bytes = vec![value; count as usize * row(at)];
                            writer.write_box(numbers[at], &[first], &[count], &bytes).unwrap();
                            written.push((at, first, count, value));
                            model[at][first as usize * row(at)..][..bytes.len()].copy_from_slice(&bytes);
                        }
                        continue;
                    }
                    _ => writer.write_box(numbers[at], &[first], &[count], &bytes).unwrap(),
                }
                model[at][first as usize * row(at)..][..bytes.len()].copy_from_slice(&bytes);
                if random(10) == 0 {
                    // The writer reads its own data.
                    let axes = columns[at].dims[1..].iter().map(|dim| Axis::range(0..*dim));
                    let axes = [Axis::range(first..first + count)].into_iter().chain(axes).collect();
                    let mut found = vec![0; bytes.len()];
                    writer.read(numbers[at], &Selection::Axes(axes), &mut found).unwrap();
                    assert_eq!(found, bytes, "round {round}");
                }
                if random(15) == 0 {
                    writer.flush().unwrap();
                }
            }
            writer.close().unwrap();
            assert_eq!(writer.fragments().is_empty(), !arrows);
            // Batches and index must agree.
            let (mut log, mut salvaged) =
                (Log::open(writer.log(), None, 0).unwrap(), Log::salvage(writer.log(), 0).unwrap());
            log.written.sort_by_key(|(number, _)| *number);
            salvaged.written.sort_by_key(|(number, _)| *number);
            assert_eq!((log.length, &log.defined), (salvaged.length, &salvaged.defined));
            for ((number, one), (other, two)) in log.written.iter().zip(&salvaged.written) {
                let key = |piece: &crate::Piece| (piece.order, piece.offset);
                assert_eq!((number, one.pieces.len()), (other, two.pieces.len()));
                assert!(one.pieces.iter().map(|p| key(&p)).eq(two.pieces.iter().map(|p| key(&p))));
            }
            commit(&path, &never()).unwrap().unwrap();
            for (column, bytes) in columns.iter().zip(&model) {
                let name = String::from_utf8(column.path.clone()).unwrap();
                assert_eq!(&engine(&path, &name), bytes, "round {round}, epoch {epoch}: {name}");
            }
        }
        assert_eq!(verify(&path).unwrap().damaged, Vec::<String>::new());
        let one = folder.0.join("one.h5");
        pack(&path, &one, &PackOptions { sync: Sync::Never, ..PackOptions::default() }).unwrap();
        if random(2) == 0 {
            compact(
                &path,
                &CompactOptions { sync: Sync::Never, memory: 1 << 20, ..CompactOptions::default() },
            )
            .unwrap();
            let grace = VacuumOptions { grace: Duration::ZERO, ..VacuumOptions::default() };
            vacuum(&path, &grace).unwrap();
        }
        for (column, bytes) in columns.iter().zip(&model) {
            let name = String::from_utf8(column.path.clone()).unwrap();
            assert_eq!(&engine(&path, &name), bytes, "round {round}: {name}");
            assert_eq!(&engine(&one, &name), bytes, "round {round}, packed: {name}");
        }
    }
}

#[test]
fn fragments_are_the_table_or_an_error_says_why_not() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let columns = [
        column("/g/x", Datatype::ieee(4, ByteOrder::Little), &[], false),
        column("/g/y", Datatype::ieee(4, ByteOrder::Little), &[], false),
    ];
    create(&path, &columns, None, false, Sync::Never).unwrap();
    let half = ROWS / 2;
    let write = |first: u64, count: u64, which: &[usize]| {
        let writer = LogWriter::create(&path, &arrow()).unwrap();
        let numbers: Vec<u32> = columns.iter().map(|column| writer.define(column).unwrap()).collect();
        for at in which {
            writer
                .write_box(numbers[*at], &[first], &[count], &vec![*at as u8 + 1; count as usize * 4])
                .unwrap();
        }
        writer.close().unwrap();
        writer.id()
    };
    write(half, half, &[1, 0]);
    commit(&path, &never()).unwrap().unwrap();
    let says = |what: &str| {
        let error = fragments(&path, "/g", None).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    says("rows 0..30000 of x were never written");
    write(0, half, &[0, 1]);
    says("rows 0..30000 of x were never written");
    commit(&path, &never()).unwrap().unwrap();
    let found = fragments(&path, "g", None).unwrap();
    assert_eq!(
        (found.rows, found.epoch, &*found.columns),
        (ROWS, 2, ["x".to_owned(), "y".to_owned()].as_slice())
    );
    let rows: Vec<_> = found.files.iter().map(|file| (file.batches.len(), file.batches[0].row)).collect();
    assert_eq!(rows, [(1, 0), (1, half)]);
    assert!(fragments(&path, "/other", None).is_err());
    assert_eq!(fragments(&path, "/g@60000", None).unwrap(), found);
    write(10, 20, &[0]);
    commit(&path, &never()).unwrap().unwrap();
    says("overwritten since");
    assert_eq!(fragments(&path, "/g", Some(2)).unwrap().files, found.files);
    compact(&path, &CompactOptions { sync: Sync::Never, ..CompactOptions::default() }).unwrap().unwrap();
    let found = fragments(&path, "/g", None).unwrap();
    assert_eq!((found.files.len(), found.files[0].batches.len()), (1, 1));
    // A damaged footer must not do harm.
    let file = &found.files[0].path;
    let bytes = std::fs::read(file).unwrap();
    // Not for others to write, since such files are not trusted.
    let mut permissions = std::fs::metadata(file).unwrap().permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
    #[cfg(not(unix))]
    permissions.set_readonly(false);
    std::fs::set_permissions(file, permissions).unwrap();
    for at in (bytes.len() - 500..bytes.len()).chain(4096..4200) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        std::fs::write(file, &damaged).unwrap();
        drop(fragments(&path, "/g", None));
    }
    std::fs::write(file, &bytes[..bytes.len() - 3]).unwrap();
    says("has no footer");
    std::fs::remove_file(file).unwrap();
    assert!(fragments(&path, "/g", None).is_err());
    let mut found = vec![0; 4];
    let opened = File::open(&path, &OpenOptions::default()).unwrap();
    let x = opened.root().unwrap().group().unwrap().get(b"/g/x").unwrap().dataset().unwrap();
    assert!(x.read(&Selection::Axes(vec![Axis::range(0..1)]), &mut found).is_err());
}

#[test]
fn rows_are_appended_by_many_and_boxes_of_rows_stay_in_order() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let columns = [
        column("/g/x", Datatype::ieee(4, ByteOrder::Little), &[], true),
        column("/g/y", Datatype::ieee(8, ByteOrder::Little), &[2], true),
    ];
    create(&path, &columns, None, false, Sync::Never).unwrap();
    for value in 1..4_u8 {
        let writer = LogWriter::create(&path, &arrow()).unwrap();
        let numbers: Vec<u32> = columns.iter().map(|column| writer.define(column).unwrap()).collect();
        for part in 0..300 {
            let rows = if part == 100 { 20_000 } else { 100 + part };
            writer.append(numbers[0], &vec![value; rows * 4]).unwrap();
            writer.append(numbers[1], &vec![value; rows * 16]).unwrap();
        }
        writer.close().unwrap();
    }
    commit(&path, &never()).unwrap().unwrap();
    let rows = 299 * 100 + (0..300).sum::<u64>() - 100 + 20_000;
    let wanted: Vec<u8> = (1..4).flat_map(|value| vec![value; rows as usize * 4]).collect();
    assert!(engine(&path, "/g/x") == wanted);
    assert_eq!(engine(&path, "/g/y").len(), 4 * wanted.len());
    let found = fragments(&path, "/g", None).unwrap();
    assert_eq!((found.rows, found.files.len()), (3 * rows, 3));
}

#[test]
fn a_torn_fragment_is_not_salvaged_and_what_is_whole_is() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    for checksum in [true, false] {
        let writer = LogWriter::create(&path, &WriterOptions { checksum, ..arrow() }).unwrap();
        let x = writer.define(&column("/g/x", Datatype::ieee(4, ByteOrder::Little), &[], false)).unwrap();
        for part in 0..3 {
            writer.write_box(x, &[part * 20_000], &[20_000], &vec![part as u8 + 1; 80_000]).unwrap();
        }
        let fragment = writer.fragments().remove(0);
        let length = std::fs::metadata(&fragment).unwrap().len();
        std::fs::File::options().write(true).open(&fragment).unwrap().set_len(length - 1).unwrap();
        let log = Log::salvage(&log_path(&path, writer.id()), 0).unwrap();
        let pieces: Vec<Hyperslab> = log.written[0].1.pieces.iter().map(|piece| piece.slab).collect();
        assert_eq!(pieces, [Hyperslab::new([0], [20_000]), Hyperslab::new([20_000], [20_000])]);
    }
}

#[test]
fn test_batches_begun_before_most_columns_joined_are_in_the_footer() {
    let folder = Folder::new();
    let path = folder.0.join("a.h5");
    let columns: Vec<Definition> = (0..100)
        .map(|number| column(&format!("/g/c{number:03}"), Datatype::ieee(4, ByteOrder::Little), &[], false))
        .collect();
    create(&path, &columns, None, false, Sync::Never).unwrap();
    let writer = LogWriter::create(&path, &arrow()).unwrap();
    let values = |number: usize| vec![number as u8 + 1; ROWS as usize * 4];
    // Each column is defined when the rows of those before it are written.
    for (number, column) in columns.iter().enumerate() {
        let dataset = writer.define(column).unwrap();
        writer.write_box(dataset, &[0], &[ROWS], &values(number)).unwrap();
    }
    writer.close().unwrap();
    commit(&path, &never()).unwrap().unwrap();
    for number in [0, 17, 99] {
        assert_eq!(engine(&path, &format!("/g/c{number:03}")), values(number));
    }
    let error = fragments(&path, "/g", None).unwrap_err().to_string();
    assert!(error.contains("after it had begun their batches"), "{error}");
}
