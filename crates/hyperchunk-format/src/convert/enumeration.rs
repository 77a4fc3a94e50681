//! Conversion of enumerations by name.

use crate::model::EnumMember;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Mapping of the values of one enumeration to the values of another one with the same names.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// Target value by the bytes of the source value.
    values: HashMap<Vec<u8>, Vec<u8>>,
    from_size: usize,
}

impl Names {
    /// Maps the source's values to the target's values with the same names.
    ///
    /// # Errors
    /// Conversion if the target lacks a name of the source.
    pub(super) fn new(
        from: &[EnumMember],
        from_size: usize,
        to: &[EnumMember],
        to_size: usize,
    ) -> Result<Self> {
        let targets: HashMap<&[u8], &EnumMember> =
            to.iter().rev().map(|member| (member.name.as_bytes(), member)).collect();
        let mut values = HashMap::with_capacity(from.len());
        for member in from {
            let target = targets.get(member.name.as_bytes()).filter(|target| target.value.len() == to_size);
            let Some(target) = target.filter(|_| member.value.len() == from_size) else {
                let message = format!("the target enumeration has no value for the name {}", member.name);
                return Err(Error::new(ErrorKind::Conversion, message));
            };
            values.entry(member.value.clone()).or_insert_with(|| target.value.clone());
        }
        Ok(Self { values, from_size })
    }

    /// Converts one element. A value without a name becomes all ones, as in libhdf5.
    pub(super) fn convert(&self, from: &[u8], to: &mut [u8]) {
        match from.get(..self.from_size).and_then(|from| self.values.get(from)) {
            Some(value) if value.len() == to.len() => to.copy_from_slice(value),
            _ => to.fill(0xFF),
        }
    }
}
