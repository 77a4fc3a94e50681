//! Parsers: bytes → values, one file a structure, named as in the specification.

pub mod attributes;
pub mod btree_v1;
pub mod btree_v2;
mod budget;
pub mod cache_image;
pub mod chunk_index;
mod dense_objects;
pub mod extents;
pub mod fractal_heap;
pub mod global_heap;
pub mod group;
pub mod local_heap;
pub mod message;
pub mod object;
pub mod object_header;
mod other_formats;
pub mod reference;
pub mod selection;
mod shared_messages;
pub mod superblock;
mod symbol_table;
#[cfg(test)]
pub(crate) mod testing;
pub mod virtual_layout;
#[cfg(test)]
mod walk;
