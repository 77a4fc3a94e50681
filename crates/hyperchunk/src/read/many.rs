//! Batched reads: the file ranges that they need are planned and fetched together.

use super::fetch::Parts;
use super::output::Output;
use crate::dataset::Dataset;
use crate::io::rounds;
use crate::live::within_read;
use crate::{Error, Result};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::select::Selection;

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// The dataset.
    pub dataset: &'a Dataset,
    /// The selected elements.
    pub selection: &'a Selection,
    /// The conversion, and the size of a converted element; `None` for elements as they are stored.
    pub conversion: Option<(&'a Conversion, usize)>,
    /// The output buffer, of exactly the size of the selection.
    pub out: &'a mut [u8],
}

/// Reads as [`Dataset::read`] and [`Dataset::read_converted`] do. Reads of files over a network are planned
/// together and share round trips and requests.
///
/// # Errors
/// The first error; the buffers' contents are then undefined.
///
/// # Examples
/// ```
/// use hyperchunk::select::Selection;
/// use hyperchunk::{File, OpenOptions, Read, read_many};
///
/// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
/// let root = file.root()?.group()?;
/// let (count, steps) = (root.get("count")?.dataset()?, root.get("latest/steps")?.dataset()?);
/// let (mut one, mut two) = ([0; 4], [0; 10]);
/// let all = &Selection::All;
/// read_many(vec![
///     Read { dataset: &count, selection: all, conversion: None, out: &mut one },
///     Read { dataset: &steps, selection: all, conversion: None, out: &mut two },
/// ])?;
/// assert_eq!((one[0], two[2]), (24, 1));
/// # Ok::<(), hyperchunk::Error>(())
/// ```
pub fn read_many(reads: Vec<Read<'_>>) -> Result<()> {
    within_read(None, || read_all(reads))
}

fn read_all(reads: Vec<Read<'_>>) -> Result<()> {
    let mut outputs: Vec<(&Dataset, &Selection, Output<'_>)> = Vec::new();
    for read in reads {
        let conversion = read.conversion.filter(|(conversion, _)| !conversion.is_copy());
        let size = match read.conversion {
            Some((_, size)) => size,
            None => read.dataset.element_size()?,
        };
        let conversion = conversion.map(|(steps, _)| steps);
        if read.dataset.read_layout(read.selection, conversion, size, read.out) {
            read.dataset.unchanged(Ok(()))?;
            continue;
        }
        let output = read.dataset.output(read.selection, conversion, size, read.out)?;
        if let Some(output) = output {
            if read.dataset.is_remote() {
                outputs.push((read.dataset, read.selection, output));
            } else {
                read.dataset
                    .fill_output(read.selection, &output)
                    .map_err(|error| read.dataset.with_context(error))?;
            }
        }
    }
    let Some((first, ..)) = outputs.first() else { return Ok(()) };
    let options = first.object().file().options().clone();
    let bytes = outputs.iter().map(|(_, _, output)| output.bytes()).fold(0, u64::saturating_add);
    let threads = first.threads_for(bytes);
    let named = |dataset: &Dataset| {
        let dataset = dataset.clone();
        move |error: Error| dataset.with_context(error)
    };
    let prepared = rounds::together(&outputs, |(dataset, selection, _)| {
        dataset.prepare(selection).map_err(named(dataset))
    })?;
    prepared.into_iter().collect::<Result<()>>()?;
    let mut parts = Parts::default();
    for (dataset, selection, output) in &outputs {
        dataset.plan(selection, output, &mut parts).map_err(named(dataset))?;
    }
    parts.run(threads, options.limits.in_flight_bytes)
}
