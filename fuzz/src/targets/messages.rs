//! Messages of object headers and what is encoded like them. The first byte chooses the widths of addresses and lengths.

use hyperchunk_format::convert::{Conversion, memory_type};
use hyperchunk_format::model::{Datatype, ReferenceKind, StoredSelection};
use hyperchunk_format::parse::message::{
    attribute, attribute_info, comment, dataspace, datatype, external_files, fill_value, group_info, layout,
    link, link_info, modification_time, pipeline, symbol_table,
};
use hyperchunk_format::parse::{reference, selection};
use hyperchunk_format::select::Selection;
use hyperchunk_format::{Cursor, Fuel, Image, Limits, Sizes};

/// Calls `run` with an image of the bytes behind the first, and a cursor at their start.
fn with(data: &[u8], run: impl FnOnce(Image<'_>, Cursor<'_>)) {
    let Some((first, rest)) = data.split_first() else { return };
    let width = |bits: u8| [8, 4, 2, 16][usize::from(bits & 3)];
    let sizes = Sizes { address: width(*first), length: width(first >> 2) };
    let limits = Limits::default();
    let fuel = Fuel::new(&limits);
    run(Image::new(&rest, 0, sizes, &limits, &fuel), Cursor::new(rest, "fuzzed", 0));
}

/// What readers do with a datatype.
fn use_datatype(datatype: &Datatype) {
    let memory = memory_type(datatype);
    for (from, to) in [(datatype, &memory), (&memory, datatype), (datatype, datatype)] {
        let Ok(conversion) = Conversion::new(from, to) else { continue };
        let (Ok(size), Ok(to_size)) = (usize::try_from(from.size), usize::try_from(to.size)) else {
            continue;
        };
        if size <= 1 << 16 && to_size <= 1 << 16 {
            let bytes: Vec<u8> = (0..size * 3).map(|at| (at * 37) as u8).collect();
            let _ = conversion.run(&bytes, &mut vec![0; to_size * 3], 3);
        }
    }
    let _ = (datatype.has_vlen(), datatype.has_reference(), datatype.array_length(), format!("{datatype:?}"));
}

pub(super) fn datatype(data: &[u8]) {
    with(data, |image, mut cursor| {
        if let Ok(datatype) = datatype::parse(&mut cursor, image.limits) {
            use_datatype(&datatype);
        }
    });
}

pub(super) fn attribute(data: &[u8]) {
    with(data, |image, mut cursor| {
        let _ = attribute::parse_name(&mut cursor.clone());
        if let Ok(attribute) = attribute::parse(image, &mut cursor) {
            use_datatype(&attribute.datatype);
        }
    });
}

pub(super) fn dataspace(data: &[u8]) {
    with(data, |image, mut cursor| {
        if let Ok(space) = dataspace::parse(&mut cursor, image.sizes) {
            let _ = (space.elements(), space.dims().len());
        }
    });
}

pub(super) fn layout(data: &[u8]) {
    with(data, |image, mut cursor| drop(layout::parse(&mut cursor, image.sizes)));
}

pub(super) fn pipeline(data: &[u8]) {
    with(data, |_, mut cursor| drop(pipeline::parse(&mut cursor)));
}

pub(super) fn fill_value(data: &[u8]) {
    with(data, |_, mut cursor| {
        drop(fill_value::parse_old(&mut cursor.clone()));
        drop(fill_value::parse(&mut cursor));
    });
}

pub(super) fn link(data: &[u8]) {
    with(data, |image, mut cursor| drop(link::parse(&mut cursor, image.sizes)));
}

/// Those that are short.
pub(super) fn small(data: &[u8]) {
    with(data, |image, mut cursor| {
        let _ = attribute_info::parse(&mut cursor.clone(), image.sizes);
        let _ = link_info::parse(&mut cursor.clone(), image.sizes);
        let _ = group_info::parse(&mut cursor.clone());
        let _ = symbol_table::parse(&mut cursor.clone(), image.sizes);
        let _ = modification_time::parse(&mut cursor.clone());
        let _ = modification_time::parse_old(&mut cursor.clone());
        let _ = comment::parse(&cursor);
        let _ = external_files::parse(image, &mut cursor);
    });
}

pub(super) fn selection(data: &[u8]) {
    with(data, |_, mut cursor| {
        if let Ok(selection) = selection::parse(&mut cursor) {
            use_selection(&selection);
        }
    });
}

fn use_selection(stored: &StoredSelection) {
    for rank in 1..4 {
        for dim in [0, 1, 10, 1 << 20, u64::MAX] {
            let dims = vec![dim; rank];
            let Ok(selection) = Selection::resolve(stored, &dims) else { continue };
            let _ = (selection.count(&dims), selection.bounds(&dims), selection.shape(&dims));
        }
    }
}

pub(super) fn reference(data: &[u8]) {
    const KINDS: [ReferenceKind; 5] = [
        ReferenceKind::Object1,
        ReferenceKind::Region1,
        ReferenceKind::Object2,
        ReferenceKind::Region2,
        ReferenceKind::Attribute,
    ];
    with(data, |image, mut cursor| {
        let Ok(kind) = cursor.u8() else { return };
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let (element, object) = cursor.rest().split_at(cursor.left().min(18));
        let _ = reference::parse(image, kind, element);
        let found = reference::parse_with(image, kind, element, &mut |_, _| Ok(object.to_vec()));
        if let Some(region) = found.ok().flatten().and_then(|reference| reference.region) {
            use_selection(&region.selection);
        }
    });
}
