//! Which codec undoes which filter.

use super::{Codec, fletcher32, shuffle};
use crate::model::Filter;
use crate::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Codecs that applications brought; they win over those built in.
static REGISTERED: RwLock<BTreeMap<u16, Arc<dyn Codec>>> = RwLock::new(BTreeMap::new());

/// The codecs that are built in, by number.
const BUILT_IN: &[&dyn Codec] = &[
    #[cfg(feature = "bitshuffle")]
    &super::bitshuffle::Bitshuffle,
    #[cfg(feature = "bzip2")]
    &super::bzip2::Bzip2,
    #[cfg(feature = "deflate")]
    &super::deflate::Deflate,
    #[cfg(feature = "lz4")]
    &super::lz4::Lz4,
    #[cfg(feature = "zstd")]
    &super::zstd::Zstd,
    &shuffle::Shuffle,
    &fletcher32::Fletcher32,
    #[cfg(feature = "sperr")]
    &super::sperr::Sperr,
];

/// Makes `codec` the one for its filter number from now on, for every file of this process.
pub fn register_codec(codec: Arc<dyn Codec>) {
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).insert(codec.id(), codec);
}

/// Calls `with` with the codec for a filter number, if there is one.
pub fn lookup<T>(id: u16, with: impl FnOnce(Option<&dyn Codec>) -> T) -> T {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    match registered {
        Some(codec) => with(Some(&*codec)),
        None => with(BUILT_IN.iter().find(|codec| codec.id() == id).copied()),
    }
}

/// The error for a filter that no codec undoes.
#[cold]
pub(super) fn missing(filter: &Filter) -> Error {
    Error::new(ErrorKind::MissingFilter, format!("filter {} is not available", filter.id))
}
