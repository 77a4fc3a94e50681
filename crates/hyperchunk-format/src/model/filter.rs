//! Filter pipelines. Source: specification §IV.A.2.l, "Filter Pipeline".

use super::Name;

/// A filter of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Its registered number.
    pub id: u16,
    /// Whether writers may leave it out for a chunk where it fails.
    pub optional: bool,
    /// The name that the writer gave it.
    pub name: Option<Name>,
    /// Its client data.
    pub parameters: Vec<u32>,
}

/// Filters in the order in which a writer applies them.
pub type Pipeline = Vec<Filter>;
