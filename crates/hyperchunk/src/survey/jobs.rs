//! Jobs of a survey: each parses one structure and returns the next jobs.

use super::{ChunkedDataset, SurveyReport, SurveyedDataset};
use crate::Result;
use hyperchunk_format::model::{Class, Datatype, Layout, LinkStorage, LinkTarget, ObjectHeader, ObjectKind};
use hyperchunk_format::parse::global_heap::Collection;
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::parse::{
    attributes, chunk_index, group, object, object_header, reference, virtual_layout,
};
use hyperchunk_format::{Cursor, Image};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum nesting depth of sequences that are followed.
const MAX_DEPTH: usize = 8;
/// Maximum number of bytes of nested sequences. A bound is needed because any number of elements may refer to
/// the same heap object.
const MAX_NESTED_BYTES: usize = 64 << 20;

/// A structure to parse, with the number of the object that it belongs to.
pub(crate) enum Job {
    /// An object header and all that follows from it.
    Object(usize, u64),
    Links(usize, Arc<ObjectHeader>),
    Attributes(usize, Arc<ObjectHeader>),
    Dataset(usize, Arc<ObjectHeader>),
    Datatype(usize, Arc<ObjectHeader>),
    /// The mappings of a virtual dataset, by its number among the datasets.
    Mappings(usize, usize, (u64, u32)),
    /// All chunks of a dataset.
    Chunks(usize, Arc<DatasetHeader>),
    /// Heap objects that elements refer to.
    Sequence(usize, Sequence),
}

/// Elements that refer to objects of the global heap.
pub(crate) struct Sequence {
    datatype: Arc<Datatype>,
    data: Vec<u8>,
    depth: usize,
}

impl Job {
    /// Returns the first jobs of a survey of a whole file.
    pub(crate) fn root(found: &mut SurveyReport, address: u64) -> Vec<Self> {
        found.add_object(address, 0, b"").map(|object| Self::Object(object, address)).into_iter().collect()
    }

    pub(super) fn object(&self) -> usize {
        match self {
            Self::Object(object, _)
            | Self::Links(object, _)
            | Self::Attributes(object, _)
            | Self::Dataset(object, _)
            | Self::Datatype(object, _)
            | Self::Mappings(object, ..)
            | Self::Chunks(object, _)
            | Self::Sequence(object, _) => *object,
        }
    }

    /// Runs the job; returns the next ones.
    pub(super) fn run(&self, image: Image<'_>, found: &mut SurveyReport) -> Result<Vec<Self>> {
        match self {
            Self::Object(object, address) => {
                let header = Arc::new(object_header::parse(image, *address)?);
                let mut next = vec![Self::Attributes(*object, Arc::clone(&header))];
                next.extend(object::kind(&header).map(|kind| match kind {
                    ObjectKind::Group => Self::Links(*object, header),
                    ObjectKind::Dataset => Self::Dataset(*object, header),
                    ObjectKind::Datatype => Self::Datatype(*object, header),
                }));
                Ok(next)
            }
            Self::Links(object, header) => {
                let links = group::links(image, header)?;
                found.groups += 1;
                match group::storage(image, header)? {
                    Some(LinkStorage::SymbolTable { .. }) => found.symbol_tables += 1,
                    Some(LinkStorage::Dense { .. }) => found.dense += 1,
                    _ => {}
                }
                let mut next = Vec::new();
                for link in &links {
                    if let LinkTarget::Hard(address) = link.target
                        && let Some(met) = found.add_object(address, *object, link.name.as_bytes())
                    {
                        next.push(Self::Object(met, address));
                    }
                }
                Ok(next)
            }
            Self::Attributes(object, header) => {
                let all = attributes::each(image, header)?;
                found.attributes += all.len();
                let mut next = Vec::new();
                for (_, attribute) in all {
                    let attribute = match attribute {
                        Ok(attribute) => attribute,
                        Err(error) => {
                            found.errors.push((*object, error));
                            continue;
                        }
                    };
                    if attribute.datatype.has_vlen() || attribute.datatype.has_reference() {
                        let datatype = Arc::new(attribute.datatype);
                        let sequence = Sequence { datatype, data: attribute.data, depth: 0 };
                        next.push(Self::Sequence(*object, sequence));
                    }
                }
                Ok(next)
            }
            Self::Dataset(object, header) => {
                let header = object::dataset(image, header)?;
                let mut next = Vec::new();
                if let Layout::Virtual { heap: Some(heap) } = &header.layout {
                    next.push(Self::Mappings(*object, found.datasets.len(), *heap));
                }
                found.datasets.push(SurveyedDataset {
                    object: *object,
                    header: Arc::new(header),
                    mappings: None,
                });
                Ok(next)
            }
            Self::Datatype(_, header) => object::datatype(image, header).map(|_| Vec::new()),
            Self::Mappings(_, dataset, heap) => {
                let mappings = virtual_layout::mappings(image, *heap)?;
                if let Some(dataset) = found.datasets.get_mut(*dataset) {
                    dataset.mappings = Some(mappings);
                }
                Ok(Vec::new())
            }
            Self::Chunks(object, header) => {
                if let Some(dataset) = ChunkedDataset::new(header) {
                    let mut chunks = chunk_index::chunks(image, &dataset.map)?;
                    chunks.sort_by(|a, b| a.scaled.cmp(&b.scaled));
                    found.chunks.insert(*object, chunks);
                }
                Ok(Vec::new())
            }
            Self::Sequence(object, sequence) => {
                let next = sequence.run(image, found)?;
                Ok(next.into_iter().map(|next| Self::Sequence(*object, next)).collect())
            }
        }
    }
}

impl Sequence {
    fn run(&self, image: Image<'_>, found: &mut SurveyReport) -> Result<Vec<Self>> {
        let size = usize::try_from(self.datatype.size).unwrap_or(usize::MAX).max(1);
        let mut places = Vec::new();
        for element in self.data.chunks_exact(size) {
            handles(&self.datatype, element, &mut |datatype, bytes| places.push((datatype, bytes)));
        }
        // Objects of one collection are handled together.
        let mut collections: HashMap<u64, Vec<(u32, u32, &Datatype)>> = HashMap::new();
        let mut references = Vec::new();
        for (datatype, bytes) in places {
            if let Class::Reference(kind) = datatype.class {
                references.push((kind, bytes));
                continue;
            }
            let mut cursor = Cursor::new(bytes, "sequence", 0);
            let (count, address, index) = (cursor.u32()?, cursor.address(image.sizes)?, cursor.u32()?);
            if let Some(address) = address.filter(|address| count != 0 && *address != 0) {
                collections.entry(address).or_default().push((count, index, datatype));
            }
        }
        image.all(references, |(kind, bytes)| match reference::parse(image, kind, bytes) {
            Err(error) if error.is_need() => Err(error),
            _ => Ok(()),
        })?;
        found.collections.extend(collections.keys());
        let next = image.all(collections, |(address, objects)| {
            let collection = match Collection::open(image, address) {
                Ok(collection) => collection,
                Err(error) if error.is_need() => return Err(error),
                Err(_) => return Ok(Vec::new()),
            };
            let mut next = Vec::new();
            for (count, index, datatype) in objects {
                let Class::Vlen { base } = &datatype.class else { continue };
                let inner = base.has_vlen() || base.has_reference();
                let length = u64::from(count).saturating_mul(base.size);
                let bytes = usize::try_from(length)
                    .ok()
                    .and_then(|length| collection.object(index).and_then(|object| object.get(..length)));
                if let Some(bytes) =
                    bytes.filter(|_| inner && self.depth < MAX_DEPTH && found.nested < MAX_NESTED_BYTES)
                {
                    found.nested += bytes.len();
                    let datatype = Arc::new((**base).clone());
                    next.push(Self { datatype, data: bytes.to_vec(), depth: self.depth + 1 });
                }
            }
            Ok(next)
        })?;
        Ok(next.into_iter().flatten().collect())
    }
}

/// Calls `each` with the parts of an element that point into the global heap.
fn handles<'d, 'b>(datatype: &'d Datatype, element: &'b [u8], each: &mut dyn FnMut(&'d Datatype, &'b [u8])) {
    let part = |offset: u64, size: u64| {
        let start = usize::try_from(offset).ok()?;
        element.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    };
    match &datatype.class {
        Class::Vlen { .. } | Class::VlenString { .. } | Class::Reference(_) => each(datatype, element),
        Class::Compound { members } => {
            for member in members {
                if let Some(bytes) = part(member.offset, member.datatype.size) {
                    handles(&member.datatype, bytes, each);
                }
            }
        }
        Class::Array { base, .. } if base.has_vlen() || base.has_reference() => {
            let size = usize::try_from(base.size).unwrap_or(usize::MAX).max(1);
            element.chunks_exact(size).for_each(|bytes| handles(base, bytes, each));
        }
        _ => {}
    }
}
