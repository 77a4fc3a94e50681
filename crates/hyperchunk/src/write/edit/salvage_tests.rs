//! Salvage of files whose edit was interrupted in the middle of a commit.

use super::journal_file::{LocalJournal, redo_path};
use super::*;
use crate::salvage::{SalvageOptions, SalvageReport, salvage};
use crate::write::options::{DatasetOptions, Sync};
use crate::write::recover;
use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype};
use hyperchunk_format::select::Selection;
use std::path::PathBuf;

/// Number of elements, of one byte, of each dataset.
const SIZE: usize = 3000;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-redo-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Makes a file of two datasets of ones whose commit of twos was interrupted when the first dataset was written.
fn half_committed(folder: &Folder) -> PathBuf {
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    for name in [b"c", b"d"] {
        let space = Dataspace::Simple { dims: vec![SIZE as u64], max: vec![Some(SIZE as u64)] };
        let options = DatasetOptions::new(Datatype::integer(1, false, ByteOrder::Little), space);
        let dataset = file.create_dataset(NodeId::ROOT, name, options).unwrap();
        dataset.write(&Selection::All, &[1; SIZE]).unwrap();
    }
    file.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(SIZE).position(|window| window.iter().all(|byte| *byte == 1))
    {
        places.push(at + found);
        at += found + SIZE;
    }
    let [first, second] = places[..] else { panic!("{places:?}") };
    let sink = LocalSink::editable(&path, Sync::Commit, crate::io::Locking::Default).unwrap();
    let journal = LocalJournal::new(&path, path.metadata().unwrap(), Sync::Commit).unwrap();
    let mut redo = Redo::new(Box::new(journal)).always();
    redo.write(first as u64, &[2; SIZE]).unwrap();
    redo.write(second as u64, &[2; SIZE]).unwrap();
    redo.complete(&sink, bytes.len() as u64, bytes.len() as u64).unwrap();
    sink.write_at(first as u64, &[2; SIZE]).unwrap();
    sink.release();
    path
}

/// Salvages a file; returns the report, and the values of each dataset in the new file. The file and its journal
/// must stay as they are.
fn salvaged(path: &Path) -> (SalvageReport, Vec<Vec<u8>>) {
    let output = path.with_file_name("new.h5");
    let before = (std::fs::read(path).unwrap(), std::fs::read(redo_path(path)).unwrap());
    let options = SalvageOptions { replace: true, ..SalvageOptions::default() };
    let report = salvage(path, &output, &options, &|_, _| ()).unwrap();
    assert_eq!((std::fs::read(path).unwrap(), std::fs::read(redo_path(path)).unwrap()), before);
    let root = File::open(&output, &OpenOptions::default()).unwrap().root().unwrap().group().unwrap();
    let values = [&b"c"[..], b"d"].map(|name| {
        let mut bytes = vec![0; SIZE];
        root.get(name).unwrap().dataset().unwrap().read(&Selection::All, &mut bytes).unwrap();
        bytes.dedup();
        bytes
    });
    (report, values.into())
}

#[test]
fn test_salvage_reads_the_commit_in_a_complete_journal() {
    let folder = Folder::new("salvage");
    let path = half_committed(&folder);
    let (report, values) = salvaged(&path);
    assert_eq!((report.damage.as_slice(), report.is_whole()), (&[][..], true));
    assert_eq!(values, [[2], [2]]);
    #[cfg(unix)]
    {
        let link = folder.0.join("link.h5");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let output = folder.0.join("by-link.h5");
        assert!(salvage(&link, &output, &SalvageOptions::default(), &|_, _| ()).unwrap().is_whole());
        assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(folder.0.join("new.h5")).unwrap());
    }
}

#[test]
fn test_salvage_notes_a_journal_of_another_version_and_a_part_of_one() {
    let folder = Folder::new("salvage-other");
    let path = half_committed(&folder);
    let file = std::fs::read(&path).unwrap();
    let mut other = file.clone();
    let place = file.windows(SIZE).position(|window| window.iter().all(|byte| *byte == 1)).unwrap();
    other[place + 5] = 9;
    std::fs::write(&path, other).unwrap();
    let (report, values) = salvaged(&path);
    assert!(!report.is_whole());
    let [note] = &report.damage[..] else { panic!("{:?}", report.damage) };
    assert!(note.contains("another program changed the file") && note.contains("FILE.redo"), "{note}");
    assert_eq!(values, [vec![2], vec![1, 9, 1]]);

    std::fs::write(&path, file).unwrap();
    let journal = std::fs::read(redo_path(&path)).unwrap();
    std::fs::write(redo_path(&path), &journal[..journal.len() - 100]).unwrap();
    let (report, values) = salvaged(&path);
    let [note] = &report.damage[..] else { panic!("{:?}", report.damage) };
    assert!(note.contains("a.h5.redo") && note.contains("expected a complete journal"), "{note}");
    assert_eq!(values, [[2], [1]]);

    // Another file of that name is no journal.
    std::fs::write(redo_path(&path), b"thesis").unwrap();
    assert_eq!(salvaged(&path).0.damage, [""; 0]);
}

#[test]
fn test_errors_of_a_journal_name_the_file_and_the_journal() {
    let folder = Folder::new("names");
    let path = half_committed(&folder);
    let file = std::fs::read(&path).unwrap();
    let output = folder.0.join("new.h5");
    let replace = || {
        let packing = crate::pack::PackPlan::new(
            vec![crate::pack::Input {
                file: File::from_bytes(file.clone(), &OpenOptions::default())?,
                into: String::new(),
            }],
            crate::pack::PackOptions { replace: true, ..crate::pack::PackOptions::default() },
        )?;
        packing.write(&path, &|_| ()).map(drop)
    };
    let mut other = file.clone();
    let length = other.len();
    other[length - 1] ^= 1;
    let place = file.windows(SIZE).position(|window| window.iter().all(|byte| *byte == 1)).unwrap();
    other[place + 5] = 9;
    for bytes in [&other[..], &file[..length / 2]] {
        std::fs::write(&path, bytes).unwrap();
        let opened = File::open(&path, &OpenOptions::default()).unwrap_err();
        for error in [opened, replace().unwrap_err(), recover(&path).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Changed);
            let text = error.to_string();
            assert!(text.contains("a.h5") && text.contains("(FILE.redo)"), "{text}");
        }
        assert!(!output.exists());
    }
    std::fs::remove_file(&path).unwrap();
    let text = recover(&path).unwrap_err().to_string();
    assert!(text.contains("a.h5.redo") && text.contains("move the journal beside its file"), "{text}");
    std::fs::remove_file(redo_path(&path)).unwrap();
    let text = recover(&path).unwrap_err().to_string();
    assert!(text.contains("nothing to recover") && text.contains("a.h5.journal"), "{text}");
}
