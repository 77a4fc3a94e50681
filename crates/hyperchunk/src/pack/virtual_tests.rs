//! Copies of the values of virtual datasets whose sources are missing.

use super::*;
use crate::slabs::Steps;
use crate::write::{DatasetOptions, LinkPlace, NewLayout, NodeId, Writer};
use crate::{ErrorKind, OpenOptions};
use hyperchunk_format::model::{
    ByteOrder, Dataspace, Datatype, Hyperslab, Name, SourceName, StoredSelection, VirtualMapping,
};
use hyperchunk_format::select::Selection;
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    /// Makes a folder of this name with `owner.h5`, whose dataset `v` has these mappings, and is read by the virtual
    /// dataset `v` of `outer.h5`.
    fn new(name: &str, dims: Vec<u64>, max: Vec<Option<u64>>, mappings: Vec<VirtualMapping>) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-embed-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        let all = |count| StoredSelection::Regular(vec![slab(0, count)]);
        let through = vec![mapping("owner.h5", "v", all(8), all(8))];
        for (file, mappings, dims, max) in
            [("owner.h5", mappings, dims, max), ("outer.h5", through, vec![8], vec![Some(8)])]
        {
            let file = Writer::create(folder.at(file), &CreateOptions::default()).unwrap();
            let options = DatasetOptions::new(byte(), Dataspace::Simple { dims, max });
            let options = options.with_layout(NewLayout::Virtual(mappings));
            file.create_dataset(NodeId::ROOT, b"v", options).unwrap();
            file.close().unwrap();
        }
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a source of four elements.
    fn make_source(&self, name: &str, path: &str) {
        let file = Writer::create(self.at(name), &CreateOptions::default()).unwrap();
        let options = DatasetOptions::new(byte(), Dataspace::Simple { dims: vec![4], max: vec![Some(4)] });
        let dataset = file.create_dataset(NodeId::ROOT, path.as_bytes(), options).unwrap();
        dataset.write(&Selection::All, &[7; 4]).unwrap();
        file.close().unwrap();
    }

    fn open(&self, name: &str) -> File {
        File::open(self.at(name), &OpenOptions::default()).unwrap()
    }

    /// Packs a file with the data of others.
    fn embed(&self, name: &str) -> Result<PackReport> {
        let input = Input { file: self.open(name), into: String::new() };
        let options = PackOptions { embed: true, replace: true, ..PackOptions::default() };
        PackPlan::new(vec![input], options)?.write(&self.at("new.h5"), &|_| ())
    }

    /// Extracts elements of the virtual dataset.
    fn extract(&self, name: &str, start: u64, count: u64) -> Result<ExtractReport> {
        let dataset = self.open(name).root()?.group()?.get(b"v")?.dataset()?;
        let part = vec![(Steps { start, step: 1, count }, true)];
        extract(&dataset, &part, self.at("part.h5"), true, 1 << 20, &mut |_| ())
    }

    /// Copies the virtual dataset into a new file.
    fn copy(&self, name: &str) -> Result<ObjectsReport> {
        let object = self.open(name).root()?.group()?.get(b"v")?;
        let writer = Writer::create_in(
            Arc::new(crate::write::MemorySink::default()),
            None,
            &CreateOptions::default(),
        )?;
        let place: LinkPlace = writer.place(b"copy", false)?;
        copy_object(&object, &writer, &place, &PackOptions { embed: true, ..PackOptions::default() }, false)
    }

    /// Checks that copies of the values fail, with an error that names this source, and make no file.
    #[track_caller]
    fn check_missing(&self, source: &str) {
        for file in ["owner.h5", "outer.h5"] {
            let failed = [
                self.embed(file).map(drop),
                self.extract(file, 0, 8).map(drop),
                self.copy(file).map(drop),
                pack_in_place(
                    &self.at(file),
                    &OpenOptions::default(),
                    PackOptions { embed: true, ..PackOptions::default() },
                    &|_| (),
                )
                .map(drop),
            ];
            for error in failed.map(Result::unwrap_err) {
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::NotFound, "{text}");
                assert!(
                    text.contains(source) && text.contains("object ") && text.contains("owner.h5"),
                    "{text}"
                );
            }
        }
        assert!(!self.at("new.h5").exists() && !self.at("part.h5").exists());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn byte() -> Datatype {
    Datatype::integer(1, false, ByteOrder::Little)
}

fn slab(start: u64, block: u64) -> Hyperslab {
    Hyperslab { start, stride: 1, count: Some(1), block: Some(block) }
}

fn name(text: &str) -> SourceName {
    SourceName { parts: text.split("%b").map(Name::from).collect() }
}

fn mapping(file: &str, dataset: &str, source: StoredSelection, target: StoredSelection) -> VirtualMapping {
    VirtualMapping { file: name(file), dataset: name(dataset), source, target }
}

#[test]
fn test_copied_values_of_a_virtual_dataset_need_its_sources() {
    let part = |start| StoredSelection::Regular(vec![slab(start, 4)]);
    let mappings = vec![mapping("one.h5", "x", part(0), part(0)), mapping("two.h5", "x", part(0), part(4))];
    let folder = Folder::new("missing", vec![8], vec![Some(8)], mappings);
    folder.make_source("one.h5", "x");
    folder.check_missing("source file two.h5");
    // A read takes the fill value.
    let mut bytes = [1; 8];
    let read = folder.open("outer.h5").root().unwrap().group().unwrap().get(b"v").unwrap().dataset().unwrap();
    read.read(&Selection::All, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7, 7, 7, 0, 0, 0, 0]);
    // A part that lacks no source can be copied.
    for file in ["owner.h5", "outer.h5"] {
        folder.extract(file, 1, 3).unwrap();
        assert!(folder.extract(file, 1, 4).is_err());
        std::fs::remove_file(folder.at("part.h5")).unwrap();
    }
    folder.make_source("two.h5", "other");
    folder.check_missing("dataset x in its source file two.h5");
    folder.make_source("two.h5", "x");
    for file in ["owner.h5", "outer.h5"] {
        folder.embed(file).unwrap();
        folder.extract(file, 0, 8).unwrap();
        folder.copy(file).unwrap();
    }
    // A copy as a virtual dataset needs no source.
    std::fs::remove_file(folder.at("one.h5")).unwrap();
    let input = Input { file: folder.open("owner.h5"), into: String::new() };
    let options = PackOptions { replace: true, ..PackOptions::default() };
    PackPlan::new(vec![input], options).unwrap().write(&folder.at("new.h5"), &|_| ()).unwrap();
}

#[test]
fn test_numbered_sources_of_a_copied_virtual_dataset_end_at_the_first_missing_one() {
    let target =
        StoredSelection::Regular(vec![Hyperslab { start: 0, stride: 4, count: None, block: Some(4) }]);
    let source = StoredSelection::Regular(vec![slab(0, 4)]);
    let folder =
        Folder::new("numbered", vec![0], vec![None], vec![mapping("part%b.h5", "x", source, target)]);
    for number in [0, 1, 3] {
        folder.make_source(&format!("part{number}.h5"), "x");
    }
    folder.embed("owner.h5").unwrap();
    let new = folder.open("new.h5").root().unwrap().group().unwrap().get(b"v").unwrap().dataset().unwrap();
    assert_eq!(new.dims(), [8]);
}
