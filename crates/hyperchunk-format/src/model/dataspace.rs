//! Dataspaces. Source: specification §IV.A.2.b.

/// The extent of a dataset or attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dataspace {
    /// No elements, and no shape.
    Null,
    /// One element, no dimensions.
    Scalar,
    /// A grid of elements.
    Simple {
        /// The current extent, slowest dimension first.
        dims: Vec<u64>,
        /// The largest extent it may get; `None` for no bound. As long as `dims`.
        max: Vec<Option<u64>>,
    },
}

impl Dataspace {
    /// The current extent; empty for null and scalar spaces.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        match self {
            Self::Simple { dims, .. } => dims,
            _ => &[],
        }
    }

    /// How many elements there are; `None` if more than 2⁶⁴ - 1.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        match self {
            Self::Null => Some(0),
            Self::Scalar => Some(1),
            // A 0 anywhere wins over an overflow.
            Self::Simple { dims, .. } if dims.contains(&0) => Some(0),
            Self::Simple { dims, .. } => {
                dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))
            }
        }
    }
}
