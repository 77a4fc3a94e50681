use super::*;
use crate::commit::external_links;
use crate::commit::{CommitOptions, commit};
use crate::tests::{Folder, options};
use crate::{Definition, LogWriter, Marker, store_folder};
use hyperchunk::{File, OpenOptions};
use hyperchunk_format::codec::{Target, preset};
use hyperchunk_format::model::{ByteOrder, Datatype, FillWhen, Layout};

fn number() -> Datatype {
    Datatype::integer(2, false, ByteOrder::Little)
}

fn values(count: u16, first: u16) -> Vec<u8> {
    (0..count).flat_map(|at| (first + at).to_le_bytes()).collect()
}

fn read(path: &Path, name: &str) -> Vec<u16> {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    assert!(dataset.external().is_empty() && Marker::from_external_files(dataset.external()).is_none());
    let mut bytes = vec![0; usize::try_from(dataset.elements().unwrap()).unwrap() * 2];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    bytes.chunks_exact(2).map(|two| u16::from_le_bytes(two.try_into().unwrap())).collect()
}

fn commits(path: &Path) {
    commit(path, &CommitOptions { sync: Sync::Never, ..CommitOptions::default() }).unwrap().unwrap();
}

fn packs(path: &Path, out: &Path, epoch: Option<u64>) -> PackReport {
    let options = PackOptions { epoch, sync: Sync::Never, replace: true, threads: 2 };
    pack(path, out, &options).unwrap()
}

fn model(dims: [usize; 2], fill: u16, boxes: &[([usize; 2], [usize; 2], u16)]) -> Vec<u16> {
    let mut all = vec![fill; dims[0] * dims[1]];
    for (start, count, first) in boxes {
        for row in 0..count[0] {
            for column in 0..count[1] {
                let value = first + u16::try_from(row * count[1] + column).unwrap();
                all[(start[0] + row) * dims[1] + start[1] + column] = value;
            }
        }
    }
    all
}

#[test]
#[cfg_attr(windows, ignore = "Wine does not replace files that are open")]
fn a_packed_store_needs_nothing_else() {
    let folder = Folder::new();
    let (path, out) = (folder.0.join("a.h5"), folder.0.join("out.h5"));
    let mut filled = Definition::new("/g/filled", number(), vec![20, 30]);
    filled.fill.value = FillWhen::User(vec![9, 0]);
    let plain = Definition::new("/g/plain", number(), vec![20, 30]);
    let empty = Definition::new("/empty", number(), vec![3]);
    let mut chunked = Definition::new("/chunked", number(), vec![20, 30]);
    chunked.max = vec![None, Some(30)];
    chunked.chunk = Some(vec![8, 7]);
    let target = Target { datatype: &number(), chunk: &[8, 7], fill: &FillWhen::Default };
    chunked.pipeline = preset("deflate", &target).unwrap();
    let raw = Definition { path: b"/raw".to_vec(), pipeline: Vec::new(), ..chunked.clone() };
    let growing =
        Definition { path: b"/growing".to_vec(), chunk: None, pipeline: Vec::new(), ..chunked.clone() };
    let boxes = [([0, 0], [10, 30], 1000), ([5, 3], [12, 20], 2000), ([19, 29], [1, 1], 7)];
    for (writer, (start, count, first)) in boxes.iter().enumerate() {
        let log = LogWriter::create(&path, &options()).unwrap();
        for definition in [&filled, &plain, &chunked, &raw, &growing] {
            let dataset = log.define(definition).unwrap();
            let start: Vec<u64> = start.iter().map(|start| *start as u64).collect();
            let size: Vec<u64> = count.iter().map(|count| *count as u64).collect();
            let bytes = values(u16::try_from(count[0] * count[1]).unwrap(), *first);
            log.write_box(dataset, &start, &size, &bytes).unwrap();
            if writer == 2 && definition.pipeline.len() > 1 {
                // A chunk over everything else, and one at the edge.
                for (offset, first) in [([8, 7], 3000), ([16, 28], 4000)] {
                    let mut encoder = Encoder::default();
                    let bytes = values(56, first);
                    let (encoded, mask) = encoder.encode(&definition.pipeline, &bytes).unwrap();
                    log.write_chunk(dataset, &offset, mask, encoded).unwrap();
                }
            }
        }
        log.define(&empty).unwrap();
        log.close().unwrap();
        // One epoch each, so that the order is known.
        commits(&path);
    }
    let packed = packs(&path, &out, None);
    assert_eq!((packed.datasets, packed.epoch), (6, 3));
    assert!(packed.copied > 1800 && packed.reencoded_bytes > 1000, "{packed:?}");
    std::fs::rename(store_folder(&path), folder.0.join("away")).unwrap();
    let all = |fill| model([20, 30], fill, &boxes);
    assert_eq!(read(&out, "g/filled"), all(9));
    for name in ["g/plain", "raw", "growing"] {
        assert_eq!(read(&out, name), all(0), "{name}");
    }
    assert_eq!(read(&out, "empty"), [0; 3]);
    let mut with = all(0);
    for (row, column, first) in [(8, 7, 3000), (16, 28, 4000)] {
        for at in 0..56 {
            let (row, column) = (row + at / 7, column + at % 7);
            if row < 20 && column < 30 {
                with[row * 30 + column] = first + u16::try_from(at).unwrap();
            }
        }
    }
    assert_eq!(read(&out, "chunked"), with);
    let file = File::open(&out, &OpenOptions::default()).unwrap();
    let get =
        |name: &str| file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    assert_eq!(
        get("chunked").dataspace(),
        &Dataspace::Simple { dims: vec![20, 30], max: vec![None, Some(30)] }
    );
    assert_eq!(get("chunked").chunked().unwrap().dims, [8, 7]);
    assert_eq!(get("chunked").pipeline().iter().map(|filter| filter.id).collect::<Vec<_>>(), [2, 1]);
    assert!(matches!(get("g/plain").layout(), Layout::Contiguous { address: Some(_), .. }));
    assert!(matches!(get("empty").layout(), Layout::Contiguous { address: None, .. }));
    std::fs::rename(folder.0.join("away"), store_folder(&path)).unwrap();
    // An earlier epoch.
    packs(&path, &out, Some(1));
    assert_eq!(read(&out, "chunked"), model([20, 30], 0, &boxes[..1]));
    assert_eq!(pack(&path, &path, &PackOptions::default()).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(pack(&out, &path, &PackOptions::default()).unwrap_err().kind(), ErrorKind::Exists);
    let other = folder.0.join("other.h5");
    assert_eq!(pack(&out, &other, &PackOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_cannot_be_linked_is_packed_all_the_same() {
    let folder = Folder::new();
    let (path, out) = (folder.0.join("a.h5"), folder.0.join("out.h5"));
    let definition = Definition::new("/columns", number(), vec![70_000, 2]);
    for column in 0..2_u64 {
        let log = LogWriter::create(&path, &options()).unwrap();
        let dataset = log.define(&definition).unwrap();
        let bytes: Vec<u8> = (0..70_000_u32).flat_map(|at| ((at % 60_000) as u16).to_le_bytes()).collect();
        // Not in order, so that no two pieces form one block.
        for part in (0..5000).rev() {
            let bytes = &bytes[part * 28..(part + 1) * 28];
            log.write_box(dataset, &[part as u64 * 14, column], &[14, 1], bytes).unwrap();
        }
        log.close().unwrap();
    }
    commits(&path);
    assert_eq!(external_links::LinkReport::examine(&path).unwrap().unlinked, 1);
    let packed = packs(&path, &out, None);
    assert_eq!((packed.copied, packed.reencoded_bytes), (0, 280_000));
    let expected: Vec<u16> = (0..140_000_u32).map(|at| (at / 2 % 60_000) as u16).collect();
    assert_eq!(read(&out, "columns"), expected);
}

#[test]
fn blocks_of_data_in_one_piece_are_whole_rows() {
    for (extent, size, expected) in [
        (&[100, 100][..], 8, &[100, 100][..]),
        (&[1 << 20, 1 << 10], 8, &[1 << 10, 1 << 10]),
        (&[4, 1 << 24], 8, &[1, 1 << 20]),
        (&[], 8, &[]),
        (&[5], 1 << 30, &[1]),
    ] {
        assert_eq!(block_extent(extent, size, BLOCK_BYTES), expected);
    }
}
