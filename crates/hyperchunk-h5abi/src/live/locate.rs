//! Finding the open dataset that a stub belongs to.
//!
//! HDF5 does not tell a filter which dataset is being read. But the library can list its open datasets, and a
//! live one is identified by its id, which is in the stub and in the client data of its filter, never by a
//! name. If copies of one file are open, several datasets can match; then each is evaluated and all results
//! must agree.

use super::plan::{Plan, check_shape};
use super::record::{self, VerifiedRecord};
use crate::errors::ErrorStackGuard;
use crate::handles::Handle;
use crate::library::Library;
use crate::symbols::{ACC_RDWR, ALL_FILES, Hid, OBJ_DATASET, OPTIONAL};
use crate::{Error, Result, fail};
use hyperchunk_udf::audit;
use hyperchunk_udf::host::cache;
use hyperchunk_udf::legacy::is_legacy;
use hyperchunk_udf::stub::{LiveId, RecordDigest, Stub};
use hyperchunk_udf::trust;
use std::sync::{Arc, Mutex};

/// Version of the filter's client data, in their first word; the four words of the id follow.
pub(crate) const CLIENT_DATA_VERSION: u32 = 1;

/// Cached result of [`locate`], valid while the same datasets are open: identifiers are never reused.
struct CachedTargets {
    library: usize,
    open: Vec<Hid>,
    id: LiveId,
    record: RecordDigest,
    trust: u64,
    targets: Vec<Target>,
}

/// A dataset that the application has open, valid while its identifier is listed, and its plan.
pub(crate) type Target = (Hid, Arc<Plan>);

/// Plans for files that are open for reading only, reused when a dataset is opened again.
static PLANS: Mutex<Vec<(usize, Arc<Plan>)>> = Mutex::new(Vec::new());
const MAX_PLANS: usize = 32;

static LAST: Mutex<Vec<CachedTargets>> = Mutex::new(Vec::new());
/// Number of cached results: live datasets that read each other are looked up alternately.
const MAX_CACHED_RESULTS: usize = 8;

/// Returns the datasets that `stub` can belong to, with their plans: usually one, or one for each open copy
/// of the file.
pub(crate) fn locate(library: &'static Library, stub: &Stub) -> Result<Vec<Target>> {
    let open = library.open_ids(ALL_FILES, OBJ_DATASET);
    let trusted = trust::stamp();
    let hit = |f: &CachedTargets| {
        f.library == library.base()
            && (f.id, f.record, f.trust) == (stub.id, stub.record, trusted)
            && f.open == open
    };
    if let Some(found) = cache(&LAST).and_then(|last| last.iter().find(|f| hit(f)).map(|f| f.targets.clone()))
    {
        return Ok(found);
    }
    let _quiet = ErrorStackGuard::new(library);
    let mut candidates: Vec<(Hid, Handle, u64)> = Vec::new();
    for dataset in live(library, &open, stub.id) {
        let file = library.object_file(dataset)?;
        let instance = library.instance(&file)?;
        if candidates.iter().all(|(_, _, other)| *other != instance) {
            candidates.push((dataset, file, instance));
        }
    }
    let mut targets: Vec<Target> = Vec::new();
    for (dataset, file, instance) in &candidates {
        let (dataset, instance) = (*dataset, *instance);
        // One of several copies may have been rebuilt or changed. HDF5 does not tell which is read, so none
        // is computed.
        if candidates.len() > 1 && !record::has_digest(library, dataset, stub.record) {
            let name = library.object_name(file.id, library.f.file_name);
            fail!(
                Unsupported,
                "{} and another file that is open hold the same live dataset with different records: one of them was rebuilt, or changed. HDF5 does not tell which of them is read. Close one of them",
                hyperchunk_udf::escape::escape(&name, 200)
            )
        }
        targets.push(target(library, dataset, file, instance, stub.record, || {
            let about = |error: Error| {
                let path = library.object_name(file.id, library.f.file_name);
                error.about(format!("{path}:{}", library.object_name(dataset, library.f.id_name)))
            };
            let verified = record::verified(library, dataset, stub.record).map_err(|error| {
                let path = library.object_name(file.id, library.f.file_name);
                let name = library.object_name(dataset, library.f.id_name);
                audit::note(&audit::Event::invalid(&path, &name, stub.record, &error));
                about(error)
            })?;
            let dims = library.dims(library.dataset_space(dataset)?.id)?;
            verified.grown(&dims).map_err(about)
        })?);
    }
    let targets = require_targets(targets)?;
    // In a writable file, inputs can change between two chunks, so nothing is cached.
    if targets.iter().all(|(_, p)| p.read_only)
        && let Some(mut last) = cache(&LAST)
    {
        last.retain(|f| f.trust == trusted && (f.library != library.base() || f.open == open));
        if last.len() >= MAX_CACHED_RESULTS {
            last.remove(0);
        }
        let (id, record) = (stub.id, stub.record);
        last.push(CachedTargets {
            library: library.base(),
            open,
            id,
            record,
            trust: trusted,
            targets: targets.clone(),
        });
    }
    Ok(targets)
}

/// Returns a dataset with its plan: the cached one, or a new one for the record that `verified` returns.
pub(super) fn target(
    library: &'static Library,
    dataset: Hid,
    file: &Handle,
    instance: u64,
    record: RecordDigest,
    verified: impl FnOnce() -> Result<Arc<VerifiedRecord>>,
) -> Result<Target> {
    let plan = match known_plan(library, instance, record) {
        Some(plan) => plan,
        None => {
            let plan = Arc::new(Plan::new(library, dataset, file, instance, verified()?)?);
            keep_plan(library, &plan);
            plan
        }
    };
    check_shape(library, dataset, &plan.verified).map_err(|e| plan.explain(&e))?;
    Ok((dataset, plan))
}

/// Returns `targets`, or an error if it is empty.
pub(super) fn require_targets(targets: Vec<Target>) -> Result<Vec<Target>> {
    if targets.is_empty() {
        fail!(
            Unsupported,
            "the dataset that is read is not open by itself; if it is the source of a virtual dataset, open it in this program, too, and read again"
        )
    }
    Ok(targets)
}

fn known_plan(library: &Library, instance: u64, record: RecordDigest) -> Option<Arc<Plan>> {
    let plans = cache(&PLANS)?;
    let trusted = trust::stamp();
    let same = |(base, p): &&(usize, Arc<Plan>)| {
        *base == library.base() && (p.instance, p.verified.digest, p.trust) == (instance, record, trusted)
    };
    plans.iter().find(same).map(|(_, p)| Arc::clone(p))
}

fn keep_plan(library: &Library, plan: &Arc<Plan>) {
    if plan.read_only
        && let Some(mut plans) = cache(&PLANS)
    {
        if plans.len() >= MAX_PLANS {
            plans.remove(0);
        }
        plans.push((library.base(), Arc::clone(plan)));
    }
}

/// Returns the open datasets whose filters have the client data of the live dataset `id`. Datasets that store
/// ordinary values are returned only if there is no other: then a chunk without its record is being read.
fn live(library: &'static Library, open: &[Hid], id: LiveId) -> Vec<Hid> {
    let (mut computed, mut others) = (Vec::new(), Vec::new());
    for &dataset in open {
        let Ok(plist) = library.create_plist(dataset) else { continue };
        if library.live_filter(plist.id).is_some_and(|words| is_client_data_for(&words, id)) {
            let list = if is_computed(library, dataset, plist.id) { &mut computed } else { &mut others };
            list.push(dataset);
        }
    }
    if computed.is_empty() { others } else { computed }
}

/// Returns whether a dataset with our filter is computed. A dataset that a program created with the creation
/// properties of a live one may store ordinary values instead.
pub(crate) fn is_computed(library: &'static Library, dataset: Hid, plist: Hid) -> bool {
    let optional = library.live_filter_of_copy(plist).is_some_and(|(flags, _)| flags & OPTIONAL != 0);
    !optional
        || record::first_chunk(library, dataset)
            .is_ok_and(|chunk| chunk.is_some_and(|chunk| is_legacy(&chunk) || Stub::parse(&chunk).is_ok()))
}

/// Returns whether the live dataset that has these creation properties is open in a writable file.
///
/// HDF5 calls `can_apply` when a dataset is created (the dataset is not open then), and before the first
/// write.
pub(crate) fn is_written(library: &'static Library, plist: Hid) -> bool {
    let Some(filter) = library.live_filter_of_copy(plist) else { return false };
    library.open_ids(ALL_FILES, OBJ_DATASET).into_iter().any(|dataset| {
        let writable = library.object_file(dataset).is_ok_and(|file| library.intent(&file) & ACC_RDWR != 0);
        writable
            && library.create_plist(dataset).is_ok_and(|p| {
                library.live_filter_of_copy(p.id).as_ref() == Some(&filter)
                    && is_computed(library, dataset, p.id)
            })
    })
}

/// Returns whether the client data of a filter belong to the live dataset `id`.
pub(crate) fn is_client_data_for(words: &[u32], id: LiveId) -> bool {
    words.first() == Some(&CLIENT_DATA_VERSION) && words.get(1..) == Some(&id.to_words()[..])
}
