//! Dataspaces. Source: specification §IV.A.2.b.

/// Extent of a dataset or attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dataspace {
    /// No elements, and no shape.
    Null,
    /// One element, no dimensions.
    Scalar,
    /// Array of elements.
    Simple {
        /// Current extent, slowest dimension first.
        dims: Vec<u64>,
        /// Maximum extent, one entry a dimension; `None` if unlimited.
        max: Vec<Option<u64>>,
    },
}

impl Dataspace {
    /// Returns the current extent; empty for null and scalar spaces.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        match self {
            Self::Simple { dims, .. } => dims,
            _ => &[],
        }
    }

    /// Returns the number of elements; `None` if more than 2⁶⁴ - 1.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        match self {
            Self::Null => Some(0),
            Self::Scalar => Some(1),
            // A dimension of 0 takes precedence over an overflow.
            Self::Simple { dims, .. } if dims.contains(&0) => Some(0),
            Self::Simple { dims, .. } => {
                dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))
            }
        }
    }
}
