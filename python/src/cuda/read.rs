//! From a file to the memory of a GPU.

use super::dlpack::Element;
use super::errors::Failure;
use crate::datatype::Conversion;
use hyperchunk::model::{ByteOrder, Class, Datatype};
use hyperchunk::slabs::{Steps, slabs_of};
use hyperchunk::{Dataset, select};
use hyperchunk_cuda::cufile::{CuFile, Mode};
use hyperchunk_cuda::ingest::{Input, Options, Part, Report, Request, Stored, ingest};
use hyperchunk_cuda::nvcomp::Nvcomp;
use hyperchunk_cuda::{Context, DeviceMemory, Stream};
use hyperchunk_udf::host::Programs;
use select::{Axis, Choice};
use std::sync::OnceLock;

/// About so many bytes are read and decoded at once, and copied while the next ones are.
const SLAB: usize = 64 << 20;

/// What is to be read: elements of a dataset, in the order of a selection, and what becomes of each.
pub(super) struct Wanted<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) choice: &'a Choice,
    pub(super) conversion: Option<&'a Conversion>,
    /// What comes out of the conversion.
    pub(super) element: Element,
    /// How many bytes that are.
    pub(super) bytes: usize,
}

/// Reads to memory on a GPU. What stored chunks of a file of this machine are, it decodes; all else is decoded here.
pub(super) fn read(wanted: &Wanted<'_>, device: u32) -> Result<(DeviceMemory, Option<Report>), Failure> {
    let context = Context::of(device)?;
    let memory = DeviceMemory::alloc(&context, wanted.bytes)?;
    if wanted.bytes == 0 {
        return Ok((memory, None));
    }
    if let Some(report) = decoded_there(wanted, &context, &memory)? {
        return Ok((memory, Some(report)));
    }
    let stream = Stream::new(&context)?;
    decoded_here(wanted, &stream, &memory)?;
    stream.synchronize()?;
    Ok((memory, None))
}

/// As the chunks are stored, if that is possible.
fn decoded_there(
    wanted: &Wanted<'_>,
    context: &Context,
    memory: &DeviceMemory,
) -> Result<Option<Report>, Failure> {
    let dataset = wanted.dataset;
    let swap = match wanted.conversion {
        None => Some(1),
        Some(_) => reversed(dataset.datatype(), wanted.element),
    };
    let (Some(swap), Ok(element)) = (swap, usize::try_from(dataset.datatype().size)) else { return Ok(None) };
    let Some(found) = dataset.stored_box(wanted.choice)? else { return Ok(None) };
    let elements = found.shape.iter().try_fold(1_u64, |count, extent| count.checked_mul(*extent));
    if elements.and_then(|count| count.checked_mul(element as u64)) != Some(memory.bytes() as u64) {
        return Err(
            hyperchunk::Error::invalid("a selection of more or fewer elements than its shape has").into()
        );
    }
    let Some(file) = found.source.file() else { return Ok(None) };
    let zeros = vec![0; element];
    let fill = found.fill.as_deref().unwrap_or(&zeros);
    let parts = found.pieces.into_iter().map(|piece| Part {
        stored: match piece.range {
            Some(range) => Stored::At { offset: range.start, bytes: range.end - range.start },
            None => Stored::Fill(fill),
        },
        mask: piece.mask,
        from: piece.from,
        to: piece.to,
        size: piece.count,
    });
    let request = Request {
        input: Input::File(file),
        chunk: &found.extent,
        filters: &found.pipeline,
        element,
        swap,
        dims: &found.shape,
        parts: parts.collect(),
    };
    let threads = dataset.object().file().options().threads;
    let options = Options { nvcomp: nvcomp(context), cufile: cufile(context), threads, ..Options::default() };
    Ok(Some(ingest(&request, memory, 0, &options)?))
}

/// nvCOMP, if it is there, looked for once. (Without it, processors decompress: nothing is wrong.)
fn nvcomp(context: &Context) -> Option<&'static Nvcomp> {
    static FOUND: OnceLock<Option<Nvcomp>> = OnceLock::new();
    let load = || {
        let folder = Programs::find()
            .ok()
            .and_then(|programs| programs.nvidia("HYPERCHUNK_NVCOMP", "libnvcomp/lib64"));
        Nvcomp::beside(context.driver(), folder.as_deref()).ok()
    };
    FOUND.get_or_init(load).as_ref()
}

/// cuFile, where it reads straight into the memory of GPUs. Where it would copy, our own way is as good.
fn cufile(context: &Context) -> Option<&'static CuFile> {
    static FOUND: OnceLock<Option<CuFile>> = OnceLock::new();
    let load = || CuFile::load(context, None).ok().filter(|cufile| cufile.mode() == Mode::Direct);
    FOUND.get_or_init(load).as_ref()
}

/// Of how many bytes the numbers are that must be reversed, and nothing else, to make elements of those that are stored.
fn reversed(stored: &Datatype, wanted: Element) -> Option<usize> {
    match &stored.class {
        Class::Array { base, .. } => reversed(base, wanted),
        Class::Compound { members } => match &members[..] {
            [real, imaginary] => {
                let half = stored.size / 2;
                let halves =
                    (real.offset, imaginary.offset) == (0, half) && real.datatype == imaginary.datatype;
                let float = Element::new('f', usize::try_from(half).ok()?)?;
                reversed(&real.datatype, float).filter(|_| halves && wanted.is('c', stored.size))
            }
            _ => None,
        },
        _ => {
            let size = u16::try_from(stored.size).ok().filter(|size| [2, 4, 8].contains(size))?;
            let number = |signed| Datatype::integer(size, signed, ByteOrder::Big);
            let same = wanted.is('i', stored.size) && *stored == number(true)
                || wanted.is('u', stored.size) && *stored == number(false)
                || wanted.is('f', stored.size) && *stored == Datatype::ieee(size, ByteOrder::Big);
            same.then_some(usize::from(size))
        }
    }
}

/// Reads and decodes on processors, part by part.
fn decoded_here(wanted: &Wanted<'_>, stream: &Stream, memory: &DeviceMemory) -> Result<(), Failure> {
    let Wanted { dataset, choice, conversion, .. } = *wanted;
    let stored = usize::try_from(dataset.datatype().size).unwrap_or(usize::MAX).max(1);
    let size = conversion.map_or(stored, |conversion| conversion.to);
    let slab = (SLAB / size.max(1)).max(1).saturating_mul(stored) as u64;
    let parts: Box<dyn Iterator<Item = Choice>> = match steps(choice, dataset.dims()) {
        Some(axes) if memory.bytes() > SLAB => Box::new(slabs_of(dataset, axes, slab)),
        _ => Box::new(std::iter::once(choice.clone())),
    };
    let (mut offset, mut buffer) = (0, Vec::new());
    for part in parts {
        let count = usize::try_from(part.count(dataset.dims())?).unwrap_or(usize::MAX);
        let length = count.saturating_mul(size);
        if length > memory.bytes().saturating_sub(offset) {
            return Err(hyperchunk::Error::invalid("a selection of more elements than its shape has").into());
        }
        buffer.resize(length, 0);
        match conversion {
            Some(conversion) => {
                dataset.read_converted(&part, &conversion.steps, conversion.to, &mut buffer)?
            }
            None => dataset.read(&part, &mut buffer)?,
        }
        stream.upload(memory, offset, &buffer)?;
        offset += length;
    }
    if offset != memory.bytes() {
        return Err(hyperchunk::Error::invalid("a selection of fewer elements than its shape has").into());
    }
    Ok(())
}

/// A selection that can be cut into slabs.
fn steps(choice: &Choice, dims: &[u64]) -> Option<Vec<Steps>> {
    match choice {
        Choice::All => Some(dims.iter().map(|extent| Steps { start: 0, step: 1, count: *extent }).collect()),
        Choice::Axes(axes) => axes.iter().map(one_axis).collect(),
        _ => None,
    }
}

fn one_axis(axis: &Axis) -> Option<Steps> {
    match *axis {
        Axis::Range { start, count, block: 1, .. } if count <= 1 => Some(Steps { start, step: 1, count }),
        Axis::Range { start, count: 1, block, .. } => Some(Steps { start, step: 1, count: block }),
        Axis::Range { start, stride, count, block: 1 } => Some(Steps { start, step: stride, count }),
        _ => None,
    }
}
