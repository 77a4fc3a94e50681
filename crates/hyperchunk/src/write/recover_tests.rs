//! Recovery leaves files alone that are not its journal's, and nobody changes a file before its recovery.

use super::*;
use crate::output::Output;
use crate::pack::{PackOptions, pack_in_place};
use crate::{ErrorKind, File, OpenOptions};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Dataspace, Datatype as StoredDatatype, Name,
};
use hyperchunk_format::select::Selection;
use std::path::{Path, PathBuf};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-recover-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn int32() -> StoredDatatype {
    StoredDatatype::integer(4, true, ByteOrder::Little)
}

fn add(file: &Writer, name: &str) {
    let dataspace = Dataspace::Simple { dims: vec![100], max: vec![None] };
    let options = DatasetOptions::new(int32(), dataspace).with_layout(NewLayout::Chunked(vec![10]));
    let dataset = file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap();
    dataset.write(&Selection::All, &[7; 400]).unwrap();
}

fn note(file: &Writer, value: u8) {
    let attribute = Attribute {
        name: Name::from("note"),
        charset: CharacterSet::Ascii,
        datatype: int32(),
        dataspace: Dataspace::Scalar,
        data: vec![value; 4],
        committed: None,
        creation_order: None,
    };
    file.set_attribute(NodeId::ROOT, attribute).unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let root = File::open(path, &OpenOptions::default()).unwrap().root().unwrap().group().unwrap();
    let mut names: Vec<String> = root.links().unwrap().iter().map(|link| link.name.to_string()).collect();
    names.sort();
    names
}

fn whole(path: &Path, names: &[&str]) {
    let file = Writer::create(path, &CreateOptions::default()).unwrap();
    names.iter().for_each(|name| add(&file, name));
    file.close().unwrap();
}

/// Leaves what a killed writer leaves that has written one dataset before its commit and one after it.
fn killed(path: &Path, user_block: u64) {
    let options = CreateOptions { user_block, ..CreateOptions::default() };
    let file = Writer::create(path, &options).unwrap();
    note(&file, 1);
    add(&file, "early");
    file.flush().unwrap();
    add(&file, "late");
}

fn assert_refused(path: &Path) {
    let before = std::fs::read(path).unwrap();
    let error = recover(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    assert!(error.to_string().contains("a.h5.journal"), "{error}");
    assert!(std::fs::read(path).unwrap() == before, "{error}");
}

#[test]
fn test_recover_of_the_file_of_the_writer() {
    for user_block in [0, 512] {
        let folder = Folder::new(&format!("own-{user_block}"));
        let path = folder.at("a.h5");
        killed(&path, user_block);
        // Moved away and back, so that it is another file with the same bytes.
        std::fs::copy(&path, folder.at("b.h5")).unwrap();
        std::fs::rename(folder.at("b.h5"), &path).unwrap();
        recover(&path).unwrap();
        assert_eq!(names(&path), ["early", "late"]);
    }
}

#[test]
fn test_recover_after_a_commit_that_failed_or_did_not_begin() {
    let folder = Folder::new("attempt");
    let path = folder.at("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    add(&file, "early");
    file.flush().unwrap();
    add(&file, "late");
    // The superblock of this commit is not written.
    file.0.note_commit(&[1; 48], 4096, &[1, 2, 3]).unwrap();
    drop(file);
    recover(&path).unwrap();
    assert_eq!(names(&path), ["early", "late"]);
}

#[test]
fn test_recover_of_a_file_that_was_put_there() {
    let folder = Folder::new("other");
    let path = folder.at("a.h5");
    for same_inode in [false, true] {
        killed(&path, 0);
        whole(&folder.at("b.h5"), &["precious"]);
        if same_inode {
            std::fs::copy(folder.at("b.h5"), &path).unwrap();
        } else {
            std::fs::rename(folder.at("b.h5"), &path).unwrap();
        }
        assert_refused(&path);
        assert_eq!(names(&path), ["precious"]);
        std::fs::remove_file(folder.at("a.h5.journal")).unwrap();
    }
}

#[test]
fn test_recover_of_a_file_that_was_changed() {
    let folder = Folder::new("changed");
    let (path, journal, away) = (folder.at("a.h5"), folder.at("a.h5.journal"), folder.at("away"));
    for change in [|file: &Writer| add(file, "mine"), |file: &Writer| note(file, 2)] {
        killed(&path, 0);
        // By a program that does not know the journal.
        std::fs::rename(&journal, &away).unwrap();
        let file = Writer::edit(&path, &CreateOptions::default()).unwrap();
        change(&file);
        file.close().unwrap();
        std::fs::rename(&away, &journal).unwrap();
        assert_refused(&path);
        std::fs::remove_file(&journal).unwrap();
    }
}

/// Changes bytes of a file in place, as another program does that does not know the journal.
fn overwrite(path: &Path, old: &[u8], new: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        (0..=bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert_eq!(places.len(), 1);
    bytes[places[0]..places[0] + new.len()].copy_from_slice(new);
    std::fs::write(path, bytes).unwrap();
}

fn stored(path: &Path, name: &str) -> Vec<u8> {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let mut bytes = vec![0; 400];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    bytes
}

/// Leaves a committed file with chunks, 60 in the first and 6 in the others, and contiguous data, of which the first half
/// is 5 and the rest unwritten.
fn killed_with_data(path: &Path, late: impl FnOnce(&Writer, &DatasetWriter, &DatasetWriter)) {
    let file = Writer::create(path, &CreateOptions::default()).unwrap();
    add(&file, "chunked");
    let chunked = file.dataset(file.object(b"/chunked").unwrap()).unwrap();
    chunked.write(&Selection::All, &[&[60; 40][..], &[6; 360]].concat()).unwrap();
    let dataspace = Dataspace::Simple { dims: vec![100], max: vec![Some(100)] };
    let options = DatasetOptions::new(int32(), dataspace);
    let contiguous = file.create_dataset(NodeId::ROOT, b"contiguous", options).unwrap();
    let half = Selection::Axes(vec![hyperchunk_format::select::Axis::range(0..50)]);
    contiguous.write(&half, &[5; 200]).unwrap();
    file.flush().unwrap();
    add(&file, "late");
    late(&file, &chunked, &contiguous);
}

#[test]
fn test_recover_keeps_what_another_program_changed_in_place() {
    let folder = Folder::new("in-place");
    let path = folder.at("a.h5");
    killed_with_data(&path, |_, _, _| ());
    overwrite(&path, &[60; 40], &[66; 40]);
    overwrite(&path, &[5; 200], &[55; 8]);
    // Also where nothing was written yet.
    overwrite(&path, &[&[5; 192][..], &[0; 200]].concat(), &[&[5; 192][..], &[9; 4]].concat());
    let journal = folder.at("a.h5.journal");
    std::fs::hard_link(&journal, folder.at("kept")).unwrap();
    let expected = [
        [&[66; 40][..], &[6; 360]].concat(),
        [&[55; 8][..], &[5; 192], &[9; 4], &[0; 196]].concat(),
        vec![7; 400],
    ];
    for _ in 0..2 {
        let found = recover(&path).unwrap();
        assert_eq!(found.lost, Vec::<String>::new());
        assert_eq!(found.changed, ["bytes 0 to 200 of /contiguous", "chunk [0] of /chunked"]);
        assert_eq!(found.chunks, 20);
        for (name, values) in ["chunked", "contiguous", "late"].iter().zip(&expected) {
            assert_eq!(&stored(&path, name), values, "{name}");
        }
        // An interruption after the commit: it is repeated.
        if folder.at("kept").exists() {
            std::fs::rename(folder.at("kept"), &journal).unwrap();
        }
    }
}

#[test]
fn test_recover_puts_the_committed_chunk_in_the_place_of_a_damaged_one() {
    let folder = Folder::new("restored");
    let path = folder.at("a.h5");
    let first = Selection::Axes(vec![hyperchunk_format::select::Axis::range(0..10)]);
    killed_with_data(&path, |_, chunked, _| chunked.write(&first, &[8; 40]).unwrap());
    // Its bytes did not reach the disk.
    overwrite(&path, &[8; 40], &[0; 40]);
    let journal = folder.at("a.h5.journal");
    std::fs::hard_link(&journal, folder.at("kept")).unwrap();
    for _ in 0..2 {
        let found = recover(&path).unwrap();
        assert_eq!((found.lost, found.changed), (vec!["chunk [0] of /chunked".to_owned()], vec![]));
        assert_eq!(stored(&path, "chunked"), [&[60; 40][..], &[6; 360]].concat());
        if folder.at("kept").exists() {
            std::fs::rename(folder.at("kept"), &journal).unwrap();
        }
    }
}

#[test]
fn test_recover_of_a_chunk_that_two_programs_changed() {
    let folder = Folder::new("conflict");
    let path = folder.at("a.h5");
    let first = Selection::Axes(vec![hyperchunk_format::select::Axis::range(0..10)]);
    killed_with_data(&path, |_, chunked, _| chunked.write(&first, &[8; 40]).unwrap());
    overwrite(&path, &[60; 40], &[66; 40]);
    assert_refused(&path);
    assert_eq!(stored(&path, "chunked"), [&[66; 40][..], &[6; 360]].concat());
}

#[test]
fn test_recover_of_an_unfinished_file_whose_place_is_taken() {
    let folder = Folder::new("taken");
    let path = folder.at("a.h5");
    for was_there in [false, true] {
        drop(std::fs::remove_file(&path));
        if was_there {
            whole(&path, &["old"]);
        }
        let start = || {
            let file = Writer::create(&path, &CreateOptions::default()).unwrap();
            add(&file, "new");
        };
        start();
        // The file that it was to replace.
        recover(&path).unwrap();
        assert_eq!(names(&path), ["new"]);
        start();
        whole(&folder.at("b.h5"), &["precious", "too"]);
        std::fs::rename(folder.at("b.h5"), &path).unwrap();
        assert_refused(&path);
        std::fs::remove_file(&path).unwrap();
        recover(&path).unwrap();
        assert_eq!(names(&path), ["new"]);
    }
}

#[test]
#[cfg(unix)]
fn test_recover_of_an_unfinished_file_whose_place_has_a_file_of_the_same_size_and_time() {
    let folder = Folder::new("twin");
    let (path, other) = (folder.at("a.h5"), folder.at("b.h5"));
    whole(&path, &["old"]);
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    add(&file, "new");
    drop(file);
    let old = std::fs::metadata(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    for same_inode in [false, true] {
        std::fs::write(if same_inode { &path } else { &other }, &bytes).unwrap();
        let put = std::fs::File::options().write(true).open(if same_inode { &path } else { &other }).unwrap();
        put.set_modified(old.modified().unwrap()).unwrap();
        if !same_inode {
            std::fs::rename(&other, &path).unwrap();
        }
        assert_eq!(crate::os::version(&old).1, crate::os::version(&std::fs::metadata(&path).unwrap()).1);
        assert_refused(&path);
    }
    // A journal of an earlier release has size and time only.
    let journal = folder.at("a.h5.journal");
    let mut entry = vec![18, 1];
    let (size, seconds, nanoseconds) = crate::os::version(&old).1;
    entry.extend(
        [size, seconds.cast_unsigned(), nanoseconds.cast_unsigned()].iter().flat_map(|n| n.to_le_bytes()),
    );
    let sum = hyperchunk_format::checksum::lookup3(&entry);
    let framed = [&26_u32.to_le_bytes()[..], &sum.to_le_bytes(), &entry].concat();
    let bytes = std::fs::read(&journal).unwrap();
    let first = 16 + 8 + 50;
    assert_eq!((bytes[16], bytes[24]), (50, 18));
    std::fs::write(&journal, [&bytes[..16], &framed, &bytes[first..]].concat()).unwrap();
    recover(&path).unwrap();
    assert_eq!(names(&path), ["new"]);
}

#[test]
fn test_recover_where_nothing_was_written() {
    let folder = Folder::new("nothing");
    let path = folder.at("a.h5");
    whole(&path, &["old"]);
    drop(Writer::create(&path, &CreateOptions::default()).unwrap());
    std::fs::remove_file(folder.at("a.h5.partial")).unwrap();
    assert_eq!(recover(&path).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names(&path), ["old"]);
    assert!(!folder.at("a.h5.journal").exists());
}

#[test]
fn test_recover_in_swmr_mode() {
    let folder = Folder::new("swmr");
    let path = folder.at("a.h5");
    let start = || {
        let options = CreateOptions { oldest: LibVersion::V110, ..CreateOptions::default() };
        let file = Writer::create(&path, &options).unwrap();
        add(&file, "early");
        file.begin_swmr().unwrap();
        let id = file.object(b"/early").unwrap();
        let dataset = file.dataset(id).unwrap();
        dataset.resize(&[200]).unwrap();
        dataset.write(&Selection::All, &[8; 800]).unwrap();
        file.flush().unwrap();
        dataset.resize(&[300]).unwrap();
        dataset.write(&Selection::All, &[9; 1200]).unwrap();
    };
    start();
    let found = recover(&path).unwrap();
    assert_eq!((found.chunks, found.lost), (30, vec![]));
    std::fs::remove_file(&path).unwrap();
    start();
    // As `h5clear -s` does, after which other programs may change the structure.
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[11], 5);
    bytes[11] = 0;
    let sum = hyperchunk_format::checksum::lookup3(&bytes[..44]);
    bytes[44..48].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    assert_refused(&path);
    std::fs::remove_file(folder.at("a.h5.journal")).unwrap();
    std::fs::remove_file(&path).unwrap();
    start();
    whole(&folder.at("b.h5"), &["precious"]);
    std::fs::rename(folder.at("b.h5"), &path).unwrap();
    assert_refused(&path);
}

#[test]
fn test_recover_that_was_interrupted_after_its_commit() {
    let folder = Folder::new("again");
    let (path, journal) = (folder.at("a.h5"), folder.at("a.h5.journal"));
    killed(&path, 0);
    std::fs::hard_link(&journal, folder.at("kept")).unwrap();
    recover(&path).unwrap();
    assert!(!journal.exists());
    std::fs::rename(folder.at("kept"), &journal).unwrap();
    recover(&path).unwrap();
    assert_eq!(names(&path), ["early", "late"]);
}

#[test]
fn test_journal_of_an_earlier_release() {
    let folder = Folder::new("earlier");
    let (path, journal) = (folder.at("a.h5"), folder.at("a.h5.journal"));
    killed(&path, 0);
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[..16].copy_from_slice(journal::UNMARKED_MAGIC);
    std::fs::write(&journal, bytes).unwrap();
    recover(&path).unwrap();
    assert_eq!(names(&path), ["early", "late"]);
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn test_edits_of_a_file_that_waits_for_recovery() {
    let folder = Folder::new("edits");
    let (path, journal) = (folder.at("a.h5"), folder.at("a.h5.journal"));
    killed(&path, 0);
    let before = std::fs::read(&path).unwrap();
    let pack = || pack_in_place(&path, &OpenOptions::default(), PackOptions::default(), &|_| ());
    let edit = Writer::edit(&path, &CreateOptions::default()).map(drop).unwrap_err();
    for error in [edit, pack().map(drop).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        assert!(error.to_string().contains("hyperchunk recover"), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before);
    recover(&path).unwrap();
    // A file of the user's that has this name is no journal.
    std::fs::write(&journal, b"Dear diary, today I measured nothing.").unwrap();
    pack().unwrap();
    let file = Writer::edit(&path, &CreateOptions::default()).unwrap();
    note(&file, 3);
    file.close().unwrap();
    assert_eq!(names(&path), ["early", "late"]);
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn test_a_file_that_its_writer_has_committed_is_not_replaced() {
    let folder = Folder::new("replaced");
    let path = folder.at("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    add(&file, "early");
    file.flush().unwrap();
    add(&file, "late");
    let options = CreateOptions { journal: false, ..CreateOptions::default() };
    let errors = [
        Writer::create(&path, &options).map(drop).unwrap_err(),
        Output::create(&path, true).map(drop).unwrap_err(),
        pack_in_place(&path, &OpenOptions::default(), PackOptions::default(), &|_| ()).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    }
    file.close().unwrap();
    assert_eq!(names(&path), ["early", "late"]);
    // Readers do not keep it from being replaced.
    let reader = File::open(&path, &OpenOptions::default()).unwrap();
    Output::create(&path, true).unwrap().finish().unwrap();
    drop(reader);
}

#[test]
fn test_an_output_is_not_put_over_a_file_that_a_writer_began_meanwhile() {
    let folder = Folder::new("meanwhile");
    let path = folder.at("a.h5");
    let output = Output::create(&path, true).unwrap();
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    add(&file, "early");
    file.flush().unwrap();
    assert_eq!(output.finish().unwrap_err().kind(), ErrorKind::Locked);
    add(&file, "late");
    file.close().unwrap();
    assert_eq!(names(&path), ["early", "late"]);
}
