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
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::model::Dataspace;
    ///
    /// assert!(Dataspace::Scalar.dims().is_empty());
    /// ```
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        match self {
            Self::Simple { dims, .. } => dims,
            _ => &[],
        }
    }

    /// Returns the number of elements; `None` if more than 2⁶⁴ - 1.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk_format::model::Dataspace;
    ///
    /// let space = Dataspace::Simple { dims: vec![3, 5], max: vec![Some(3), None] };
    /// assert_eq!(space.elements(), Some(15));
    /// assert_eq!(Dataspace::Scalar.elements(), Some(1));
    /// assert_eq!(Dataspace::Null.elements(), Some(0));
    /// ```
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
