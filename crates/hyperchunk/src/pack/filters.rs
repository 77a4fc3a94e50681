//! Filter pipelines of new datasets.

use crate::{Error, Result};
use hyperchunk_format::codec::{self, Target};
use hyperchunk_format::model::{Filter, Pipeline};

/// Adapts the parameters of filters to chunks of another extent or elements of another type.
///
/// # Errors
/// Unsupported for filters whose parameters for other chunks cannot be derived; the errors of
/// [`codec::filter`].
pub(super) fn adapt(pipeline: &[Filter], target: &Target<'_>) -> Result<Pipeline> {
    let adapt = |old: &Filter| {
        let parameters = &old.parameters;
        // The stored parameters that the user chose; the filter itself adds the others.
        let options = match old.id {
            1 | 307 | 32004 | 32015 => parameters.get(..1),
            2 | 3 | 5 | 32000 => parameters.get(..0),
            4 | 6 => parameters.get(..2),
            32001 | 32003 | 32026 => Some(&parameters[..]),
            32008 => parameters.get(3..),
            _ => None,
        };
        let Some(options) = options else {
            let name = codec::lookup(old.id, |codec| codec.map(codec::Codec::name));
            let message = format!(
                "cannot keep the filter {} ({}) for other chunks: choose other filters for this dataset",
                name.unwrap_or("without a name"),
                old.id
            );
            return Err(Error::unsupported(message));
        };
        let new = codec::filter(old.id, options, target)?;
        Ok(Filter { parameters: new.parameters, ..old.clone() })
    };
    pipeline.iter().map(adapt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::model::{ByteOrder, Datatype, FillWhen};

    #[test]
    fn parameters_follow_the_chunk() {
        let datatype = Datatype::integer(4, true, ByteOrder::Little);
        let target = Target { datatype: &datatype, chunk: &[10, 5], fill: &FillWhen::Default };
        let filter = |id, parameters: &[u32]| Filter {
            id,
            optional: true,
            name: None,
            parameters: parameters.to_vec(),
        };
        let before = [filter(2, &[8]), filter(1, &[6]), filter(32000, &[4, 261, 1]), filter(3, &[])];
        let after = adapt(&before, &target).unwrap();
        assert_eq!(after, [filter(2, &[4]), filter(1, &[6]), filter(32000, &[4, 261, 200]), filter(3, &[])]);
        let before = [filter(32008, &[0, 4, 8, 0, 2])];
        assert_eq!(adapt(&before, &target).unwrap()[0].parameters[2..], [4, 0, 2]);
        let error = adapt(&[filter(32013, &[8])], &target).unwrap_err();
        assert!(error.message().contains("(32013)"), "{error}");
    }
}
