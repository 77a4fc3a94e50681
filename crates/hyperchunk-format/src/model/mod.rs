//! Contents of a file as plain values, without I/O.

mod attribute;
mod dataspace;
mod datatype;
mod fill_value;
mod filter;
mod layout;
mod link;
mod name;
mod object;
mod reference;
mod selection;
mod superblock;

pub use attribute::Attribute;
pub use dataspace::Dataspace;
pub use datatype::{
    ByteOrder, CharacterSet, Class, Datatype, EnumMember, Float, Member, Normalization, ReferenceKind,
    StringPadding,
};
pub use fill_value::{AllocationTime, FillTime, FillValue, FillWhen};
pub use filter::{Filter, Pipeline};
pub use layout::{Chunk, ChunkIndex, Chunked, ExternalFile, Layout, SourceName, VirtualMapping};
pub use link::{Link, LinkTarget};
pub use name::Name;
pub use object::{LinkStorage, ObjectHeader, ObjectKind, Part, RawMessage, Times};
pub use reference::Reference;
pub use selection::{Hyperslab, RegionSelection, StoredSelection};
pub use superblock::{CacheImage, SharedMessageTable, Sizes, Superblock};
