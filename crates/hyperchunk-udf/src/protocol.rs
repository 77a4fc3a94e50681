//! Messages between the host and a worker, and their encoding. Neither side trusts the other's lengths.
//!
//! Messages are sent through a `SOCK_SEQPACKET` socket, one message a packet. The first, `Setup`, carries
//! descriptors: the set-up itself as JSON in a sealed memfd, and the shared memory.

use crate::datatype::Datatype;
use crate::endpoint::Endpoint;
use crate::error::{Result, fail};
use crate::profile::Grants;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Idle time after which a worker exits, and cached state for it is dropped.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Version of the protocol; a worker of another version is refused.
pub const PROTOCOL_VERSION: u32 = 11;
/// Maximum size of a message.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Size of the pieces in which a module's machine code is sent.
pub const CODE_MESSAGE_BYTES: usize = MAX_MESSAGE_BYTES - 4;
/// Maximum length of an error text.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Size of the first page of the arena, with the reason for a stop, and the [doorbell](Doorbell).
pub const STATUS_BYTES: usize = 4096;
/// Offset of the doorbell in the first page.
pub const DOORBELL_OFFSET: usize = 1024;

/// Completion flag of a call, which saves a message: a host that yields its processor instead of sleeping
/// polls the number. A host that sleeps sets `asleep` and gets the message.
///
/// The worker can write any values here; they only decide when the host checks the worker's own result.
#[repr(C)]
#[derive(Debug)]
pub struct Doorbell {
    /// Number of the last completed call.
    pub done: AtomicU32,
    /// Non-zero while the host sleeps.
    pub asleep: AtomicU32,
}

impl Doorbell {
    /// Marks a call as completed. Returns whether the host has to be woken by a message.
    pub fn ring(&self, seq: u32) -> bool {
        self.done.store(seq, Ordering::SeqCst);
        self.asleep.load(Ordering::SeqCst) != 0
    }

    /// Returns whether call `seq` is completed.
    pub fn is_done(&self, seq: u32) -> bool {
        self.done.load(Ordering::SeqCst) == seq
    }
}

/// Everything that a worker needs to know before it locks itself down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// JSON name of the back end.
    pub backend: String,
    /// Set if LuaJIT may generate machine code.
    pub jit: bool,
    /// Set if Lua has clocks finer than a few milliseconds.
    pub fine_clocks: bool,
    /// Memory limit in bytes, excluding the shared memory.
    pub memory: u64,
    /// Limit of processor time in seconds.
    pub cpu_s: u64,
    /// Grants of the profile.
    pub grants: Grants,
    /// Maximum size in bytes of a written file, if writing is granted.
    pub file_bytes: u64,
    /// Result of `lib.getFilePath`.
    pub file_path: String,
    /// Datasets, in the order of calls.
    pub slots: Vec<SetupSlot>,
    /// Memory, in the order of the descriptors.
    pub segments: Vec<Segment>,
    /// Source.
    pub source: String,
    /// Set if the last descriptor, except the machine code's, is the compiled form.
    pub compiled: bool,
    /// Task for the compiled form.
    pub task: Task,
    /// Seed of the record, from which the blocks' seeds are derived, if it has one.
    pub seed: Option<u64>,
    /// Reason why the function does not get the clock, if it does not.
    pub no_clock: Option<String>,
    /// Set if inputs may come in stored form.
    pub stored: bool,
    /// Set if the processor has AVX2: CPUID is slow in a virtual machine, so a new process does not query it.
    pub wide: bool,
    /// Folder for relative paths, if files are granted.
    pub folder: Option<PathBuf>,
    /// Set if Python lacks some modules that functions may import: one that fails [is tried
    /// again](LACKS_MODULES_EXIT).
    pub partial: bool,
}

/// Exit status of a Python worker whose function failed and may have lacked a module.
pub const LACKS_MODULES_EXIT: i32 = 118;

/// Task of a worker for its compiled form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Run it.
    Run,
    /// Run it with machine code that was compiled from it before and is the last descriptor.
    RunCode,
    /// Compile it to machine code and send that, and nothing else.
    Compile,
}

/// Dataset of a [`Setup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupSlot {
    /// Name in the source.
    pub name: String,
    /// Name of the datatype.
    pub datatype: String,
    /// Set if the function may write it.
    pub output: bool,
}

/// Segment of shared memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Byte offset in the descriptor; need not be aligned.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Set if the worker may write it.
    pub writable: bool,
    /// Set for a part of a file, the rest of which the worker must not see.
    pub piece: bool,
}

/// Location of a slot's data in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLocation {
    /// Number of the segment.
    pub segment: u32,
    /// Byte offset in the segment.
    pub offset: u64,
    /// Shape of the block.
    pub dims: Vec<u64>,
    /// Offset of the block in its dataset.
    pub start: Vec<u64>,
    /// Size in bytes of the [stored](crate::stored) form, which replaces the elements; 0 for elements.
    pub stored: u64,
}

/// Message from the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Locked down: the layers reached and the Landlock version.
    Ready {
        /// Set of layers, as bits.
        layers: u32,
        /// Version of the kernel's Landlock.
        landlock_abi: u32,
        /// Address at which the worker has mapped the inputs that are copied in, for addresses in their
        /// elements.
        inputs_at: u64,
        /// Stored forms that it can decode.
        decodes: DecodeSupport,
    },
    /// Before [`Reply::Ready`]: the process with this pid has taken over, without the threads that libraries
    /// had started.
    Moved(i32),
    /// The source is loaded. For [`Task::Compile`]: all of the code was sent.
    Loaded,
    /// Before [`Reply::Loaded`]: the given machine code is not usable here.
    Useless,
    /// Piece of the machine code.
    Code(Vec<u8>),
    /// Call `seq` is completed.
    Done(u32),
    /// The function or the worker failed; the worker exits.
    Failed(String),
    /// During a call: the function requests a connection.
    Connect(String),
    /// The function was not run for call `seq`: an input in stored form could not be decoded.
    Undecoded(u32),
    /// Answer to [`Request::Lend`] and [`Request::TakeBack`]: done, or the reason why not.
    Lent(Option<String>),
}

/// Message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Call with this number. The locations of its slots are decoded separately.
    Call(u32),
    /// Lend device memory of this size in bytes: its descriptor comes with the next packet. The function's
    /// results go there instead of the shared memory until it is taken back.
    Lend(u64),
    /// Release that memory.
    TakeBack,
    /// No operation: a worker that waits for a call reads the message.
    Look,
}

const CALL: u32 = 2;
const LEND_MEMORY: u32 = 5;
const TAKE_BACK_MEMORY: u32 = 6;
const NO_OPERATION: u32 = 7;
const READY: u32 = 0x81;
const LOADED: u32 = 0x82;
const DONE: u32 = 0x83;
const FAILED: u32 = 0x84;
const CONNECT: u32 = 0x85;
const UNUSABLE_CODE: u32 = 0x86;
const CODE_PIECE: u32 = 0x87;
const UNDECODED: u32 = 0x88;
const LEND_ANSWER: u32 = 0x89;
const PROCESS_REPLACED: u32 = 0x8a;
/// To the worker: the requested connection comes with this packet.
const CONNECTED: u32 = 3;
/// To the worker: there is no connection, for the following reason.
const NOT_CONNECTED: u32 = 4;

/// Encodes the reply to [`Reply::Connect`]: the descriptor is sent with it, or the text is the reason why
/// there is none.
pub fn encode_connection(refused: Option<&str>) -> Vec<u8> {
    match refused {
        None => CONNECTED.to_le_bytes().to_vec(),
        Some(text) => [&NOT_CONNECTED.to_le_bytes(), cut(text).as_bytes()].concat(),
    }
}

/// Decodes the reply: `None` when there is a connection, else the reason.
///
/// # Errors
/// `Worker` when it is invalid.
pub fn decode_connection(bytes: &[u8]) -> Result<Option<String>> {
    let mut c = Cursor(bytes);
    match c.word() {
        Some(CONNECTED) if c.0.is_empty() => Ok(None),
        Some(NOT_CONNECTED) => Ok(Some(String::from_utf8_lossy(c.0).into_owned())),
        _ => fail!(Worker, "invalid message ({} bytes)", bytes.len()),
    }
}

/// Cuts a text to [`MAX_TEXT_BYTES`].
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Encodes call number `seq` with the location of each slot.
pub fn encode_call(seq: u32, places: &[SlotLocation], out: &mut Vec<u8>) {
    out.clear();
    let mut word = |w: u32| out.extend_from_slice(&w.to_le_bytes());
    word(CALL);
    word(seq);
    word(u32::try_from(places.len()).unwrap_or(u32::MAX));
    for p in places {
        out.extend_from_slice(&p.segment.to_le_bytes());
        out.extend_from_slice(&u32::try_from(p.dims.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&p.offset.to_le_bytes());
        out.extend_from_slice(&p.stored.to_le_bytes());
        for d in p.dims.iter().chain(&p.start) {
            out.extend_from_slice(&d.to_le_bytes());
        }
    }
}

/// Encodes a request other than a call.
pub fn encode_request(asked: Request) -> Vec<u8> {
    match asked {
        Request::Lend(bytes) => [&LEND_MEMORY.to_le_bytes()[..], &bytes.to_le_bytes()].concat(),
        Request::Look => NO_OPERATION.to_le_bytes().to_vec(),
        Request::TakeBack | Request::Call(_) => TAKE_BACK_MEMORY.to_le_bytes().to_vec(),
    }
}

/// Decodes a request, and the locations of a call's slots to `places`.
///
/// # Errors
/// `Worker` when it is invalid.
pub fn decode_request(bytes: &[u8], places: &mut Vec<SlotLocation>) -> Result<Request> {
    let mut c = Cursor(bytes);
    match c.word() {
        Some(CALL) => return decode_call(c, places).map(Request::Call),
        Some(LEND_MEMORY) => {
            if let (Some(bytes), true) = (c.long(), c.0.is_empty()) {
                return Ok(Request::Lend(bytes));
            }
        }
        Some(TAKE_BACK_MEMORY) if c.0.is_empty() => return Ok(Request::TakeBack),
        Some(NO_OPERATION) if c.0.is_empty() => return Ok(Request::Look),
        _ => {}
    }
    fail!(Worker, "invalid message ({} bytes)", bytes.len())
}

fn decode_call(mut c: Cursor<'_>, places: &mut Vec<SlotLocation>) -> Result<u32> {
    let (Some(seq), Some(n)) = (c.word(), c.word()) else { fail!(Worker, "invalid call message") };
    places.clear();
    for _ in 0..n {
        let (Some(segment), Some(rank @ 0..=32), Some(offset), Some(stored)) =
            (c.word(), c.word(), c.long(), c.long())
        else {
            fail!(Worker, "invalid call message")
        };
        let mut longs = || (0..rank).map(|_| c.long()).collect();
        let (Some(dims), Some(start)) = (longs(), longs()) else { fail!(Worker, "invalid call message") };
        places.push(SlotLocation { segment, offset, dims, start, stored });
    }
    if !c.0.is_empty() {
        fail!(Worker, "invalid call message")
    }
    Ok(seq)
}

/// Encodes an answer.
pub fn encode_reply(answer: &Reply) -> Vec<u8> {
    let words = |list: &[u32]| list.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    match answer {
        Reply::Ready { layers, landlock_abi, inputs_at, decodes } => [
            words(&[READY, *layers, *landlock_abi]),
            inputs_at.to_le_bytes().to_vec(),
            words(&[decodes.number()]),
        ]
        .concat(),
        Reply::Moved(pid) => words(&[PROCESS_REPLACED, pid.cast_unsigned()]),
        Reply::Loaded => words(&[LOADED]),
        Reply::Useless => words(&[UNUSABLE_CODE]),
        Reply::Code(piece) => [&CODE_PIECE.to_le_bytes()[..], piece].concat(),
        Reply::Done(seq) => words(&[DONE, *seq]),
        Reply::Undecoded(seq) => words(&[UNDECODED, *seq]),
        Reply::Lent(why) => {
            let why =
                why.as_ref().map_or(&b""[..], |why| cut(if why.is_empty() { "?" } else { why }).as_bytes());
            [&LEND_ANSWER.to_le_bytes()[..], why].concat()
        }
        Reply::Failed(text) => [words(&[FAILED]), cut(text).as_bytes().to_vec()].concat(),
        Reply::Connect(text) => [words(&[CONNECT]), cut(text).as_bytes().to_vec()].concat(),
    }
}

/// Decodes an answer; the worker may be hostile.
///
/// # Errors
/// `Worker` when it is invalid.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply> {
    let mut c = Cursor(bytes);
    let answer = match c.word() {
        Some(READY) => match (c.word(), c.word(), c.long(), c.word().and_then(DecodeSupport::from_number)) {
            (Some(layers), Some(landlock_abi), Some(inputs_at), Some(decodes)) => {
                Some(Reply::Ready { layers, landlock_abi, inputs_at, decodes })
            }
            _ => None,
        },
        Some(PROCESS_REPLACED) => c.word().map(|pid| Reply::Moved(pid.cast_signed())),
        Some(LOADED) => Some(Reply::Loaded),
        Some(UNUSABLE_CODE) => Some(Reply::Useless),
        Some(CODE_PIECE) => Some(Reply::Code(std::mem::take(&mut c.0).to_vec())),
        Some(DONE) => c.word().map(Reply::Done),
        Some(UNDECODED) => c.word().map(Reply::Undecoded),
        Some(LEND_ANSWER) if c.0.len() <= MAX_TEXT_BYTES => {
            let why = String::from_utf8_lossy(std::mem::take(&mut c.0)).into_owned();
            Some(Reply::Lent(Some(why).filter(|why| !why.is_empty())))
        }
        Some(FAILED) if c.0.len() <= MAX_TEXT_BYTES => {
            let text = String::from_utf8_lossy(std::mem::take(&mut c.0)).into_owned();
            Some(Reply::Failed(text))
        }
        Some(CONNECT) if c.0.len() <= Endpoint::MAX_TEXT_BYTES => {
            String::from_utf8(std::mem::take(&mut c.0).to_vec()).ok().map(Reply::Connect)
        }
        _ => None,
    };
    match answer {
        Some(answer) if c.0.is_empty() => Ok(answer),
        _ => fail!(Worker, "the worker sent an invalid message ({} bytes)", bytes.len()),
    }
}

/// Returns the size of a block in bytes, or `None` when its shape overflows.
pub fn block_bytes(dims: &[u64], datatype: &Datatype) -> Option<u64> {
    dims.iter().try_fold(datatype.size() as u64, |a, &d| a.checked_mul(d))
}

/// Stored forms that a worker can decode, in addition to elements. Each includes the preceding ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeSupport {
    /// None: it gets elements.
    #[default]
    Nothing,
    /// Uncompressed chunks.
    Plain,
    /// Compressed chunks, too.
    Compressed,
}

impl DecodeSupport {
    /// Returns its number in messages.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [DecodeSupport::Nothing, DecodeSupport::Plain, DecodeSupport::Compressed]
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    /// Returns the capability required for chunks with these filters, in the order in which a writer applies
    /// them; `None` for filters that no GPU undoes.
    pub fn needed(filters: impl IntoIterator<Item = u16>) -> Option<Self> {
        const SHUFFLE: u16 = 2;
        const FLETCHER32: u16 = 3;
        // Deflate, Snappy, LZ4 and Zstandard.
        const COMPRESSORS: [u16; 4] = [1, 32003, 32004, 32015];
        // Each of the three kinds once, in this order.
        let (mut reached, mut needed) = (0, DecodeSupport::Plain);
        for filter in filters {
            let kind = match filter {
                SHUFFLE => 1,
                FLETCHER32 => 3,
                filter if COMPRESSORS.contains(&filter) => 2,
                _ => return None,
            };
            if kind <= reached {
                return None;
            }
            reached = kind;
            if kind == 2 {
                needed = DecodeSupport::Compressed;
            }
        }
        Some(needed)
    }
}

/// Remaining bytes of a message that is being decoded.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl Cursor<'_> {
    pub(crate) fn word(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_round_trip_and_damage_is_seen() {
        let places = vec![
            SlotLocation { segment: 0, offset: 4096, dims: vec![16, 4000], start: vec![32, 0], stored: 0 },
            SlotLocation { segment: 2, offset: 1 << 40, dims: vec![], start: vec![], stored: 77 },
        ];
        let (mut bytes, mut back) = (Vec::new(), Vec::new());
        encode_call(7, &places, &mut bytes);
        assert_eq!(decode_request(&bytes, &mut back).unwrap(), Request::Call(7));
        assert_eq!(back, places);
        for cut in 0..bytes.len() {
            assert!(decode_request(&bytes[..cut], &mut back).is_err());
        }
        bytes.push(0);
        assert!(decode_request(&bytes, &mut back).is_err());
        for asked in [Request::Lend(1 << 40), Request::TakeBack] {
            let mut bytes = encode_request(asked);
            assert_eq!(decode_request(&bytes, &mut back).unwrap(), asked);
            bytes.push(0);
            assert!(decode_request(&bytes, &mut back).is_err());
            assert!(decode_request(&bytes[..3], &mut back).is_err());
        }
    }

    #[test]
    fn answers_round_trip_and_junk_is_refused() {
        for answer in [
            Reply::Ready { layers: 7, landlock_abi: 6, inputs_at: 1 << 46, decodes: DecodeSupport::Plain },
            Reply::Undecoded(4),
            Reply::Lent(None),
            Reply::Lent(Some("no such memory".into())),
            Reply::Moved(4711),
            Reply::Loaded,
            Reply::Useless,
            Reply::Code(vec![7; CODE_MESSAGE_BYTES]),
            Reply::Done(9),
            Reply::Failed("ü".repeat(10)),
            Reply::Connect("example.org:443".into()),
        ] {
            assert_eq!(decode_reply(&encode_reply(&answer)).unwrap(), answer);
        }
        for junk in [
            &b""[..],
            b"junk",
            &[0x83, 0, 0, 0],
            &[0x82, 0, 0, 0, 1],
            &[0x86, 0, 0, 0, 1],
            &[0xff; 100],
            b"\x85\0\0\0\xff",
            &[0x85; 300],
        ] {
            assert!(decode_reply(junk).is_err(), "{junk:?}");
        }
        let long = decode_reply(&encode_reply(&Reply::Failed("é".repeat(MAX_TEXT_BYTES)))).unwrap();
        assert!(matches!(long, Reply::Failed(text) if text.len() <= MAX_TEXT_BYTES));
        let mut long = encode_reply(&Reply::Connect("a".repeat(Endpoint::MAX_TEXT_BYTES)));
        assert!(decode_reply(&long).is_ok());
        long.push(b'a');
        assert!(decode_reply(&long).is_err());
        assert_eq!(decode_connection(&encode_connection(None)).unwrap(), None);
        assert_eq!(decode_connection(&encode_connection(Some("no"))).unwrap().unwrap(), "no");
        assert!(decode_connection(b"\x03\0\0\0x").is_err() && decode_connection(b"").is_err());
    }
}
