//! Worker with the function of an analysis, for data of one type.

use super::split::MAX_CALL_BYTES;
use super::{Analysis, make};
use crate::inputs::memory_type;
use crate::to_udf_error;
use hyperchunk::convert::Conversion;
use hyperchunk_store::format::analysis_values::Pairs;
use hyperchunk_store::{Definition, Hyperslab};
use hyperchunk_udf::datatype::{Datatype, ElementType};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::{Job, JobSlot, Programs, Session, Source};
use hyperchunk_udf::observe::{CONTROL, DATA, RESULTS};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{Block, Needs};
use std::time::Duration;

/// Minimum capacity of a worker for data, in bytes.
const MIN_DATA_BYTES: u64 = 1 << 20;
/// Size in bytes of a request, besides two lists of results.
const REQUEST_BYTES: u64 = 8 << 10;

#[derive(Debug)]
pub(super) struct Worker {
    session: Session,
    /// Conversion from stored elements to the ones that functions see, if they differ.
    conversion: Option<Conversion>,
    /// Capacity for data, in bytes.
    room: u64,
    /// Maximum size in bytes of the results of a call.
    bytes: u64,
}

/// Returns the type of the elements, as functions see them.
///
/// # Errors
/// `Unsupported` for other types than numbers.
pub(super) fn element(definition: &Definition) -> Result<ElementType> {
    let (element, _) = memory_type(&definition.datatype)?;
    element.number().ok_or_else(|| Error::new(ErrorKind::Unsupported, "analyses support only numbers"))
}

impl Worker {
    /// Starts a worker in the sandbox with the function loaded, for this number of elements at once.
    pub(super) fn start(
        analysis: &Analysis,
        profile: &Profile,
        definition: &Definition,
        elements: u64,
    ) -> Result<Self> {
        if cfg!(target_endian = "big") {
            let message = "functions do not run on big-endian machines yet";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let number = element(definition)?;
        let (_, memory) = memory_type(&definition.datatype)?;
        let conversion =
            Conversion::new(&definition.datatype, &memory).map_err(|error| to_udf_error(&error))?;
        let (programs, bytes) = (Programs::find()?, analysis.declaration.bytes);
        let source = make::worker_source(&analysis.record, &programs)?;
        // The next call may have more data.
        let room = needed(number, elements).max(MIN_DATA_BYTES);
        let room = room.checked_next_power_of_two().filter(|room| *room <= MAX_CALL_BYTES).unwrap_or(room);
        let job = Job {
            backend: analysis.record.backend,
            source: &source.source,
            compiled: source.compiled.as_deref().map(Vec::as_slice),
            profile,
            file_path: "",
            slots: slots(number.into(), bytes, room),
            files: Vec::new(),
            needs: Needs::default(),
        };
        let mut session = Session::start(&job, &programs)?;
        session.within(Duration::from_millis(analysis.declaration.time_ms));
        let conversion = Some(conversion).filter(|conversion| !conversion.is_copy());
        Ok(Self { session, conversion, room, bytes })
    }

    /// Returns whether the worker has memory for this number of elements of its type.
    pub(super) fn has_room(&self, number: ElementType, elements: u64) -> bool {
        needed(number, elements) <= self.room
    }

    pub(super) fn ended_idle(&self) -> bool {
        self.session.ended_idle()
    }

    /// Returns whether the last call failed because a module was missing that another worker would have.
    pub(super) fn lacked_modules(&self) -> bool {
        self.session.lacked_modules()
    }

    /// Calls the function for a written box; returns its results.
    pub(super) fn on_write(
        &mut self,
        definition: &Definition,
        slab: &Hyperslab,
        bytes: &[u8],
    ) -> Result<Option<Pairs>> {
        let elements = slab.elements().map_err(|error| to_udf_error(&error))?;
        let room = usize::try_from(needed(element(definition)?, elements)).unwrap_or(usize::MAX);
        let conversion = self.conversion.as_ref();
        let to = self.session.input(1).and_then(|to| to.get_mut(..room));
        let to = to.ok_or_else(|| Error::new(ErrorKind::Limit, "more data than a function gets at once"))?;
        match conversion {
            Some(conversion) => {
                let count = usize::try_from(elements).unwrap_or(usize::MAX);
                conversion.run(bytes, to, count).map_err(|error| to_udf_error(&error))?;
            }
            None if to.len() == bytes.len() => to.copy_from_slice(bytes),
            None => return Err(Error::new(ErrorKind::Worker, "the elements have an unexpected size")),
        }
        let control = [&[0], definition.path.as_slice()].concat();
        self.call((slab.start.clone(), slab.count.clone()), &control)
    }

    /// Merges two results by the function; `None` if the source defines no merge.
    pub(super) fn merge(&mut self, one: &Pairs, other: &Pairs) -> Result<Option<Pairs>> {
        let (one, other) = (one.encode(), other.encode());
        let length = u32::try_from(one.len()).unwrap_or(u32::MAX).to_le_bytes();
        self.call((vec![0], vec![0]), &[&[1], &length[..], &one, &other].concat())
    }

    fn call(&mut self, data: Block, control: &[u8]) -> Result<Option<Pairs>> {
        let to = self.session.input(2).and_then(|to| to.get_mut(..control.len()));
        let to = to.ok_or_else(|| Error::new(ErrorKind::Limit, "the results are too long to be merged"))?;
        to.copy_from_slice(control);
        let one = |length: u64| (0, (vec![0], vec![length]));
        self.session.call([one(self.bytes + 4), (0, data), one(control.len() as u64)])?;
        let lost =
            || Error::new(ErrorKind::Worker, "internal error: the results are outside the shared memory");
        let mut results = vec![0; usize::try_from(self.bytes + 4).map_err(|_| lost())?];
        // Copied once: the worker could change the shared memory afterwards.
        self.session.copy_output(0, 0, &mut results).ok_or_else(lost)?;
        let (length, rest) = results.split_first_chunk::<4>().ok_or_else(lost)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            return Ok(None);
        }
        let encoded = rest.get(..length).ok_or_else(|| {
            let message = format!("it claims {length} bytes of results; the limit is {}", self.bytes);
            Error::new(ErrorKind::Limit, message)
        })?;
        let pairs = Pairs::decode(encoded)
            .map_err(|error| Error::new(ErrorKind::Failed, format!("its results are invalid: {error}")))?;
        Ok(Some(pairs).filter(|pairs| !pairs.is_empty()))
    }
}

/// Returns the size in bytes of elements in memory.
fn needed(number: ElementType, elements: u64) -> u64 {
    elements.saturating_mul(number.size() as u64)
}

/// Returns the arrays of a job: results, data and request.
pub(super) fn slots(datatype: Datatype, bytes: u64, room: u64) -> Vec<JobSlot> {
    let slot = |name: &str, datatype, source| JobSlot { name: name.to_owned(), datatype, source };
    let byte = || Datatype::from(ElementType::UInt8);
    vec![
        slot(RESULTS, byte(), Source::Output(bytes + 4)),
        slot(DATA, datatype, Source::Copied(room)),
        slot(CONTROL, byte(), Source::Copied(2 * bytes + REQUEST_BYTES)),
    ]
}
