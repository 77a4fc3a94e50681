//! Test of complete files from the encoders, read by HDF5's own tools if they are installed.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use hyperchunk_format::encode::blocks::one_after_another;
use hyperchunk_format::encode::message::{self, attribute_info::AttributeInfo, link_info::LinkInfo};
use hyperchunk_format::encode::object_header::{self, HeaderOptions, Message};
use hyperchunk_format::encode::{LibVersion, attributes, group, superblock};
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, EnumMember, FillTime, FillValue,
    FillWhen, Layout, Link, LinkTarget, Member, ReferenceKind, StringPadding,
};
use std::process::Command;

fn plain(kind: u16, data: Vec<u8>) -> Message {
    Message { kind, flags: 0, creation_order: None, data }
}

/// File under construction.
struct File(Vec<u8>);

impl File {
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let address = self.0.len() as u64;
        self.0.extend_from_slice(bytes);
        address
    }

    fn object(&mut self, messages: &[Message], tracked: bool) -> u64 {
        let options =
            HeaderOptions { times: None, attribute_order_tracked: tracked, attribute_order_indexed: tracked };
        let bytes = object_header::encode(messages, &options).unwrap();
        self.add(&bytes)
    }

    /// Appends a group with these links in its header or in a heap.
    fn group(&mut self, links: &[Link], dense: bool) -> u64 {
        let tracked = links.iter().all(|link| link.creation_order.is_some());
        let next_order = tracked.then_some(links.len() as u64);
        let mut info = LinkInfo { next_order, indexed: tracked, ..LinkInfo::default() };
        let mut messages = Vec::new();
        if dense {
            let dense =
                group::dense_links(links, tracked, &mut one_after_another(self.0.len() as u64)).unwrap();
            self.add(&dense.blocks.bytes);
            (info.heap, info.by_name, info.by_order) =
                (Some(dense.heap), Some(dense.by_name), dense.by_order);
        } else {
            messages.extend(links.iter().map(|l| plain(message::LINK, message::link::encode(l).unwrap())));
        }
        messages.push(plain(message::LINK_INFO, message::link_info::encode(&info).unwrap()));
        messages.push(plain(message::GROUP_INFO, vec![0, 0]));
        self.object(&messages, false)
    }

    /// Appends a scalar dataset of zeros with a scalar attribute of the same datatype.
    fn dataset(&mut self, datatype: &Datatype, oldest: LibVersion) -> u64 {
        let data = vec![0; usize::try_from(datatype.size).unwrap()];
        let layout = Layout::Compact { data: data.clone() };
        let allocation = message::fill_value::default_allocation(&layout);
        let fill = FillValue { value: FillWhen::Default, allocation, time: FillTime::IfSet };
        let info = AttributeInfo::default();
        let messages = [
            plain(message::DATASPACE, message::dataspace::encode(&Dataspace::Scalar).unwrap()),
            plain(message::DATATYPE, message::datatype::encode(datatype, oldest).unwrap()),
            plain(message::FILL_VALUE, message::fill_value::encode(&fill).unwrap()),
            plain(message::LAYOUT, message::layout::encode(&layout, oldest).unwrap()),
            plain(message::ATTRIBUTE_INFO, message::attribute_info::encode(&info).unwrap()),
            plain(message::ATTRIBUTE, attribute("of its type", datatype, data, None, oldest)),
        ];
        self.object(&messages, false)
    }

    /// Completes the file and reads it with the installed tools.
    fn check(mut self, name: &str, root: u64) {
        let superblock = superblock::encode(2, root, self.0.len() as u64, None, 0).unwrap();
        self.0.splice(..superblock.len(), superblock);
        let path = std::env::temp_dir().join(format!("hyperchunk-{}-{name}.h5", std::process::id()));
        std::fs::write(&path, &self.0).unwrap();
        for tool in ["h5dump", "h5stat", "h5debug"] {
            if let Ok(output) = Command::new(tool).arg(&path).output() {
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && error.is_empty(), "{tool} {name}: {error}");
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}

fn attribute(
    name: &str,
    datatype: &Datatype,
    data: Vec<u8>,
    order: Option<u32>,
    oldest: LibVersion,
) -> Vec<u8> {
    let dataspace = match (data.len() as u64) / datatype.size {
        1 => Dataspace::Scalar,
        count => Dataspace::Simple { dims: vec![count], max: vec![Some(count)] },
    };
    let attribute = Attribute {
        name: name.into(),
        charset: CharacterSet::Utf8,
        datatype: datatype.clone(),
        committed: None,
        dataspace,
        data,
        creation_order: order,
    };
    message::attribute::encode(&attribute, oldest).unwrap()
}

fn link(name: &str, order: Option<i64>, target: LinkTarget) -> Link {
    Link { name: name.into(), charset: CharacterSet::Utf8, creation_order: order, target }
}

fn datatypes() -> Vec<Datatype> {
    let of = |size, class| Datatype { size, class };
    let integer = |size| Datatype::integer(size, true, ByteOrder::Big);
    let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
    let value = |name: &str, value| EnumMember { name: name.into(), value: vec![0, value] };
    let members = vec![value("no", 0), value("a longer name", 1)];
    let names = of(2, Class::Enum { base: Box::new(integer(2)), members });
    let array = |base: Datatype| of(base.size * 6, Class::Array { dims: vec![2, 3], base: Box::new(base) });
    let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Utf8);
    let members = vec![member("a", 0, integer(2)), member("b", 4, names.clone())];
    let inner = of(20, Class::Compound { members });
    let members = vec![member("inner", 300, inner.clone()), member("é", 0, array(inner.clone()))];
    vec![
        integer(1),
        integer(8),
        Datatype::ieee(2, ByteOrder::Little),
        Datatype::ieee(8, ByteOrder::Big),
        of(4, Class::Integer { order: ByteOrder::Little, signed: true, offset: 3, precision: 20 }),
        of(2, Class::Bitfield { order: ByteOrder::Little, offset: 0, precision: 16 }),
        of(7, Class::String { padding, charset }),
        of(16, Class::VlenString { padding, charset }),
        of(3, Class::Opaque { tag: "what it is".into() }),
        of(8, Class::Reference(ReferenceKind::Object1)),
        of(12, Class::Reference(ReferenceKind::Region1)),
        of(16, Class::Vlen { base: Box::new(array(integer(2))) }),
        array(array(integer(1))),
        names,
        of(400, Class::Compound { members }),
        inner,
    ]
}

#[test]
fn datatypes_of_all_classes() {
    for oldest in [LibVersion::V18, LibVersion::V110] {
        let mut file = File(vec![0; 48]);
        let mut links = Vec::new();
        for (number, datatype) in datatypes().iter().enumerate() {
            let target = LinkTarget::Hard(file.dataset(datatype, oldest));
            links.push(link(&number.to_string(), None, target));
        }
        let root = file.group(&links, false);
        file.check(&format!("datatypes-{oldest:?}"), root);
    }
}

#[test]
fn links_in_headers_and_heaps() {
    for tracked in [false, true] {
        let mut file = File(vec![0; 48]);
        let soft = |number: i64| {
            let path = "x".repeat(usize::try_from(number).unwrap() * 3 + 1);
            link(&format!("link {number}"), tracked.then_some(number), LinkTarget::Soft(path.as_str().into()))
        };
        let links: Vec<Link> = (0..2000).map(soft).collect();
        let dense = LinkTarget::Hard(file.group(&links, true));
        let compact = LinkTarget::Hard(file.group(&links[..30], false));
        let root = file.group(&[link("dense", None, dense), link("compact", None, compact)], false);
        file.check(&format!("links-{tracked}"), root);
    }
}

#[test]
fn attributes_in_heaps() {
    for tracked in [false, true] {
        let mut file = File(vec![0; 48]);
        let byte = Datatype::integer(1, false, ByteOrder::Little);
        let one = |number: u32| {
            let name = format!("attribute {number}");
            let size = if number.is_multiple_of(100) { 70_000 } else { number as usize % 300 + 1 };
            let order = tracked.then_some(number);
            let message = attribute(&name, &byte, vec![7; size], order, LibVersion::V18);
            (name.as_str().into(), order, message)
        };
        let all: Vec<_> = (0..500).map(one).collect();
        let dense = attributes::dense(&all, tracked, &mut one_after_another(file.0.len() as u64)).unwrap();
        file.add(&dense.blocks.bytes);
        let info = AttributeInfo {
            next_order: tracked.then_some(500),
            indexed: tracked,
            heap: Some(dense.heap),
            by_name: Some(dense.by_name),
            by_order: dense.by_order,
        };
        let messages = [
            plain(message::LINK_INFO, message::link_info::encode(&LinkInfo::default()).unwrap()),
            plain(message::GROUP_INFO, vec![0, 0]),
            plain(message::ATTRIBUTE_INFO, message::attribute_info::encode(&info).unwrap()),
        ];
        let root = file.object(&messages, tracked);
        file.check(&format!("attributes-{tracked}"), root);
    }
}
