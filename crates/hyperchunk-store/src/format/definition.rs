//! Definitions of datasets, as their writers declare them.

use super::id::{DatasetId, hash};
use crate::format::varint::{Out, blob, extents, number};
use hyperchunk::{Error, Limits, Result};
use hyperchunk_format::Cursor;
use hyperchunk_format::encode::{LibVersion, message as encode};
use hyperchunk_format::model::{AllocationTime, Datatype, FillTime, FillValue, FillWhen, Pipeline};
use hyperchunk_format::parse::message as parse;

/// Definition of a dataset. All writers with the same definition mean the same dataset, without any
/// agreement between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Absolute path at creation. The dataset may be renamed later.
    pub path: Vec<u8>,
    /// Datatype of its elements.
    pub datatype: Datatype,
    /// Initial extent.
    pub dims: Vec<u64>,
    /// Maximum of each dimension; `None` is unlimited.
    pub max: Vec<Option<u64>>,
    /// Extent of its chunks, if it is chunked.
    pub chunk: Option<Vec<u64>>,
    /// Filter pipeline of its chunks.
    pub pipeline: Pipeline,
    /// Fill value of elements that were never written.
    pub fill: FillValue,
    /// Number of datasets of the same definition that were made and deleted before it.
    pub incarnation: u32,
    /// HDF5's own encoding of the creation properties (`H5Pencode2`), if libhdf5 made it. Not part
    /// of its identity.
    pub native: Vec<u8>,
}

impl Definition {
    /// Defines a contiguous dataset of fixed extent whose unwritten elements are zero.
    #[must_use]
    pub fn new(path: impl Into<Vec<u8>>, datatype: Datatype, dims: Vec<u64>) -> Self {
        let max = dims.iter().copied().map(Some).collect();
        Self {
            path: path.into(),
            datatype,
            dims,
            max,
            chunk: None,
            pipeline: Pipeline::new(),
            fill: FillValue::default(),
            incarnation: 0,
            native: Vec::new(),
        }
    }

    /// Returns the dataset's identity.
    ///
    /// # Errors
    /// As [`Definition::encode`].
    pub fn id(&self) -> Result<DatasetId> {
        Ok(DatasetId(hash(&self.identity()?)))
    }

    /// Returns the value of unwritten elements: `None` for zeros, also if the fill value must never
    /// be written, as in libhdf5.
    #[must_use]
    pub fn unwritten(&self) -> Option<&[u8]> {
        match (self.fill.time, &self.fill.value) {
            (FillTime::Never, _) => None,
            (_, FillWhen::User(value)) if !value.is_empty() => Some(value),
            _ => None,
        }
    }

    /// Checks that the fill value has the size of an element.
    pub(crate) fn check_fill(&self) -> Result<()> {
        match &self.fill.value {
            FillWhen::User(value) if !value.is_empty() && value.len() as u64 != self.datatype.size => {
                let (found, size) = (value.len(), self.datatype.size);
                Err(Error::corrupt(format!("a fill value of {found} bytes for elements of {size} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the size of an element in bytes.
    #[must_use]
    pub fn element_size(&self) -> u64 {
        self.datatype.size
    }

    /// Encodes the definition.
    ///
    /// # Errors
    /// Unsupported for a datatype that no release of HDF5 can store.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Out(self.identity()?);
        out.blob(&self.native);
        Ok(out.0)
    }

    fn identity(&self) -> Result<Vec<u8>> {
        let mut out = Out::default();
        out.blob(&self.path);
        out.blob(&encode::datatype::encode(&self.datatype, LibVersion::V200)?);
        out.numbers(&self.dims);
        for max in &self.max {
            match max {
                Some(max) => {
                    out.u8(1);
                    out.number(*max);
                }
                None => out.u8(0),
            }
        }
        out.u8(u8::from(self.chunk.is_some()));
        out.numbers(self.chunk.as_deref().unwrap_or_default());
        let pipeline =
            if self.pipeline.is_empty() { Vec::new() } else { encode::pipeline::encode(&self.pipeline)? };
        out.blob(&pipeline);
        put_fill(&mut out, &self.fill);
        out.number(u64::from(self.incarnation));
        Ok(out.0)
    }

    /// Decodes a definition.
    ///
    /// # Errors
    /// Corrupt.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "store definition", 0);
        let path = blob(&mut cursor)?.to_vec();
        let datatype = blob(&mut cursor)?;
        let datatype = parse::datatype::parse(&mut Cursor::new(datatype, "datatype", 0), &Limits::default())?;
        let dims = extents(&mut cursor)?;
        let mut max = Vec::with_capacity(dims.len());
        for _ in &dims {
            max.push(if cursor.u8()? == 0 { None } else { Some(number(&mut cursor)?) });
        }
        let chunked = cursor.u8()? != 0;
        let chunk = extents(&mut cursor)?;
        if chunked && (chunk.len() != dims.len() || chunk.contains(&0)) {
            return Err(cursor.error(format!("chunks of {chunk:?} for {} dimensions", dims.len())));
        }
        let pipeline = match blob(&mut cursor)? {
            [] => Pipeline::new(),
            bytes => parse::pipeline::parse(&mut Cursor::new(bytes, "filter pipeline", 0))?,
        };
        let fill = get_fill(&mut cursor)?;
        let incarnation = u32::try_from(number(&mut cursor)?).unwrap_or(u32::MAX);
        let native = blob(&mut cursor)?.to_vec();
        if datatype.size == 0 {
            return Err(cursor.error("elements of 0 bytes".to_owned()));
        }
        let chunk = chunked.then_some(chunk);
        let definition = Self { path, datatype, dims, max, chunk, pipeline, fill, incarnation, native };
        definition.check_fill().map_err(|error| error.within("store definition"))?;
        Ok(definition)
    }
}

fn put_fill(out: &mut Out, fill: &FillValue) {
    let (kind, value) = match &fill.value {
        FillWhen::Default => (0, [].as_slice()),
        FillWhen::Undefined => (1, [].as_slice()),
        FillWhen::User(value) => (2, value.as_slice()),
    };
    out.u8(kind);
    out.blob(value);
    out.u8(match fill.allocation {
        AllocationTime::Default => 0,
        AllocationTime::Early => 1,
        AllocationTime::Late => 2,
        AllocationTime::Incremental => 3,
    });
    out.u8(match fill.time {
        FillTime::Allocation => 0,
        FillTime::Never => 1,
        FillTime::IfSet => 2,
    });
}

fn get_fill(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    let kind = cursor.u8()?;
    let value = blob(cursor)?.to_vec();
    let value = match kind {
        0 => FillWhen::Default,
        1 => FillWhen::Undefined,
        2 => FillWhen::User(value),
        other => return Err(cursor.error(format!("a fill value of unknown kind {other}"))),
    };
    let allocation = match cursor.u8()? {
        0 => AllocationTime::Default,
        1 => AllocationTime::Early,
        2 => AllocationTime::Late,
        3 => AllocationTime::Incremental,
        other => return Err(cursor.error(format!("unknown allocation time {other}"))),
    };
    let time = match cursor.u8()? {
        0 => FillTime::Allocation,
        1 => FillTime::Never,
        2 => FillTime::IfSet,
        other => return Err(cursor.error(format!("unknown fill time {other}"))),
    };
    Ok(FillValue { value, allocation, time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::model::{ByteOrder, Filter};

    #[test]
    fn definitions_come_back() {
        let plain = Definition::new("/a", Datatype::ieee(8, ByteOrder::Big), vec![3, 0, 5]);
        let mut full = plain.clone();
        full.max = vec![None, Some(7), Some(5)];
        full.chunk = Some(vec![1, 2, 3]);
        full.pipeline = vec![Filter { id: 1, optional: true, name: None, parameters: vec![6] }];
        full.fill.value = FillWhen::User(vec![1; 8]);
        full.incarnation = 3;
        full.native = vec![9; 40];
        for definition in [&plain, &full] {
            let bytes = definition.encode().unwrap();
            assert_eq!(&Definition::decode(&bytes).unwrap(), definition);
            for cut in 0..bytes.len() {
                assert!(Definition::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert_ne!(plain.id().unwrap(), full.id().unwrap());
        let mut lies = full.clone();
        lies.fill.value = FillWhen::User(vec![1; 7]);
        assert!(Definition::decode(&lies.encode().unwrap()).is_err());
        assert_eq!(full.unwritten(), Some([1; 8].as_slice()));
        lies.fill.time = FillTime::Never;
        assert_eq!(lies.unwritten(), None);
        let mut other = full.clone();
        other.native.clear();
        assert_eq!(other.id().unwrap(), full.id().unwrap());
    }
}
