//! Stand-ins for what the format crate does not have yet. Each gives an error, never a value.
use crate::{Error, Result};
use hyperchunk_format::Image;
use hyperchunk_format::model::VirtualMapping;

pub(crate) mod virtual_layout {
    use super::*;
    pub(crate) fn mappings(_: Image<'_>, _: (u64, u32)) -> Result<Vec<VirtualMapping>> {
        Err(Error::unsupported("virtual datasets are not there yet"))
    }
}
