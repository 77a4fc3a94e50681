//! Opening of a file whose superblock may be damaged.

use crate::io::{FileView, Source};
use crate::{File, Object, OpenOptions, Result};
use hyperchunk_format::Fuel;
use hyperchunk_format::model::ObjectKind;
use hyperchunk_format::parse::superblock::{self, Candidates};
use std::path::Path;
use std::sync::Arc;

/// A damaged file, open for reading.
pub(super) struct DamagedFile {
    pub(super) file: File,
    /// The root group, if its header is undamaged.
    pub(super) root: Option<Object>,
    pub(super) damage: Vec<String>,
    /// True if the file's size differs from the one in its superblock, or the superblock marks it as open for
    /// writing: its writer did not close it.
    pub(super) unclosed: bool,
}

/// Opens a file with the first candidate superblock whose root is a group; otherwise with the first candidate
/// whose root cannot be read, or a guessed superblock.
pub(super) fn open(source: &Arc<dyn Source>, path: &Path, options: &OpenOptions) -> Result<DamagedFile> {
    let view = FileView::new(source);
    let fuel = Fuel::new(&options.limits);
    let found = superblock::candidates(&view, &options.limits, &fuel);
    let Candidates { superblocks, damage } = found.map_err(|error| error.file(path.display()))?;
    let mut damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    let stored = superblock::parse(&view, &options.limits, &fuel).ok();
    let unclosed = stored
        .is_none_or(|stored| stored.flags != 0 || stored.base.saturating_add(stored.end) != source.size());
    let mut first = None;
    for superblock in superblocks {
        let file = File::assume(Arc::clone(source), path, options, superblock)?;
        match file.root() {
            Err(error) if error.is_of_reading() => return Err(error),
            Ok(root) if root.kind() == ObjectKind::Group => {
                if let Some((_, error)) = first {
                    damage.push(error);
                }
                return Ok(DamagedFile { file, root: Some(root), damage, unclosed });
            }
            Ok(_) => first = first.or(Some((file, "root group: the object is not a group".to_owned()))),
            Err(error) => first = first.or_else(|| Some((file, format!("root group: {error}")))),
        }
    }
    match first {
        Some((file, error)) => {
            damage.push(error);
            Ok(DamagedFile { file, root: None, damage, unclosed })
        }
        None => {
            let sizes = hyperchunk_format::Sizes { address: 8, length: 8 };
            let superblock = superblock::guess(0, 0, sizes, source.size(), u64::MAX);
            let file = File::assume(Arc::clone(source), path, options, superblock)?;
            Ok(DamagedFile { file, root: None, damage, unclosed })
        }
    }
}
