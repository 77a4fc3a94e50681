//! `hyperchunk get`.

use crate::describe;
use crate::output::StandardOutput;
use crate::progress::{self, Progress};
use crate::source::{self, SourceOptions};
use crate::{Outcome, Status};
use clap::Args;
use hyperchunk::npy::Element;
use hyperchunk::output::{self, Kind, Output};
use hyperchunk::pack::{Part, extract};
use hyperchunk::slabs::{Steps, split_into_slabs};
use hyperchunk::{Dataset, Error};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file, or FILE:/PATH; may be a URL.
    file: String,
    /// Path of the dataset.
    path: Option<String>,
    /// Output file: .npy for an array, .h5 for an HDF5 file with the dataset and its attributes, `-` for an
    /// array to standard output. The default is the dataset's name and .npy.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(long)]
    overwrite: bool,
    /// Read only a part: for each axis an index or START:STOP:STEP, as in NumPy; `...` for the other axes.
    #[arg(short, long, value_name = "SLICES", allow_hyphen_values = true)]
    slice: Option<String>,
    /// Number of bytes held at a time.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    memory: u64,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Examples:
  hyperchunk get scene.h5 /bands/red
  hyperchunk get s3://bucket/granule.h5 /gt1l/heights/h_ph --slice 1000:2000 -o heights.npy
  hyperchunk get s3://bucket/granule.h5 /gt1l/heights/h_ph --slice 1000:2000 -o heights.h5
  hyperchunk get scene.h5 /bands/red --slice '0, ::10' -o - > row.npy";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (file_name, path) = match (&arguments.path, source::split(&arguments.file)) {
        (Some(path), _) => (&*arguments.file, &**path),
        (None, Some(parts)) => parts,
        (None, None) => {
            let file = hyperchunk_udf::escape::escape(&arguments.file, 200);
            let message =
                format!("expected the path of a dataset after {file}; `hyperchunk ls -r FILE` lists them");
            return Err(Box::new(Status(2, message)));
        }
    };
    let output = match &arguments.output {
        Some(path) => path.clone(),
        None => {
            let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            PathBuf::from(format!("{name}.npy"))
        }
    };
    let standard = output.as_os_str() == "-";
    let mut kind = Kind::Array;
    if !standard && !output::is_stream(&output) {
        kind = output::choose(&output, &[Kind::Array, Kind::Hdf5])?;
        let input = file_name.strip_prefix("file://").unwrap_or(file_name);
        output::check(&output, arguments.overwrite, &[Path::new(input)])?;
    } else if !standard && output::choose(&output, &[Kind::Hdf5]).is_ok() {
        kind = Kind::Hdf5;
    }
    let file = arguments.source.open(file_name)?;
    let path = format!("/{}", path.trim_matches('/'));
    let dataset = SourceOptions::find_object(&file, &path)?.object.dataset()?;
    if matches!(dataset.dataspace(), hyperchunk::model::Dataspace::Null) {
        return Err("cannot read a null dataset: it has no elements and no shape".into());
    }
    let part = parse_slices(arguments.slice.as_deref().unwrap_or(""), dataset.dims())?;
    if kind == Kind::Hdf5 {
        if output::is_stream(&output) {
            return Err(
                "an HDF5 file cannot be written to a device or a pipe; write an array (.npy), or a file"
                    .into(),
            );
        }
        return to_hdf5(&dataset, &part, arguments, &output);
    }
    if dataset.datatype().has_reference() {
        let path = hyperchunk_udf::escape::escape(&path, 2000);
        return Err(format!(
            "cannot write {path} to an array: it has references to other objects, which would be missing there; \
             `hyperchunk dump` prints their paths, `hyperchunk pack` copies a file with all of them"
        )
        .into());
    }
    let element = Element::new(dataset.datatype()).map_err(|error| {
        format!(
            "{}; -o with a name that ends with .h5 keeps them, `hyperchunk dump` prints them",
            error.object(&path)
        )
    })?;
    if element.rounds() {
        let what = hyperchunk_udf::escape::escape(&path, 2000);
        crate::print_message(&format!(
            "note: {what} has floats of more than 64 bits, which are rounded to 64; -o with a name that ends with .h5 keeps them"
        ));
    }
    let axes: Vec<Steps> = part.iter().map(|(steps, _)| *steps).collect();
    let shape: Vec<u64> = part.iter().filter(|(_, stays)| *stays).map(|(steps, _)| steps.count).collect();
    let header = element.header(&shape);
    let count = axes.iter().try_fold(1_u64, |count, axis| count.checked_mul(axis.count));
    let total = count.and_then(|count| count.checked_mul(element.datatype.size));
    let total = total.ok_or("cannot read more than 2^64 bytes")?;
    let copy = |out: &mut dyn Write| -> Outcome {
        out.write_all(&header)?;
        stream(&dataset, &element, axes, arguments.memory, total, out)
    };
    if standard {
        let mut out = StandardOutput(std::io::stdout().lock());
        copy(&mut out)?;
        return Ok(out.flush()?);
    }
    let name = output.display();
    let mut out = Output::create(&output, arguments.overwrite)?;
    copy(&mut out)?;
    file.check_unread(&output)?;
    dataset.object().file().check_unread(&output)?;
    out.finish()?;
    say!(
        "{}: {} {}, {}",
        hyperchunk_udf::escape::escape(&name.to_string(), 2000),
        describe::extent(&shape),
        describe::datatype(&element.datatype),
        progress::bytes(header.len() as u64 + total)
    );
    Ok(())
}

/// Writes an HDF5 file with the dataset.
fn to_hdf5(dataset: &Dataset, part: &Part, arguments: &Arguments, output: &Path) -> Outcome {
    let stored =
        part.iter().fold(dataset.datatype().size, |bytes, (steps, _)| bytes.saturating_mul(steps.count));
    let mut progress = Progress::new(stored);
    let made = extract(dataset, part, output, arguments.overwrite, arguments.memory, &mut |bytes| {
        progress.add(bytes)
    })?;
    drop(progress);
    let shown = |text: &str| hyperchunk_udf::escape::escape(text, 2000);
    for name in &made.left_out {
        eprintln!(
            "hyperchunk: attribute {} refers to other objects, which are not copied: left out",
            shown(&name.to_string())
        );
    }
    say!(
        "{}: {} {}, {}",
        shown(&output.display().to_string()),
        describe::extent(&made.dims),
        describe::datatype(dataset.datatype()),
        progress::bytes(made.bytes)
    );
    Ok(())
}

/// Writes the elements, a part at a time.
fn stream(
    dataset: &Dataset,
    element: &Element,
    axes: Vec<Steps>,
    memory: u64,
    total: u64,
    out: &mut dyn Write,
) -> Outcome {
    let mut progress = Progress::new(total);
    let mut buffer = Vec::new();
    let bytes = memory.max(1);
    for slab in split_into_slabs(dataset, axes, bytes) {
        let bytes = slab.count(dataset.dims())?.saturating_mul(element.datatype.size);
        let bytes = usize::try_from(bytes).map_err(|_| Error::limit("larger than the address space"))?;
        hyperchunk::room::resize(&mut buffer, bytes)?;
        dataset.read_as(&slab, &element.datatype, &mut buffer)?;
        out.write_all(&buffer)?;
        progress.add(buffer.len() as u64);
    }
    Ok(())
}

/// Parses slices of an extent. An axis with an index is dropped from the result's shape.
pub(crate) fn parse_slices(text: &str, dims: &[u64]) -> Result<Part, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    // Like Python, accept a comma at the end.
    let parts = match parts.split_last() {
        Some((&"", rest)) => rest,
        _ => &parts[..],
    };
    let rest = parts.iter().position(|part| *part == "...");
    let named = parts.len() - usize::from(rest.is_some());
    let left = dims.len().checked_sub(named).ok_or_else(|| {
        format!("expected at most {} slices, one for each dimension, got {named}: {text}", dims.len())
    })?;
    let at = rest.unwrap_or(parts.len());
    let all = std::iter::repeat_n(":", left);
    let after = parts.iter().skip(at + usize::from(rest.is_some())).copied();
    let parts = parts.iter().take(at).copied().chain(all).chain(after);
    let all = parts.zip(dims);
    all.map(|(part, extent)| parse_slice(part, *extent).map_err(|why| format!("slice `{part}`: {why}")))
        .collect()
}

/// Parses the slice of one axis; the boolean is false if the axis is dropped.
fn parse_slice(text: &str, extent: u64) -> Result<(Steps, bool), String> {
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<i128>().map(Some).map_err(|_| format!("expected a number, got `{text}`")),
    };
    let numbers = text.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
    let end = i128::from(extent);
    let from_end = |number: i128| if number < 0 { number + end } else { number };
    let natural = |number: i128| u64::try_from(number).unwrap_or(0);
    match numbers[..] {
        [Some(index)] => {
            let at = from_end(index);
            if !(0..end).contains(&at) {
                return Err(format!("index {index} is out of range for extent {extent}"));
            }
            Ok((Steps { start: natural(at), step: 1, count: 1 }, false))
        }
        [_, _] | [_, _, _] => {
            let step = numbers.get(2).copied().flatten().unwrap_or(1);
            if step < 1 {
                return Err("the step must be positive".into());
            }
            let bound =
                |number: Option<i128>, usual| number.map_or(usual, |number| from_end(number).clamp(0, end));
            let (start, stop) = (bound(numbers[0], 0), bound(numbers[1], end));
            let count = if stop > start { (stop - start - 1) / step + 1 } else { 0 };
            let step = u64::try_from(step).unwrap_or(u64::MAX);
            Ok((Steps { start: natural(start), step, count: natural(count) }, true))
        }
        _ => Err("expected an index or START:STOP:STEP".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices() {
        let check = |text: &str, dims: &[u64], axes: &[(u64, u64, u64)], shape: &[u64]| {
            let axes: Vec<Steps> = axes
                .iter()
                .map(|(start, step, count)| Steps { start: *start, step: *step, count: *count })
                .collect();
            let part = parse_slices(text, dims).unwrap();
            assert_eq!(part.iter().map(|(steps, _)| *steps).collect::<Vec<_>>(), axes, "{text}");
            let kept = part.iter().filter(|(_, stays)| *stays).map(|(steps, _)| steps.count);
            assert_eq!(kept.collect::<Vec<_>>(), shape, "{text}");
        };
        check("", &[10, 5], &[(0, 1, 10), (0, 1, 5)], &[10, 5]);
        check("", &[], &[], &[]);
        check("0:10,::2", &[20, 5], &[(0, 1, 10), (0, 2, 3)], &[10, 3]);
        check("3", &[10, 5], &[(3, 1, 1), (0, 1, 5)], &[5]);
        check("-1, 1:-1", &[10, 5], &[(9, 1, 1), (1, 1, 3)], &[3]);
        check("..., 2", &[10, 5, 4], &[(0, 1, 10), (0, 1, 5), (2, 1, 1)], &[10, 5]);
        check("1, ..., 2,", &[10, 5, 4], &[(1, 1, 1), (0, 1, 5), (2, 1, 1)], &[5]);
        check("...", &[3], &[(0, 1, 3)], &[3]);
        check("5:2", &[10], &[(5, 1, 0)], &[0]);
        check("2:100:3", &[10], &[(2, 3, 3)], &[3]);
        check("-100::100", &[10], &[(0, 100, 1)], &[1]);
        for wrong in ["1,2,3", "10", "-11", "::0", "::-1", "a", "1:2:3:4", ",1"] {
            assert!(parse_slices(wrong, &[10, 5]).is_err(), "{wrong}");
        }
    }
}
