//! Stand-ins for what the format crate does not have yet. Each gives an error, never a value.
use crate::{Error, Result};
use hyperchunk_format::Image;
use hyperchunk_format::model::{Datatype, VirtualMapping};

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
pub(crate) mod virtual_layout {
    use super::*;
    pub(crate) fn mappings(_: Image<'_>, _: (u64, u32)) -> Result<Vec<VirtualMapping>> {
        Err(Error::unsupported("virtual datasets are not there yet"))
    }
}
