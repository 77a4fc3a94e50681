//! What never-written elements read as. Source: specification §IV.A.2.e and f, "Fill Value".

/// What never-written elements are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FillValue {
    /// Which value.
    pub value: FillWhen,
    /// When space for the data is allocated.
    pub allocation: AllocationTime,
    /// When the value is written to it.
    pub time: FillTime,
}

/// Which value never-written elements have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FillWhen {
    /// The library's: zeros.
    #[default]
    Default,
    /// None was defined. They read as zeros.
    Undefined,
    /// An element of the dataset's datatype, as stored.
    User(Vec<u8>),
}

/// When space for the data is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocationTime {
    /// Chosen by the layout.
    #[default]
    Default,
    /// At creation.
    Early,
    /// At the first write.
    Late,
    /// As chunks are written.
    Incremental,
}

/// When the fill value is written to allocated space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FillTime {
    /// At allocation.
    Allocation,
    /// Never.
    Never,
    /// At allocation, if the user defined one.
    #[default]
    IfSet,
}
