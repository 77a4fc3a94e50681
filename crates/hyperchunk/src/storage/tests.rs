use super::{BLOCKS, DatasetId, Marker};
use crate::io::Memory;
use crate::model::{ByteOrder, Dataspace, Datatype, ExternalFile};
use crate::pack::{Input, PackOptions, PackPlan};
use crate::select::Selection;
use crate::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
use crate::{ErrorKind, File, OpenOptions};
use hyperchunk_format::model::{Name, SourceName, StoredSelection, VirtualMapping};
use std::sync::Arc;

const MESSAGE: &str = "register hyperchunk-store";

/// Makes a file with one dataset of four bytes.
fn file_with(layout: NewLayout) -> Arc<[u8]> {
    let sink = Arc::new(MemorySink::default());
    let writer = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
    let space = Dataspace::Simple { dims: vec![4], max: vec![Some(4)] };
    let options = DatasetOptions::new(Datatype::integer(1, false, ByteOrder::Little), space);
    writer.create_group(NodeId::ROOT, BLOCKS, false).unwrap();
    writer.create_dataset(NodeId::ROOT, b"x", options.with_layout(layout)).unwrap();
    writer.close().unwrap();
    sink.bytes().into()
}

fn marker() -> Marker {
    Marker { dataset: DatasetId([7; 16]), epoch: 3 }
}

/// A virtual dataset over a block of a store.
fn virtual_layout() -> NewLayout {
    let name = |text: &str| SourceName { parts: vec![Name::from(text)] };
    let (file, dataset) = (name("."), name(&marker().block(0)));
    let (source, target) = (StoredSelection::All, StoredSelection::All);
    NewLayout::Virtual(vec![VirtualMapping { file, dataset, source, target }])
}

#[test]
fn test_reads_without_storage_are_errors() {
    let data = ExternalFile { name: "/etc/hostname".into(), offset: 0, size: Some(4) };
    for layout in [
        NewLayout::External(vec![marker().to_external_file(false)]),
        NewLayout::External(vec![data, marker().to_external_file(true)]),
        virtual_layout(),
    ] {
        let source = Arc::new(Memory::new(file_with(layout)));
        let file = File::from_source(source, Some("/nowhere/f.h5".into()), &OpenOptions::default()).unwrap();
        let dataset = file.root().unwrap().group().unwrap().get(b"x").unwrap().dataset().unwrap();
        assert_eq!(dataset.store(), Some(marker()));
        assert_eq!(dataset.pieces(), None);
        let mut bytes = [9; 4];
        let error = dataset.read(&Selection::All, &mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains(MESSAGE) && text.contains("object x") && text.contains("f.h5"), "{text}");
        assert_eq!(bytes, [9; 4]);
        assert!(dataset.chunks().is_err());
        assert!(dataset.stretches(0..4).unwrap().iter().all(|stretch| stretch.place.is_none()));
        assert!(crate::digest::dataset(&dataset, 1 << 20).is_err());
        for embed in [false, true] {
            let options = PackOptions { embed, ..PackOptions::default() };
            let input = Input { file: file.clone(), into: String::new() };
            let path = std::env::temp_dir().join(format!("hyperchunk-storage-{}.h5", std::process::id()));
            let packed = PackPlan::new(vec![input], options).and_then(|plan| plan.write(&path, &|_| {}));
            drop(std::fs::remove_file(&path));
            assert!(packed.is_err() || !embed && !dataset.external().is_empty());
        }
    }
}

#[test]
fn test_an_epoch_without_storage_is_an_error() {
    let error = File::open_epoch("/nowhere/f.h5", 1).unwrap_err();
    assert!(error.to_string().contains(MESSAGE), "{error}");
}
