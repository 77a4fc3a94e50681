//! Filter pipelines. Source: specification §IV.A.2.l, "Filter Pipeline".

use super::Name;

/// Filter of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Registered filter identifier.
    pub id: u16,
    /// True if writers may skip the filter for a chunk on which it fails.
    pub optional: bool,
    /// Name given by the writer.
    pub name: Option<Name>,
    /// Client data.
    pub parameters: Vec<u32>,
}

/// Filters in the order in which a writer applies them.
pub type Pipeline = Vec<Filter>;
