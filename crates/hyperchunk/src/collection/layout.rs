//! Layout of a file in a collection: its datasets with their datatypes, dimensions, and the attributes that
//! define how values are decoded. All files of a collection have the same layout.

use crate::references::plain_attributes;
use crate::storage::Marker;
use crate::walk::{Next, VisitedItem};
use crate::{Dataset, Error, File, Object, Result};
use hyperchunk_format::model::{Class, Dataspace, Datatype, Name, ObjectKind, ReferenceKind, VirtualMapping};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};

/// Attributes that define the meaning of stored values.
const CODING: [&str; 19] = [
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "_Unsigned",
    "units",
    "calendar",
    "valid_range",
    "valid_min",
    "valid_max",
    "flag_values",
    "flag_masks",
    "flag_meanings",
    "positive",
    "standard_name",
    "coordinates",
    "grid_mapping",
    "formula_terms",
    "dtype",
];
/// Start of the attribute `NAME` of a netCDF dimension without values.
const NOT_A_VARIABLE: &[u8] = b"This is a netCDF dimension but not a netCDF variable";

/// The datasets of a file, by path.
pub(super) type FileLayout = BTreeMap<Vec<u8>, DatasetLayout>;

/// A dataset of one file.
#[derive(Debug, Clone)]
pub(super) struct DatasetLayout {
    pub(super) datatype: Datatype,
    pub(super) dims: Vec<u64>,
    unlimited: Vec<bool>,
    /// Path of the first dimension scale of each axis.
    pub(super) scales: Vec<Option<Vec<u8>>>,
    coding: Map<String, Value>,
    /// True for a dimension scale with values.
    is_coordinate: bool,
    /// Advice for a dataset whose elements are in other files, which a collection does not read.
    pub(super) elsewhere: Option<&'static str>,
}

/// Axis along which files are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concat {
    /// The axes whose dimension scale has this name, or this path if it begins with `/`.
    Dimension(String),
    /// The first axis of every dataset that has one.
    FirstAxis,
}

impl Concat {
    /// Returns the axis of a dataset along which files are joined.
    ///
    /// # Errors
    /// Invalid if there are two such axes.
    pub(super) fn axis(&self, dataset: &DatasetLayout) -> Result<Option<usize>> {
        let Self::Dimension(name) = self else {
            return Ok((!dataset.dims.is_empty()).then_some(0));
        };
        let is_named = |path: &Vec<u8>| match name.starts_with('/') {
            true => path == name.as_bytes(),
            false => path.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes()),
        };
        let named = |(_, scale): &(usize, &Option<Vec<u8>>)| scale.as_ref().is_some_and(is_named);
        let mut axes = dataset.scales.iter().enumerate().filter(named).map(|(axis, _)| axis);
        match (axes.next(), axes.next()) {
            (Some(_), Some(_)) => {
                Err(Error::invalid(format!("cannot join two axes of a dataset along {name}")))
            }
            (first, _) => Ok(first),
        }
    }

    /// Chooses the only unlimited dimension of a file.
    ///
    /// # Errors
    /// Invalid if there is none, or more than one.
    pub(super) fn choose(layout: &FileLayout) -> Result<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut all: Vec<String> = Vec::new();
        for dataset in layout.values() {
            for (scale, unlimited) in dataset.scales.iter().zip(&dataset.unlimited) {
                let Some(scale) = scale else { continue };
                let leaf = scale.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let name = String::from_utf8_lossy(leaf).into_owned();
                if *unlimited && !names.contains(&name) {
                    names.push(name.clone());
                }
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        let message = match <[String; 1]>::try_from(names) {
            Ok([one]) => return Ok(Self::Dimension(one)),
            Err(names) if names.is_empty() && all.is_empty() => {
                "cannot join the files: the first file has no named dimensions; join the first axes of all datasets with concat=0".to_owned()
            }
            Err(names) if names.is_empty() => {
                format!("cannot join the files: the first file has no unlimited dimension; choose one of {} with concat=", all.join(", "))
            }
            Err(names) => format!(
                "cannot join the files: the first file has several unlimited dimensions; choose one of {} with concat=",
                names.join(", ")
            ),
        };
        Err(Error::invalid(message))
    }
}

/// Returns the length of the dimension of a dataset's axis: the extent of the longest dataset with the same
/// dimension scale. A dataset may have fewer rows than its unlimited dimension; the missing rows are fill
/// values.
pub(super) fn dimension_length(layout: &FileLayout, dataset: &DatasetLayout, axis: usize) -> u64 {
    let own = dataset.dims.get(axis).copied().unwrap_or(0);
    let Some(scale) = dataset.scales.get(axis).and_then(Option::as_ref) else { return own };
    let lengths = layout.values().flat_map(|other| {
        let named = other.scales.iter().zip(&other.dims).filter(|(name, _)| name.as_ref() == Some(scale));
        named.map(|(_, length)| *length)
    });
    lengths.fold(own, u64::max)
}

/// Describes the datasets of a file.
///
/// # Errors
/// Errors of reading the file, and of objects that cannot be read.
pub(super) fn describe(file: &File) -> Result<FileLayout> {
    let mut found: Vec<(Vec<u8>, Object)> = Vec::new();
    file.walk(&file.root()?, b"/", &mut |visit| {
        match visit.found {
            VisitedItem::Object(object) if object.kind() == ObjectKind::Dataset => {
                found.push((visit.path.to_vec(), object.clone()));
            }
            VisitedItem::Broken(error) => return Err(error),
            VisitedItem::Object(_) | VisitedItem::Again(_) | VisitedItem::Link => {}
        }
        Ok(Next::Enter)
    })?;
    let paths: HashMap<u64, &[u8]> = found.iter().map(|(path, object)| (object.address(), &**path)).collect();
    let describe = |(path, object): &(Vec<u8>, Object)| {
        let described = DatasetLayout::new(path, object, &paths)?;
        Ok((path.clone(), described))
    };
    found.iter().map(describe).collect()
}

/// Returns advice for a dataset whose elements are in other files than its own.
fn elsewhere(dataset: &Dataset) -> Option<&'static str> {
    let is_outside = |mapping: &VirtualMapping| mapping.file.parts != [Name::from(".")];
    if dataset.store().is_some() || Marker::from_dataset(dataset).is_some() {
        return Some("make one file of the sharded store (`hyperchunk store pack`), and collect that");
    }
    let is_elsewhere = !dataset.external().is_empty() || dataset.mappings().iter().any(is_outside);
    is_elsewhere.then_some("copy its elements into one file (`hyperchunk pack --embed`), and collect that")
}

impl DatasetLayout {
    /// Describes a dataset. `paths` has the paths of all datasets by the address of their object header.
    fn new(path: &[u8], object: &Object, paths: &HashMap<u64, &[u8]>) -> Result<Self> {
        let dataset = object.dataset()?;
        let mut coding = plain_attributes(object)?;
        coding.retain(|name, _| CODING.contains(&name.as_str()));
        let starts = |name: &[u8], start: &[u8]| {
            let attribute = object.attribute(name)?;
            Ok::<bool, Error>(attribute.is_some_and(|attribute| attribute.data.starts_with(start)))
        };
        let is_scale = starts(b"CLASS", b"DIMENSION_SCALE")?;
        let mut scales = scales(&dataset, paths)?;
        if let (true, Some(own @ None)) = (is_scale, scales.first_mut()) {
            *own = Some(path.to_vec());
        }
        let unlimited = match dataset.dataspace() {
            Dataspace::Simple { max, .. } => max.iter().map(Option::is_none).collect(),
            Dataspace::Null | Dataspace::Scalar => Vec::new(),
        };
        Ok(Self {
            datatype: dataset.datatype().clone(),
            dims: dataset.dims().to_vec(),
            unlimited,
            scales,
            coding,
            is_coordinate: is_scale && dataset.dims().len() == 1 && !starts(b"NAME", NOT_A_VARIABLE)?,
            elsewhere: elsewhere(&dataset),
        })
    }

    /// Returns whether a collection stores the dataset's values: it is a coordinate whose elements have a
    /// fixed size.
    pub(super) fn has_kept_values(&self) -> bool {
        let varies = self.datatype.has_vlen() || self.datatype.has_reference();
        self.is_coordinate && !varies
    }

    /// Returns how this dataset differs from `first`, the dataset with the same path in the first file;
    /// `None` if it does not. The extent along `axis`, the joined axis, and the units of a coordinate along
    /// it may differ.
    pub(super) fn difference(&self, first: &Self, axis: Option<usize>) -> Option<String> {
        if self.datatype != first.datatype {
            return Some("its datatype differs from the first file's".into());
        }
        let fixed = |dims: &[u64]| {
            let kept = dims.iter().enumerate().filter(|(number, _)| Some(*number) != axis);
            kept.map(|(_, dim)| *dim).collect::<Vec<_>>()
        };
        if self.dims.len() != first.dims.len() || fixed(&self.dims) != fixed(&first.dims) {
            return Some(format!("its extent is {:?}, the first file's {:?}", self.dims, first.dims));
        }
        if self.scales != first.scales {
            return Some("its dimension scales differ from the first file's".into());
        }
        for name in CODING {
            let (own, others) = (self.coding.get(name), first.coding.get(name));
            let free = axis.is_some() && self.is_coordinate && ["units", "calendar"].contains(&name);
            if own != others && !free {
                let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
                return Some(format!(
                    "its attribute {name} is {}, the first file's {}",
                    shown(own),
                    shown(others)
                ));
            }
        }
        None
    }

    /// Returns the attributes `units` and `calendar`.
    pub(super) fn units(&self) -> [Option<&str>; 2] {
        ["units", "calendar"].map(|name| self.coding.get(name).and_then(Value::as_str))
    }
}

/// Returns the path of the first dimension scale of each axis. `paths` has the paths of datasets by address.
fn scales(dataset: &Dataset, paths: &HashMap<u64, &[u8]>) -> Result<Vec<Option<Vec<u8>>>> {
    let object = dataset.object();
    let mut scales = vec![None; dataset.dims().len()];
    let Some(list) = object.attribute(b"DIMENSION_LIST")? else { return Ok(scales) };
    let Class::Vlen { base } = &list.datatype.class else { return Ok(scales) };
    let size = usize::try_from(list.datatype.size).unwrap_or(usize::MAX).max(1);
    let width = usize::try_from(base.size).unwrap_or(usize::MAX);
    let mut sequences = object.file().sequences();
    for (scale, element) in scales.iter_mut().zip(list.data.chunks_exact(size)) {
        let Some((_, bytes)) = sequences.get(element, base)? else { continue };
        let Some(first) = bytes.get(..width) else { continue };
        let reference = object.file().reference(ReferenceKind::Object1, first)?;
        *scale = reference.and_then(|reference| paths.get(&reference.address)).map(|path| path.to_vec());
    }
    Ok(scales)
}
