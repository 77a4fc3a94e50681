//! HDF5 files from hand-made pieces: addresses and lengths of eight bytes, superblock version 2.

use hyperchunk_format::checksum::lookup3;

pub const UNDEFINED: u64 = u64::MAX;

/// A file under construction. Pieces get addresses in the order in which they are placed; the superblock
/// comes last.
pub struct Maker(pub Vec<u8>);

/// Encodes numbers as eight bytes each.
pub fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Appends the checksum to `bytes`.
pub fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// A message: its type, flags and data.
#[derive(Clone)]
pub struct Message(pub u8, pub u8, pub Vec<u8>);

/// Encodes messages one after another, as in an object header of version 2.
pub fn messages(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Message(kind, flags, data) in messages {
        bytes.push(*kind);
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.push(*flags);
        bytes.extend_from_slice(data);
    }
    bytes
}

/// Encodes an object header of version 2.
pub fn header(all: &[Message]) -> Vec<u8> {
    let body = messages(all);
    let mut bytes = b"OHDR\x02\x02".to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&body);
    summed(bytes)
}

impl Maker {
    pub fn new() -> Self {
        Self(vec![0; 48])
    }

    /// Returns the address of the next piece.
    pub fn next(&self) -> u64 {
        self.0.len().next_multiple_of(8) as u64
    }

    /// Adds a piece; returns its address.
    pub fn place(&mut self, bytes: &[u8]) -> u64 {
        let address = self.next();
        self.0.resize(address as usize, 0);
        self.0.extend_from_slice(bytes);
        address
    }

    /// Reserves space for a piece that is not known yet; returns its address.
    pub fn room(&mut self, length: usize) -> u64 {
        self.place(&vec![0; length])
    }

    /// Fills reserved space.
    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        let address = address as usize;
        self.0[address..address + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the file, with the root group at an address.
    pub fn file(mut self, root: u64) -> Vec<u8> {
        let mut start = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00".to_vec();
        start.extend(u64s(&[0, UNDEFINED, self.0.len() as u64, root]));
        let start = summed(start);
        self.0[..48].copy_from_slice(&start);
        self.0
    }

    /// Returns the file, with a root group of these links.
    pub fn group(mut self, links: &[Message]) -> Vec<u8> {
        let mut all = vec![link_info()];
        all.extend_from_slice(links);
        let root = self.place(&header(&all));
        self.file(root)
    }
}

/// Makes the link info message of a group whose links are in its header.
pub fn link_info() -> Message {
    Message(0x02, 0, [&[0, 0][..], &u64s(&[UNDEFINED, UNDEFINED])].concat())
}

fn link(kind: u8, name: &str, value: &[u8]) -> Message {
    // Flags: a name length of two bytes, and an explicit type.
    let mut data = vec![1, 0x09, kind];
    data.extend((name.len() as u16).to_le_bytes());
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(value);
    Message(0x06, 0, data)
}

pub fn hard(name: &str, address: u64) -> Message {
    link(0, name, &address.to_le_bytes())
}

pub fn soft(name: &str, path: &str) -> Message {
    link(1, name, &[&(path.len() as u16).to_le_bytes()[..], path.as_bytes()].concat())
}

pub fn external(name: &str, file: &str, path: &str) -> Message {
    let value = format!("\0{file}\0{path}\0");
    link(64, name, &[&(value.len() as u16).to_le_bytes()[..], value.as_bytes()].concat())
}

/// Makes a dataspace of this extent; a maximum extent of `u64::MAX` means unlimited.
pub fn space(dims: &[u64], max: &[u64]) -> Message {
    let mut data = vec![2, dims.len() as u8, u8::from(!max.is_empty()), 1];
    data.extend(u64s(dims));
    data.extend(u64s(max));
    Message(0x01, 0, data)
}

/// Makes a type of unsigned integers of at most 8 bytes.
pub fn integers(size: u32) -> Vec<u8> {
    let mut data = vec![0x10, 0, 0, 0];
    data.extend(size.to_le_bytes());
    data.extend([0, 0]);
    data.extend((size as u16 * 8).to_le_bytes());
    data
}

/// Makes a type of sequences of elements of a type.
pub fn sequences(base: &[u8]) -> Vec<u8> {
    [&[0x19, 0, 0, 0, 16, 0, 0, 0][..], base].concat()
}

/// Makes a datatype message.
pub fn datatype(data: Vec<u8>) -> Message {
    Message(0x03, 0, data)
}

/// Makes a contiguous layout.
pub fn contiguous(address: u64, size: u64) -> Message {
    Message(0x08, 0, [&[3, 1][..], &u64s(&[address, size])].concat())
}

/// Makes a chunked layout with a version 1 B-tree.
pub fn chunked(tree: u64, dims: &[u32], element: u32) -> Message {
    let mut data = vec![3, 2, dims.len() as u8 + 1];
    data.extend(tree.to_le_bytes());
    dims.iter().chain([&element]).for_each(|dim| data.extend(dim.to_le_bytes()));
    Message(0x08, 0, data)
}

/// Makes the layout of a virtual dataset, whose mappings are object 1 of a heap collection.
pub fn virtual_layout(heap: u64) -> Message {
    Message(0x08, 0, [&[4, 3][..], &u64s(&[heap]), &1_u32.to_le_bytes()].concat())
}

/// Makes a pipeline: filters with their parameters.
pub fn pipeline(filters: &[(u16, &[u32])]) -> Message {
    let mut data = vec![2, filters.len() as u8];
    for (id, parameters) in filters {
        data.extend(id.to_le_bytes());
        if *id >= 256 {
            data.extend([0, 0]);
        }
        data.extend([0, 0]);
        data.extend((parameters.len() as u16).to_le_bytes());
        parameters.iter().for_each(|parameter| data.extend(parameter.to_le_bytes()));
    }
    Message(0x0b, 0, data)
}

/// Makes an attribute.
pub fn attribute(name: &str, datatype: &[u8], space: &Message, value: &[u8]) -> Message {
    let mut data = vec![3, 0];
    for length in [name.len() + 1, datatype.len(), space.2.len()] {
        data.extend((length as u16).to_le_bytes());
    }
    data.push(0);
    data.extend_from_slice(name.as_bytes());
    data.push(0);
    data.extend_from_slice(datatype);
    data.extend_from_slice(&space.2);
    data.extend_from_slice(value);
    Message(0x0c, 0, data)
}

/// Encodes a leaf of a version 1 B-tree with one chunk at the origin.
pub fn chunk_leaf(rank: usize, stored: u32, address: u64) -> Vec<u8> {
    let mut node = b"TREE\x01\x00\x01\x00".to_vec();
    node.extend(u64s(&[UNDEFINED, UNDEFINED]));
    for (size, child, offset) in [(stored, Some(address), 0), (0, None, 1 << 40)] {
        node.extend(size.to_le_bytes());
        node.extend([0; 4]);
        node.extend(u64s(&vec![offset; rank]));
        node.extend(u64s(&[0]));
        node.extend(child.map_or(Vec::new(), |child| u64s(&[child])));
    }
    node.resize(4096, 0);
    node
}

/// Encodes a collection of the global heap with these objects, numbered from 1.
pub fn collection(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"GCOL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    for (number, object) in objects.iter().enumerate() {
        bytes.extend((number as u16 + 1).to_le_bytes());
        bytes.extend([1, 0, 0, 0, 0, 0]);
        bytes.extend((object.len() as u64).to_le_bytes());
        bytes.extend_from_slice(object);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let size = (bytes.len() + 16).max(4096);
    let free = (size - bytes.len()) as u64;
    bytes.extend([0; 8]);
    bytes.extend(free.to_le_bytes());
    bytes.resize(size, 0);
    bytes[8..16].copy_from_slice(&(size as u64).to_le_bytes());
    bytes
}

/// Encodes an element of a sequence: count, collection, object.
pub fn handle(count: u32, heap: u64, index: u32) -> Vec<u8> {
    [&count.to_le_bytes()[..], &heap.to_le_bytes(), &index.to_le_bytes()].concat()
}

/// Makes a symbol table message: addresses of the B-tree and the local heap.
pub fn symbol_table(tree: u64, heap: u64) -> Message {
    Message(0x11, 0, u64s(&[tree, heap]))
}

/// Encodes a local heap, followed by its data.
pub fn local_heap(address: u64, data: &[u8]) -> Vec<u8> {
    let mut heap = b"HEAP\0\0\0\0".to_vec();
    heap.extend(u64s(&[data.len() as u64, 1, address + 32]));
    heap.extend_from_slice(data);
    heap
}

/// Encodes a node of a group's version 1 B-tree.
pub fn group_node(level: u8, children: &[u64]) -> Vec<u8> {
    let mut node = b"TREE\x00".to_vec();
    node.push(level);
    node.extend((children.len() as u16).to_le_bytes());
    node.extend(u64s(&[UNDEFINED, UNDEFINED, 0]));
    children.iter().for_each(|child| node.extend(u64s(&[*child, 8])));
    node
}

/// Encodes a node of symbols: offsets of names, addresses.
pub fn symbols(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut node = b"SNOD\x01\x00".to_vec();
    node.extend((entries.len() as u16).to_le_bytes());
    for (name, address) in entries {
        node.extend(u64s(&[*name, *address, 0, 0, 0]));
    }
    node
}
