//! Client data of nbit: the datatype as a tree in depth-first order. Source: HDF5's H5Znbit.c.

use super::{Target, fit};
use crate::model::{ByteOrder, Class, Datatype, Member};
use crate::{Error, Result};

/// Maximum number of parameters.
const MAX_PARAMETERS: usize = 4096;

/// Classes of nodes.
const NUMBER: u32 = 1;
const ARRAY: u32 = 2;
const COMPOUND: u32 = 3;
const OTHER: u32 = 4;

pub(super) fn parameters(target: &Target<'_>) -> Result<Vec<u32>> {
    let elements = fit(target.elements()?, "elements in a chunk")?;
    let mut tree = Tree { parameters: vec![0, 1, elements], padded: false };
    match target.datatype.class {
        Class::Integer { .. } | Class::Float(_) | Class::Array { .. } | Class::Compound { .. } => {
            tree.node(target.datatype)?;
        }
        // Other datatypes are not described.
        _ => {}
    }
    let Tree { mut parameters, padded } = tree;
    if parameters.len() > MAX_PARAMETERS {
        return Err(Error::limit(format!("{} parameters, more than {MAX_PARAMETERS}", parameters.len())));
    }
    let count = fit(parameters.len() as u64, "parameters")?;
    // Without padding, the filter has nothing to do.
    if let Some([first, second]) = parameters.first_chunk_mut() {
        (*first, *second) = (count, (!padded).into());
    }
    Ok(parameters)
}

struct Tree {
    parameters: Vec<u32>,
    /// True if a number has insignificant bits.
    padded: bool,
}

impl Tree {
    fn node(&mut self, datatype: &Datatype) -> Result<()> {
        let size = fit(datatype.size, "bytes in a type")?;
        match &datatype.class {
            Class::Integer { order, offset, precision, .. } => self.number(size, *order, *offset, *precision),
            Class::Float(float) => self.number(size, float.order, float.offset, float.precision),
            Class::Array { base, .. } => {
                self.parameters.extend([ARRAY, size]);
                match base.class {
                    Class::Vlen { .. } | Class::VlenString { .. } => {
                        Err(Error::unsupported("arrays of elements of variable length"))
                    }
                    _ => self.node(base),
                }
            }
            Class::Compound { members } => self.compound(size, members),
            _ => {
                self.parameters.extend([OTHER, size]);
                Ok(())
            }
        }
    }

    fn number(&mut self, size: u32, order: ByteOrder, offset: u16, precision: u16) -> Result<()> {
        let order = match order {
            ByteOrder::Little => 0,
            ByteOrder::Big => 1,
            ByteOrder::Vax => return Err(Error::unsupported("numbers in VAX byte order")),
        };
        self.parameters.extend([NUMBER, size, order, precision.into(), offset.into()]);
        self.padded |= offset != 0 || u32::from(precision) != size.saturating_mul(8);
        Ok(())
    }

    fn compound(&mut self, size: u32, members: &[Member]) -> Result<()> {
        self.parameters.extend([COMPOUND, size, fit(members.len() as u64, "members")?]);
        for (number, member) in members.iter().enumerate() {
            let offset = fit(member.offset, "bytes in a type")?;
            self.parameters.push(offset);
            match member.datatype.class {
                // Their size is the distance to the next member.
                Class::Vlen { .. } | Class::VlenString { .. } => {
                    let next = members.get(number.saturating_add(1)).map(|next| next.offset);
                    let next = next.map_or(Ok(size), |next| fit(next, "bytes in a type"))?;
                    let length = next.checked_sub(offset).filter(|length| *length > 0);
                    let message = "elements of variable length before others that were declared later";
                    self.parameters.extend([OTHER, length.ok_or_else(|| Error::unsupported(message))?]);
                }
                _ => self.node(&member.datatype)?,
            }
            if number.saturating_add(1) < members.len() && rewinds(&member.datatype) {
                let message =
                    "members after an array of arrays or compounds, which libhdf5 loses with this filter";
                return Err(Error::unsupported(message));
            }
        }
        Ok(())
    }
}

/// True if libhdf5 continues at the wrong position after this datatype.
fn rewinds(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::Array { base, .. } => matches!(base.class, Class::Array { .. } | Class::Compound { .. }),
        Class::Compound { members } => members.last().is_some_and(|member| rewinds(&member.datatype)),
        _ => false,
    }
}
