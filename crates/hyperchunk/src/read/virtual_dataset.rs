//! Data that lie in other datasets.

use super::output::Output;
use crate::dataset::{Dataset, Inner};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::select::Choice;

pub(crate) fn extent(inner: &Inner) -> Result<Vec<u64>> {
    Ok(inner.dims.clone())
}

pub(super) fn read(dataset: &Dataset, choice: &Choice, output: &Output<'_>) -> Result<()> {
    let _ = (dataset, choice, output);
    Err(Error::new(ErrorKind::Unsupported, "virtual datasets are not read yet"))
}
