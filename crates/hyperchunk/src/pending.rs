//! Stand-ins for what the format crate does not have yet. Each gives an error, never a value.
use crate::{Error, Result};
use hyperchunk_format::model::{Datatype, Reference, ReferenceKind, VirtualMapping};
use hyperchunk_format::{Image, View};
use std::borrow::Cow;

#[derive(Debug)]
pub struct Conversion;
impl Conversion {
    pub fn new(from: &Datatype, to: &Datatype) -> Result<Self> {
        if from == to { Ok(Self) } else { Err(Error::unsupported("conversions are not there yet")) }
    }
    pub fn is_copy(&self) -> bool {
        true
    }
    pub fn run(&self, from: &[u8], to: &mut [u8], _count: usize) -> Result<()> {
        to.copy_from_slice(from);
        Ok(())
    }
}
pub fn memory_type(from: &Datatype) -> Datatype {
    from.clone()
}
pub(crate) struct Overlay<V>(V);
impl<V: View> Overlay<V> {
    pub(crate) fn new(view: V, _patches: Vec<(u64, Vec<u8>)>) -> Self {
        Self(view)
    }
}
impl<V: View> View for Overlay<V> {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        self.0.bytes(offset, length)
    }
}
pub(crate) mod reference {
    use super::*;
    pub(crate) fn parse(_: ReferenceKind, _: &[u8], _: &Image<'_>) -> Result<Option<Reference>> {
        Err(Error::unsupported("references are not there yet"))
    }
}
pub(crate) mod virtual_layout {
    use super::*;
    pub(crate) fn mappings(_: Image<'_>, _: (u64, u32)) -> Result<Vec<VirtualMapping>> {
        Err(Error::unsupported("virtual datasets are not there yet"))
    }
}
