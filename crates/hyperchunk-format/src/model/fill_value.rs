//! Fill values: the values of elements never written. Source: specification §IV.A.2.e and f, "Fill Value".

/// Fill value of a dataset, with its times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FillValue {
    /// Value.
    pub value: FillWhen,
    /// Time at which space for the data is allocated.
    pub allocation: AllocationTime,
    /// Time at which the value is written to the allocated space.
    pub time: FillTime,
}

/// Value of elements never written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FillWhen {
    /// The library's default: zeros.
    #[default]
    Default,
    /// None defined; elements read as zeros.
    Undefined,
    /// Element of the dataset's datatype, as stored.
    User(Vec<u8>),
}

/// Space allocation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocationTime {
    /// Determined by the layout.
    #[default]
    Default,
    /// At creation.
    Early,
    /// At the first write.
    Late,
    /// As chunks are written.
    Incremental,
}

/// Fill value write time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FillTime {
    /// At allocation.
    Allocation,
    /// Never.
    Never,
    /// At allocation, if the user defined a fill value.
    #[default]
    IfSet,
}
