//! `hyperchunk dump`.

mod ddl;
mod decimal;
mod digest;
pub(crate) mod json;
pub(crate) mod value;
mod wide_float;

use crate::Outcome;
use crate::progress;
use crate::source::{SourceOptions, Target};
use clap::Args;
use hyperchunk::model::{Dataspace, ObjectKind};
use hyperchunk::select::Selection;
use hyperchunk::slabs::{Steps, slabs, split_into_slabs};
use hyperchunk::{Dataset, Error, File, Object};
use value::{Printer, Style};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// FILE or FILE:/OBJECT; FILE may be a URL.
    target: String,
    /// Leave out the values of datasets; attributes' values are shown.
    #[arg(short = 'H', long, visible_short_alias = 'A', visible_alias = "onlyattr")]
    header: bool,
    /// Print only a part of a dataset: for each axis an index or START:STOP:STEP, as in NumPy; or
    /// START;STRIDE;COUNT;BLOCK of all axes, as in h5dump ("0,0;1,1;2,3;1,1").
    #[arg(short, long, value_name = "SLICES", allow_hyphen_values = true, conflicts_with_all = ["header", "digest"])]
    slice: Option<String>,
    /// Print JSON.
    #[arg(long, conflicts_with = "digest")]
    json: bool,
    /// Print SHA-256 digests of all values as JSON, to compare files and readers.
    #[arg(long, conflicts_with = "header")]
    digest: bool,
    /// Print an error instead of the values of larger datasets.
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20)]
    max_bytes: u64,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Examples:
  hyperchunk dump -H scene.h5
  hyperchunk dump -s '0:2, ::10' scene.h5:/bands/red
  hyperchunk dump --json scene.h5:/bands/red
  hyperchunk dump --digest scene.h5";

/// Number of bytes read at a time.
const READ_BYTES: u64 = 1 << 20;
/// Number of bytes converted to text at a time; the text takes many times the space.
const PRINT_BYTES: usize = 16 << 10;

/// Values to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Values of attributes, and of datasets of up to this number of bytes.
    UpTo(u64),
    /// Values of attributes only.
    Attributes,
}

/// Object to print, and the parts of it.
pub(crate) struct DumpRequest<'a> {
    pub(crate) target: &'a str,
    pub(crate) file: &'a File,
    pub(crate) object: &'a Object,
    pub(crate) path: &'a [u8],
    pub(crate) values: Values,
    /// Part of the dataset; `None` for the whole.
    pub(crate) part: Option<Vec<Steps>>,
    /// Whether to descend into groups below the first.
    pub(crate) recursive: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Target { file, object, path } = arguments.source.open_object(&arguments.target)?;
    let values = if arguments.header { Values::Attributes } else { Values::UpTo(arguments.max_bytes) };
    let part = arguments.slice.as_deref().map(|slice| parse_part(slice, &object)).transpose()?;
    let target = &arguments.target;
    let request =
        DumpRequest { target, file: &file, object: &object, path: &path, values, part, recursive: true };
    let failures = if arguments.digest {
        digest::print(&request, arguments.max_bytes)?
    } else if arguments.json {
        json::print(&request)?
    } else {
        ddl::print(&request)?
    };
    if failures > 0 {
        let what = progress::count(failures as u64, "object or attribute", "objects or attributes");
        Err(format!("{what} could not be read").into())
    } else {
        Ok(())
    }
}

/// Parses slices of a dataset.
fn parse_part(text: &str, object: &Object) -> Result<Vec<Steps>, Box<dyn std::error::Error>> {
    if object.kind() != ObjectKind::Dataset {
        return Err("cannot slice: expected one dataset, FILE:/DATASET".into());
    }
    let dataset = object.dataset()?;
    if text.contains(';') {
        return Ok(parse_hyperslab(text, dataset.dims())?);
    }
    Ok(crate::get::parse_slices(text, dataset.dims())?.into_iter().map(|(steps, _)| steps).collect())
}

/// Parses START;STRIDE;COUNT;BLOCK, each a list with a number for each axis. The default of START is 0, of
/// STRIDE and BLOCK 1, and of COUNT as many as fit.
fn parse_hyperslab(text: &str, dims: &[u64]) -> Result<Vec<Steps>, String> {
    let mut lists = Vec::new();
    for list in text.split(';') {
        let numbers = list.split(',').map(str::trim).filter(|number| !number.is_empty());
        let numbers =
            numbers.map(|number| number.parse().map_err(|_| format!("expected a number, got `{number}`")));
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        if !numbers.is_empty() && numbers.len() != dims.len() {
            return Err(format!("expected {} numbers, one for each dimension, got `{list}`", dims.len()));
        }
        lists.push(numbers);
    }
    if lists.len() > 4 {
        return Err(format!("expected START;STRIDE;COUNT;BLOCK, got `{text}`"));
    }
    let number = |list: usize, axis: usize| lists.get(list).and_then(|numbers| numbers.get(axis)).copied();
    let mut axes = Vec::with_capacity(dims.len());
    for (axis, dim) in dims.iter().enumerate() {
        let (start, stride) = (number(0, axis).unwrap_or(0), number(1, axis).unwrap_or(1));
        let block = number(3, axis).unwrap_or(1);
        if stride == 0 || block == 0 || block > stride && number(2, axis).is_some_and(|count| count > 1) {
            return Err(format!(
                "axis {axis}: a stride of {stride} and a block of {block} select nothing, or overlap"
            ));
        }
        let room = dim
            .checked_sub(start)
            .ok_or_else(|| format!("axis {axis}: the slice exceeds the extent, {dim}"))?;
        let count = number(2, axis).unwrap_or_else(|| room / stride.max(block));
        let steps = match (count, block) {
            (_, 1) => Steps { start, step: stride, count },
            (1, _) => Steps { start, step: 1, count: block },
            _ if block == stride => Steps { start, step: 1, count: count.saturating_mul(block) },
            _ => {
                return Err(format!(
                    "axis {axis}: cannot read blocks of {block} with gaps; read one block at a time"
                ));
            }
        };
        let last =
            steps.count.saturating_sub(1).checked_mul(steps.step).and_then(|last| last.checked_add(start));
        if steps.count > 0 && last.is_none_or(|last| last >= *dim) {
            return Err(format!("axis {axis}: the slice exceeds the extent, {dim}"));
        }
        axes.push(steps);
    }
    Ok(axes)
}

/// Calls `each` with the elements of a dataset as texts, a part at a time, in row-major order.
fn each_slab(
    dataset: &Dataset,
    style: Style,
    (max_bytes, part): (u64, Option<&[Steps]>),
    each: &mut dyn FnMut(&[String]),
) -> Result<(), Error> {
    if *dataset.dataspace() == Dataspace::Null {
        return Ok(());
    }
    let size = dataset.datatype().size;
    let count = match part {
        Some(axes) => axes.iter().try_fold(1_u64, |product, axis| product.checked_mul(axis.count)),
        None => Some(dataset.elements()?),
    };
    if count.and_then(|count| count.checked_mul(size)).is_none_or(|bytes| bytes > max_bytes) {
        let message = format!("cannot print more than {max_bytes} bytes of data; raise --max-bytes");
        let error = Error::limit(message);
        return Err(match dataset.object().path() {
            Some(path) => error.object(path),
            None => error,
        });
    }
    let mut printer = Printer::new(dataset.object().file(), dataset.datatype(), style)?;
    let mut buffer = Vec::new();
    let size = usize::try_from(size).map_err(|_| Error::limit("larger than the address space"))?.max(1);
    let slabs: Box<dyn Iterator<Item = Selection>> = match part {
        Some(axes) => Box::new(split_into_slabs(dataset, axes.to_vec(), READ_BYTES)),
        None => Box::new(slabs(dataset, READ_BYTES)),
    };
    for slab in slabs {
        let bytes = slab.count(dataset.dims())?.saturating_mul(size as u64);
        let bytes = usize::try_from(bytes).map_err(|_| Error::limit("larger than the address space"))?;
        hyperchunk::room::resize(&mut buffer, bytes)?;
        dataset.read(&slab, &mut buffer)?;
        for part in buffer.chunks((PRINT_BYTES / size).max(1) * size) {
            each(&printer.elements(part)?);
        }
    }
    Ok(())
}
