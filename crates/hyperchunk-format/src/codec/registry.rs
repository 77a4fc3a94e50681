//! Registry of codecs by filter identifier.

use super::bit_rounding::BitRounding;
use super::{Codec, fletcher32, lzf, nbit, scaleoffset, shuffle, szip};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Codecs registered by applications; they take precedence over built-in ones.
static REGISTERED: RwLock<BTreeMap<u16, Arc<dyn Codec>>> = RwLock::new(BTreeMap::new());

/// Built-in codecs.
const BUILT_IN: &[&dyn Codec] = &[
    #[cfg(feature = "bitshuffle")]
    &super::bitshuffle::Bitshuffle,
    #[cfg(feature = "blosc")]
    &super::blosc::Blosc,
    #[cfg(feature = "blosc2")]
    &super::blosc2::Blosc2,
    #[cfg(feature = "bzip2")]
    &super::bzip2::Bzip2,
    #[cfg(feature = "deflate")]
    &super::deflate::Deflate,
    #[cfg(feature = "fcidecomp")]
    &super::fcidecomp::Fcidecomp,
    #[cfg(feature = "lz4")]
    &super::lz4::Lz4,
    #[cfg(feature = "snappy")]
    &super::snappy::Snappy,
    #[cfg(feature = "zfp")]
    &super::zfp::Zfp,
    #[cfg(feature = "zstd")]
    &super::zstd::Zstd,
    &shuffle::Shuffle,
    &fletcher32::Fletcher32,
    #[cfg(feature = "sperr")]
    &super::sperr::Sperr,
    &szip::Szip,
    &nbit::NBit,
    &scaleoffset::ScaleOffset,
    &lzf::Lzf,
    &BitRounding { id: 32022, name: "bitgroom" },
    &BitRounding { id: 32023, name: "granular bit round" },
    &BitRounding { id: 32032, name: "bitround" },
    #[cfg(feature = "sz")]
    &super::sz::Sz,
    #[cfg(feature = "sz3")]
    &super::sz3::Sz3,
];

/// Registers `codec` for its filter identifier, for every file of this process.
pub fn register_codec(codec: Arc<dyn Codec>) {
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).insert(codec.id(), codec);
}

/// Returns the name of a filter: the name of its codec, which is libhdf5's, or else the registered name.
#[must_use]
pub fn filter_name(id: u16) -> Option<&'static str> {
    lookup(id, |codec| codec.map(Codec::name)).or_else(|| super::registered::name(id))
}

/// Calls `with` with the codec of a filter, if there is one.
pub fn lookup<T>(id: u16, with: impl FnOnce(Option<&dyn Codec>) -> T) -> T {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    match registered {
        Some(codec) => with(Some(&*codec)),
        None => with(BUILT_IN.iter().find(|codec| codec.id() == id).copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::codec::{Context, EncodeContext};

    #[test]
    fn every_number_once() {
        for (place, codec) in BUILT_IN.iter().enumerate() {
            let again = BUILT_IN[place + 1..].iter().find(|other| other.id() == codec.id());
            assert!(again.is_none(), "{codec:?} {again:?}");
        }
    }

    #[test]
    fn only_codecs_with_an_encoder_say_that_they_have_one() {
        for codec in BUILT_IN {
            let context = EncodeContext { parameters: &[], optional: true };
            let encoded = codec.encode(&[0; 16], &mut Vec::new(), &context);
            let is_refused =
                encoded.is_err_and(|error| error.message().contains("can be read, but not written"));
            assert_eq!(codec.can_encode(), !is_refused, "{codec:?}");
        }
    }

    #[derive(Debug)]
    struct TestCodec(&'static str);

    impl Codec for TestCodec {
        fn id(&self) -> u16 {
            40_000
        }
        fn name(&self) -> &'static str {
            self.0
        }
        fn decode(&self, _: &[u8], _: &mut Vec<u8>, _: &Context<'_>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_one_registered_counts() {
        let name = || lookup(40_000, |codec| codec.map(Codec::name));
        assert_eq!(name(), None);
        register_codec(Arc::new(TestCodec("first")));
        register_codec(Arc::new(TestCodec("second")));
        assert_eq!(name(), Some("second"));
    }
}
