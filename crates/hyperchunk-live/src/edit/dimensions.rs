//! Dimension scales, as netCDF and h5py use them: a live dataset has the scales of its inputs.
//!
//! A dataset lists its scales in the attribute `DIMENSION_LIST`, and each scale its datasets in
//! `REFERENCE_LIST` (HDF5's dimension scale specification).

use super::open::OpenFile;
use super::{absolute, attributes, fail, lookup};
use crate::to_udf_error;
use hyperchunk::model::{Attribute, ByteOrder, Class, Dataspace, Datatype, Member, ReferenceKind};
use hyperchunk::write::{NodeId, Writer};
use hyperchunk::{File, Object};
use hyperchunk_udf::error::{Error, ErrorKind, Result};

const LIST: &str = "DIMENSION_LIST";
const USERS: &str = "REFERENCE_LIST";
const CLASS: &str = "CLASS";
/// Size in bytes of an object reference.
const REFERENCE_BYTES: usize = 8;
/// Size in bytes of an element of `REFERENCE_LIST`, a C structure.
const USER_BYTES: usize = 16;
/// Maximum number of entries in one list.
const MAX_REFERENCES: usize = 1 << 20;
const MAX_DIMENSIONS: usize = 32;

/// The addresses of the scales of each dimension.
pub(super) type Scales = Vec<Vec<u64>>;

/// An element of `REFERENCE_LIST`: a dataset that uses the scale.
#[derive(Clone, Copy)]
struct User {
    dataset: u64,
    dimension: i32,
}

fn engine(error: hyperchunk::Error) -> Error {
    to_udf_error(&error)
}

fn reference_type() -> Datatype {
    Datatype { size: REFERENCE_BYTES as u64, class: Class::Reference(ReferenceKind::Object1) }
}

/// Returns the type of `REFERENCE_LIST`, as libhdf5's.
fn user_type() -> Datatype {
    let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
    let integer = Datatype::integer(4, true, ByteOrder::Little);
    let members =
        vec![member("dataset", 0, reference_type()), member("dimension", REFERENCE_BYTES as u64, integer)];
    Datatype { size: USER_BYTES as u64, class: Class::Compound { members } }
}

/// Returns the scales of the first of these datasets that has any.
pub(super) fn input_scales<'a>(
    file: &File,
    names: impl Iterator<Item = &'a str>,
    rank: usize,
) -> Result<Option<Scales>> {
    for name in names {
        let dataset = lookup::dataset(file, &absolute(name))?;
        let object = dataset.object();
        // References point to objects of their own file.
        if !object.file().same(file) {
            continue;
        }
        if let Some(scales) = read_scales(object)?.filter(|scales| scales.len() == rank) {
            return Ok(Some(scales));
        }
        if rank == 1 && object.attribute(CLASS.as_bytes()).map_err(engine)?.is_some() {
            // The dataset is itself a scale.
            return Ok(Some(vec![vec![object.address()]]));
        }
    }
    Ok(None)
}

/// Reads the scales of a dataset.
fn read_scales(object: &Object) -> Result<Option<Scales>> {
    let attribute = object.attribute(LIST.as_bytes()).map_err(engine)?;
    let Some(Attribute { datatype, data, .. }) = attribute else { return Ok(None) };
    let Class::Vlen { base } = &datatype.class else { return Ok(None) };
    let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
    if **base != reference_type() || data.len() / size > MAX_DIMENSIONS {
        return Ok(None);
    }
    let mut sequences = object.file().sequences();
    let mut scales = Vec::new();
    for element in data.chunks_exact(size) {
        let found = sequences.get(element, base).map_err(engine)?;
        let bytes = found.map_or(&[][..], |(_, bytes)| bytes);
        let references = bytes.chunks_exact(REFERENCE_BYTES).filter_map(|one| one.first_chunk());
        scales.push(references.map(|one| u64::from_le_bytes(*one)).collect());
    }
    Ok(Some(scales))
}

/// Attaches scales to a dataset.
pub(super) fn attach(file: &Writer, dataset: NodeId, scales: &Scales) -> Result<()> {
    let mut data = Vec::new();
    for row in scales {
        let references: Vec<u8> = row.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        match row.len() {
            0 => data.extend_from_slice(&[0; 16]),
            count => data.extend(file.store_attribute_sequence(count, &references).map_err(engine)?),
        }
    }
    let datatype = Datatype { size: 16, class: Class::Vlen { base: Box::new(reference_type()) } };
    let list = attributes::new(LIST, datatype, one_dimension(scales.len()), data);
    file.set_attribute(dataset, list).map_err(engine)?;
    let own = file.address(dataset).map_err(engine)?;
    for (dimension, row) in (0..).zip(scales) {
        for scale in row {
            change(file, *scale, |users| users.push(User { dataset: own, dimension }))?;
        }
    }
    Ok(())
}

fn one_dimension(count: usize) -> Dataspace {
    let count = count as u64;
    Dataspace::Simple { dims: vec![count], max: vec![Some(count)] }
}

/// Removes a dataset from the lists of its scales, before it is deleted.
pub(super) fn forget(opened: &OpenFile, dataset: NodeId) -> Result<()> {
    let file = opened.writer()?;
    let own = file.address(dataset).map_err(engine)?;
    let object = file.snapshot_object(dataset).map_err(engine)?;
    let Some(scales) = read_scales(&object)? else { return Ok(()) };
    for scale in scales.iter().flatten() {
        change(file, *scale, |users| users.retain(|user| user.dataset != own))?;
    }
    Ok(())
}

/// Changes the list of datasets that use a scale.
fn change(file: &Writer, scale: u64, with: impl FnOnce(&mut Vec<User>)) -> Result<()> {
    let scale = file.edited_object(scale);
    let scale = scale.ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "there is no object at the address of a dimension scale")
    })?;
    let old = file.attribute(scale, USERS.as_bytes()).map_err(engine)?;
    let mut users = match &old {
        Some(attribute) => read_users(attribute)?,
        None => Vec::new(),
    };
    with(&mut users);
    if old.is_some() {
        file.delete_attribute(scale, USERS.as_bytes()).map_err(engine)?;
    }
    if users.is_empty() {
        return Ok(());
    }
    let data = users.iter().flat_map(|user| {
        let dataset = user.dataset.to_le_bytes().into_iter();
        dataset.chain(user.dimension.to_le_bytes()).chain([0; 4])
    });
    let list = attributes::new(USERS, user_type(), one_dimension(users.len()), data.collect());
    file.set_attribute(scale, list).map_err(engine)
}

fn read_users(attribute: &Attribute) -> Result<Vec<User>> {
    let unknown = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("the {USERS} of a dimension scale has an unexpected datatype"),
        )
    };
    let Class::Compound { members } = &attribute.datatype.class else { return Err(unknown()) };
    let member = |name: &str| members.iter().find(|member| member.name.as_bytes() == name.as_bytes());
    let (Some(dataset), Some(dimension)) = (member("dataset"), member("dimension")) else {
        return Err(unknown());
    };
    let Class::Integer { order, .. } = dimension.datatype.class else { return Err(unknown()) };
    if dataset.datatype != reference_type() || dimension.datatype.size != 4 || order == ByteOrder::Vax {
        return Err(unknown());
    }
    let size = usize::try_from(attribute.datatype.size).unwrap_or(usize::MAX).max(1);
    if attribute.data.len() / size > MAX_REFERENCES {
        fail!(
            Limit,
            "a dimension scale has {} datasets, over the limit of {MAX_REFERENCES}",
            attribute.data.len() / size
        )
    }
    let part = |element: &[u8], member: &Member| {
        let start = usize::try_from(member.offset).ok()?;
        element.get(start..).map(<[u8]>::to_vec)
    };
    let users = attribute.data.chunks_exact(size).map(|element| {
        let dataset = *part(element, dataset)?.first_chunk()?;
        let dimension = *part(element, dimension)?.first_chunk()?;
        let dimension = if order == ByteOrder::Big {
            i32::from_be_bytes(dimension)
        } else {
            i32::from_le_bytes(dimension)
        };
        Some(User { dataset: u64::from_le_bytes(dataset), dimension })
    });
    users.collect::<Option<Vec<_>>>().ok_or_else(unknown)
}
