//! Which open dataset a stub belongs to.
//!
//! HDF5 tells a filter nothing about the dataset that it reads. But the library can list its open datasets, and a live
//! one is known by its id, which is in the stub and in the client data of its filter: never by a name. Where copies of
//! one file are open together, several datasets can match; then each is evaluated and all must agree.

use super::plan::Plan;
use super::record;
use crate::errors::Quiet;
use crate::handles::Handle;
use crate::library::Library;
use crate::symbols::{ALL_FILES, Hid, OBJ_DATASET};
use crate::{Result, fail};
use hyperchunk_udf::host::cache;
use hyperchunk_udf::stub::{LiveId, RecordDigest, Stub};
use std::ffi::{c_ulong, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The version word of the filter's client data; the id's four words follow.
pub(crate) const CLIENT_DATA_VERSION: u32 = 1;

/// What the last look gave, good while the same datasets are open: identifiers are never used twice.
struct Found {
    library: usize,
    open: Vec<Hid>,
    id: LiveId,
    record: RecordDigest,
    plans: Vec<Arc<Plan>>,
}

static LAST: Mutex<Vec<Found>> = Mutex::new(Vec::new());
/// Live datasets that read each other are looked up in turn.
const MAX_KEPT: usize = 8;

/// The plans for the datasets that `stub` can belong to: usually one, one for each open copy of the file otherwise.
pub(crate) fn locate(library: &'static Library, stub: &Stub) -> Result<Vec<Arc<Plan>>> {
    let open = open_datasets(library);
    let hit = |f: &Found| {
        f.library == library.base() && f.id == stub.id && f.record == stub.record && f.open == open
    };
    if let Some(found) = cache(&LAST).and_then(|last| last.iter().find(|f| hit(f)).map(|f| f.plans.clone())) {
        return Ok(found);
    }
    let _quiet = Quiet::new(library);
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    for &dataset in open.iter().filter(|&&d| is_live(library, d, stub.id)) {
        let file = library.file_of(dataset)?;
        let instance = instance(library, &file)?;
        if plans.iter().any(|p| p.instance == instance) {
            continue;
        }
        let verified = record::verified(library, dataset, stub.record)?;
        plans.push(Arc::new(Plan::new(library, dataset, &file, instance, verified)?));
    }
    if plans.is_empty() {
        fail!(
            Unsupported,
            "the dataset that is read is not open by itself: is it the source of a virtual dataset? Open it in this program, too, and read again"
        )
    }
    // In a file that can be written, inputs can change between two chunks: everything is looked at again.
    if plans.iter().all(|p| p.read_only)
        && let Some(mut last) = cache(&LAST)
    {
        last.retain(|f| f.library != library.base() || f.open == open);
        if last.len() >= MAX_KEPT {
            last.remove(0);
        }
        last.push(Found {
            library: library.base(),
            open,
            id: stub.id,
            record: stub.record,
            plans: plans.clone(),
        });
    }
    Ok(plans)
}

fn open_datasets(library: &Library) -> Vec<Hid> {
    // SAFETY: no pointers.
    let n = unsafe { (library.f.file_object_count)(ALL_FILES, OBJ_DATASET) };
    let mut ids = vec![0; usize::try_from(n).unwrap_or(0)];
    // SAFETY: room for that many identifiers.
    let n = unsafe { (library.f.file_object_ids)(ALL_FILES, OBJ_DATASET, ids.len(), ids.as_mut_ptr()) };
    ids.truncate(usize::try_from(n).unwrap_or(0));
    ids
}

/// Whether `dataset` is the live dataset `id`, by the client data of its filter.
fn is_live(library: &'static Library, dataset: Hid, id: LiveId) -> bool {
    let Ok(plist) = library.create_plist(dataset) else { return false };
    let words = library.live_filter(plist.id);
    words.is_some_and(|w| w.first() == Some(&CLIENT_DATA_VERSION) && w.get(1..5) == Some(&id.to_words()[..]))
}

/// The library's own number for an open file: the same for every handle of it, never used twice, whatever the driver.
fn instance(library: &'static Library, file: &Handle) -> Result<u64> {
    type FileNumber = unsafe extern "C" fn(Hid, *mut c_ulong) -> i32;
    type ObjectInfo = unsafe extern "C" fn(Hid, *mut [c_ulong; 64]) -> i32;
    let mut symbol = library.fileno.load(Ordering::Relaxed);
    if symbol == 0 {
        symbol = (library.optional(c"H5Fget_fileno") as usize).max(1);
        library.fileno.store(symbol, Ordering::Relaxed);
    }
    let mut number = 0;
    if symbol != 1 {
        // SAFETY: H5Fget_fileno has had this signature since it appeared in 1.12.
        let rc = unsafe {
            std::mem::transmute::<*mut c_void, FileNumber>(symbol as *mut c_void)(file.id, &raw mut number)
        };
        if rc >= 0 {
            return Ok(number);
        }
    }
    let old = library.optional(c"H5Oget_info");
    if !old.is_null() {
        let mut info: [c_ulong; 64] = [0; 64];
        // SAFETY: HDF5 1.10's H5O_info_t begins with the number and is far shorter than the buffer.
        if unsafe { std::mem::transmute::<*mut c_void, ObjectInfo>(old)(file.id, &raw mut info) } >= 0 {
            let [number, ..] = info;
            return Ok(number);
        }
    }
    fail!(Unsupported, "this libhdf5 does not tell which file a dataset is in")
}
