//! `hyperchunk dump`.

mod ddl;
mod digest;
mod json;
mod value;

use crate::Outcome;
use crate::source::{SourceOptions, Target};
use clap::Args;
use hyperchunk::slabs::slabs;
use hyperchunk::{Dataset, Error, File, Object};
use value::{Printer, Style};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// FILE or FILE:/OBJECT; FILE may be a URL.
    target: String,
    /// Leave out the values.
    #[arg(short = 'H', long)]
    header: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "digest")]
    json: bool,
    /// Print SHA-256 digests of all values as JSON, for comparing files and readers.
    #[arg(long, conflicts_with = "header")]
    digest: bool,
    /// Leave out the values of datasets that are larger, with an error in their place.
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20)]
    max_bytes: u64,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Examples:
  hyperchunk dump -H scene.h5
  hyperchunk dump --json scene.h5:/bands/red
  hyperchunk dump --digest scene.h5";

/// How many bytes of elements are read at a time.
const AT_ONCE: u64 = 1 << 20;
/// How many bytes of elements are made text at a time, which takes many times as many.
const AS_TEXT: usize = 16 << 10;

/// Whether values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Of datasets of up to so many bytes.
    Shown(u64),
    LeftOut,
}

/// What to write.
struct Wanted<'a> {
    target: &'a str,
    file: &'a File,
    object: &'a Object,
    path: &'a [u8],
    values: Values,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Target { file, object, path } = arguments.source.open_object(&arguments.target)?;
    let values = if arguments.header { Values::LeftOut } else { Values::Shown(arguments.max_bytes) };
    let wanted = Wanted { target: &arguments.target, file: &file, object: &object, path: &path, values };
    let failures = if arguments.digest {
        digest::print(&wanted, arguments.max_bytes)?
    } else if arguments.json {
        json::print(&wanted)?
    } else {
        ddl::print(&wanted)?
    };
    if failures > 0 {
        Err(format!("{failures} objects or attributes could not be read").into())
    } else {
        Ok(())
    }
}

/// Calls `each` with the elements of a dataset as texts, a part at a time, in row-major order.
fn each_slab(
    dataset: &Dataset,
    style: Style,
    max_bytes: u64,
    each: &mut dyn FnMut(&[String]),
) -> Result<(), Error> {
    let size = dataset.datatype().size;
    if dataset.elements()?.checked_mul(size).is_none_or(|bytes| bytes > max_bytes) {
        let message = format!("more than {max_bytes} bytes of data; --max-bytes allows more");
        let error = Error::limit(message);
        return Err(match dataset.object().path() {
            Some(path) => error.object(path),
            None => error,
        });
    }
    let mut printer = Printer::new(dataset.object().file(), dataset.datatype(), style)?;
    let mut buffer = Vec::new();
    let size = usize::try_from(size).map_err(|_| Error::limit("larger than the address space"))?.max(1);
    for slab in slabs(dataset, AT_ONCE) {
        let bytes = slab.count(dataset.dims())?.saturating_mul(size as u64);
        buffer.resize(usize::try_from(bytes).map_err(|_| Error::limit("larger than the address space"))?, 0);
        dataset.read(&slab, &mut buffer)?;
        for part in buffer.chunks((AS_TEXT / size).max(1) * size) {
            each(&printer.elements(part)?);
        }
    }
    Ok(())
}
