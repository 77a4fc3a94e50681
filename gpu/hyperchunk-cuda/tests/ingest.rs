//! Round trips of chunks of every kind to arrays.

use crate::support::{apart_with, nvidia};
use hyperchunk_cuda::cufile::{CuFile, Mode};
use hyperchunk_cuda::ingest::{
    BlockCopier, BlockPart, BufferCache, ChunkBytes, Input, Options, Part, Report, Request, ingest, warm_up,
};
use hyperchunk_cuda::nvcomp::{Algorithm, Nvcomp};
use hyperchunk_cuda::{Context, DeviceMemory, Error, ErrorKind, Stream};
use hyperchunk_cuda_fake::{LoadedLibrary, library};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::model::Filter;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;

/// Runs a test with the fake nvCOMP and cuFile of the driver's library.
#[track_caller]
fn apart(name: &str, body: impl FnOnce()) {
    let library = library();
    let variables: [(&str, &OsStr); 2] =
        [("HYPERCHUNK_NVCOMP", library.as_ref()), ("HYPERCHUNK_CUFILE", library.as_ref())];
    apart_with(name, &variables, body);
}

/// Makes a file without a name.
fn file(bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("hyperchunk-{}-{:p}", std::process::id(), bytes));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn filter(id: u16, parameters: &[u32]) -> Filter {
    Filter { id, optional: false, name: None, parameters: parameters.to_vec() }
}

/// A dataset in a file: its values, and the locations of its chunks.
struct Dataset {
    dims: Vec<u64>,
    chunk: Vec<u64>,
    element: usize,
    filters: Vec<Filter>,
    values: Vec<u8>,
    /// Offset, bytes, mask and the first element of each chunk.
    chunks: Vec<(u64, u64, u32, Vec<u64>)>,
    bytes: Vec<u8>,
}

impl Dataset {
    fn new(dims: &[u64], chunk: &[u64], element: usize, filters: &[Filter]) -> Dataset {
        let count = dims.iter().product::<u64>() as usize * element;
        // Compressible, and different everywhere.
        let values =
            (0..count).map(|at| ((at / 5) as u8).wrapping_mul(3) ^ (at / 700) as u8).collect::<Vec<_>>();
        let (mut chunks, mut bytes) = (Vec::new(), vec![0xee; 37]);
        let mut encoder = Encoder::new();
        let mut start = vec![0; dims.len()];
        'all: loop {
            let mut one = vec![0xdd; chunk.iter().product::<u64>() as usize * element];
            each(chunk, |place| {
                let at: Vec<u64> = start.iter().zip(place).map(|(start, place)| start + place).collect();
                if at.iter().zip(dims).all(|(at, size)| at < size) {
                    let (from, to) = (index(dims, &at) * element, index(chunk, place) * element);
                    one[to..to + element].copy_from_slice(&values[from..from + element]);
                }
            });
            let (stored, mask) = encoder.encode(filters, &one).unwrap();
            chunks.push((bytes.len() as u64, stored.len() as u64, mask, start.clone()));
            bytes.extend_from_slice(stored);
            bytes.extend_from_slice(&[0xee; 3]);
            for axis in (0..dims.len()).rev() {
                start[axis] += chunk[axis];
                if start[axis] < dims[axis] {
                    continue 'all;
                }
                start[axis] = 0;
            }
            break;
        }
        Dataset {
            dims: dims.to_vec(),
            chunk: chunk.to_vec(),
            element,
            filters: filters.to_vec(),
            values,
            chunks,
            bytes,
        }
    }

    /// Returns the parts of a selection.
    fn parts(&self, from: &[u64], size: &[u64]) -> Vec<Part<'static>> {
        let mut parts = Vec::new();
        for (offset, bytes, mask, start) in &self.chunks {
            let rank = self.dims.len();
            let low: Vec<u64> = (0..rank).map(|d| from[d].max(start[d])).collect();
            let high: Vec<u64> =
                (0..rank).map(|d| (from[d] + size[d]).min(start[d] + self.chunk[d])).collect();
            if (0..rank).all(|d| low[d] < high[d]) {
                let between = |a: &[u64], b: &[u64]| (0..rank).map(|d| a[d] - b[d]).collect();
                parts.push(Part {
                    stored: ChunkBytes::At { offset: *offset, bytes: *bytes },
                    mask: *mask,
                    from: between(&low, start),
                    to: between(&low, from),
                    size: between(&high, &low),
                });
            }
        }
        parts
    }

    fn request<'a>(&'a self, input: Input<'a>, dims: &'a [u64], parts: Vec<Part<'a>>) -> Request<'a> {
        let (chunk, filters) = (&self.chunk[..], &self.filters[..]);
        Request { input, chunk, filters, element: self.element, swap: 0, dims, parts }
    }

    /// Returns the expected values of a selection.
    fn expected(&self, from: &[u64], size: &[u64]) -> Vec<u8> {
        let mut expected = Vec::new();
        each(size, |place| {
            let at: Vec<u64> = from.iter().zip(place).map(|(from, place)| from + place).collect();
            let at = index(&self.dims, &at) * self.element;
            expected.extend_from_slice(&self.values[at..at + self.element]);
        });
        expected
    }
}

fn index(shape: &[u64], place: &[u64]) -> usize {
    shape.iter().zip(place).fold(0, |all, (size, at)| all * size + at) as usize
}

fn each(shape: &[u64], mut with: impl FnMut(&[u64])) {
    let mut place = vec![0; shape.len()];
    if shape.contains(&0) {
        return;
    }
    'all: loop {
        with(&place);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            if place[axis] < shape[axis] {
                continue 'all;
            }
            place[axis] = 0;
        }
        return;
    }
}

/// The GPU with its libraries.
struct Gpu {
    memory: DeviceMemory,
    stream: Stream,
    nvcomp: Nvcomp,
    cufile: CuFile,
}

impl Gpu {
    fn new(bytes: usize) -> Gpu {
        let context = Context::for_device(0).unwrap();
        Gpu {
            memory: DeviceMemory::alloc(&context, bytes).unwrap(),
            stream: Stream::new(&context).unwrap(),
            nvcomp: Nvcomp::beside(context.driver(), None).unwrap(),
            cufile: CuFile::load(&context, None).unwrap(),
        }
    }

    fn get(&self, request: &Request<'_>, options: &Options<'_>) -> Result<(Vec<u8>, Report), Error> {
        let bytes = request.dims.iter().product::<u64>() as usize * request.element;
        self.stream.fill(&self.memory, 0, self.memory.bytes(), 0x77)?;
        self.stream.synchronize()?;
        // Not at the start: addresses are relative to the array.
        let report = ingest(request, &self.memory, 16, options)?;
        let mut back = vec![0; bytes + 32];
        self.stream.download(&self.memory, 0, &mut back)?;
        assert!(
            back[..16].iter().chain(&back[16 + bytes..]).all(|byte| *byte == 0x77),
            "written beside the array"
        );
        Ok((back[16..16 + bytes].to_vec(), report))
    }

    /// Reads a selection in every way.
    #[track_caller]
    fn check(&self, dataset: &Dataset, from: &[u64], size: &[u64]) -> Report {
        let file = file(&dataset.bytes);
        let reader = |offset: u64, to: &mut [u8]| {
            let start = offset as usize;
            to.copy_from_slice(&dataset.bytes[start..start + to.len()]);
            Ok(())
        };
        let expected = dataset.expected(from, size);
        let whole = Options { nvcomp: Some(&self.nvcomp), ..Options::default() };
        let mut last = Report::default();
        for (number, options) in [
            Options { threads: 1, ..Options::default() },
            Options { nvcomp: Some(&self.nvcomp), batch: 3000, threads: 3, ..Options::default() },
            Options { cufile: Some(&self.cufile), batch: 5000, ..whole },
            whole,
        ]
        .into_iter()
        .enumerate()
        {
            for input in [Input::File(&file), Input::Reader(&reader)] {
                let request = dataset.request(input, size, dataset.parts(from, size));
                let (found, report) = self.get(&request, &options).unwrap();
                let filters: Vec<u16> = dataset.filters.iter().map(|filter| filter.id).collect();
                assert!(found == expected, "{filters:?} {from:?} {size:?}, way {number}");
                assert_eq!(report.again, 0, "{filters:?}, way {number}");
                last = report;
            }
        }
        last
    }
}

#[test]
fn every_pipeline_and_selection() {
    apart("ingest::every_pipeline_and_selection", || {
        let gpu = Gpu::new(1 << 20);
        let (shuffle, fletcher) = (|size| filter(2, &[size]), filter(3, &[]));
        let compressors = [
            filter(1, &[4]),
            filter(32003, &[1024]),
            filter(32003, &[]),
            filter(32004, &[0]),
            filter(32004, &[512]),
            filter(32015, &[3]),
        ];
        let mut pipelines =
            vec![vec![], vec![shuffle(4)], vec![fletcher.clone()], vec![shuffle(3), fletcher.clone()]];
        for compressor in &compressors {
            pipelines.push(vec![compressor.clone()]);
            pipelines.push(vec![shuffle(4), compressor.clone()]);
            pipelines.push(vec![shuffle(8), compressor.clone(), fletcher.clone()]);
        }
        for pipeline in &pipelines {
            let dataset = Dataset::new(&[45, 50], &[20, 17], 4, pipeline);
            let report = gpu.check(&dataset, &[0, 0], &[45, 50]);
            let chunks = dataset.chunks.len() as u64;
            if !pipeline.is_empty() {
                assert_eq!((report.on_gpu, report.on_cpu), (chunks, 0), "{pipeline:?}");
            }
            let stored: u64 = dataset.chunks.iter().map(|chunk| chunk.1).sum();
            if !pipeline.is_empty() {
                assert_eq!(report.stored, stored);
            }
            gpu.check(&dataset, &[3, 5], &[30, 13]);
        }
        assert_eq!(LoadedLibrary::new().counts().mistakes, 0);
    });
}

#[test]
fn what_the_gpu_cannot_decode() {
    apart("ingest::what_the_gpu_cannot_decode", || {
        let gpu = Gpu::new(1 << 20);
        for pipeline in [
            vec![filter(32000, &[])],
            vec![filter(1, &[4]), filter(2, &[4])],
            vec![filter(2, &[4]), filter(32000, &[]), filter(3, &[])],
            vec![filter(3, &[]), filter(1, &[4])],
        ] {
            let dataset = Dataset::new(&[45, 50], &[20, 17], 4, &pipeline);
            let report = gpu.check(&dataset, &[1, 2], &[40, 40]);
            assert_eq!((report.on_gpu, report.on_cpu), (0, 9), "{pipeline:?}");
        }
    });
}

#[test]
fn ranks_elements_and_edges() {
    apart("ingest::ranks_elements_and_edges", || {
        let gpu = Gpu::new(1 << 20);
        let deflate = [filter(1, &[1])];
        for element in [1, 2, 3, 4, 8, 12, 16] {
            for filters in [&[][..], &deflate] {
                let one = Dataset::new(&[1000], &[300], element, filters);
                gpu.check(&one, &[0], &[1000]);
                gpu.check(&one, &[299], &[2]);
                let three = Dataset::new(&[7, 9, 11], &[3, 4, 5], element, filters);
                gpu.check(&three, &[0, 0, 0], &[7, 9, 11]);
                gpu.check(&three, &[2, 3, 4], &[3, 5, 2]);
            }
        }
        // More dimensions than a kernel takes.
        let many = Dataset::new(&[3; 10], &[2; 10], 1, &[]);
        gpu.check(&many, &[1; 10], &[2; 10]);
        let scalar = Dataset::new(&[], &[], 8, &[]);
        gpu.check(&scalar, &[], &[]);
        let nothing = Dataset::new(&[5, 5], &[5, 5], 4, &[]);
        let request = nothing.request(Input::Reader(&|_, _| panic!("read")), &[0, 5], vec![]);
        assert_eq!(gpu.get(&request, &Options::default()).unwrap().0, []);
    });
}

#[test]
fn contiguous_data_in_pieces() {
    apart("ingest::contiguous_data_in_pieces", || {
        let gpu = Gpu::new(24 << 20);
        let dims = [1500, 3001];
        let dataset = Dataset::new(&dims, &dims, 4, &[]);
        let report = gpu.check(&dataset, &[0, 0], &dims);
        // Directly to its place, without our kernels.
        assert_eq!((report.stored, report.uploaded), (1500 * 3001 * 4, 1500 * 3001 * 4));
        gpu.check(&dataset, &[700, 3], &[20, 100]);
        let file = file(&dataset.bytes);
        let options = Options { cufile: Some(&gpu.cufile), ..Options::default() };
        let request = dataset.request(Input::File(&file), &dims, dataset.parts(&[0, 0], &dims));
        let (_, report) = gpu.get(&request, &options).unwrap();
        assert_eq!((report.direct, report.uploaded), (1500 * 3001 * 4, 0));
        assert_eq!(gpu.cufile.mode(), Mode::Direct);
    });
}

#[test]
fn byte_order_fill_values_and_masks() {
    apart("ingest::byte_order_fill_values_and_masks", || {
        let gpu = Gpu::new(1 << 20);
        for (element, swap) in [(2, 2), (4, 4), (8, 8), (8, 4), (16, 8)] {
            for filters in [vec![], vec![filter(2, &[element as u32]), filter(1, &[1])]] {
                let dataset = Dataset::new(&[30, 41], &[8, 16], element, &filters);
                let (from, size) = ([1, 3], [25, 30]);
                let file = file(&dataset.bytes);
                let mut request = dataset.request(Input::File(&file), &size, dataset.parts(&from, &size));
                request.swap = swap;
                let options = Options { nvcomp: Some(&gpu.nvcomp), ..Options::default() };
                let (found, _) = gpu.get(&request, &options).unwrap();
                let mut expected = dataset.expected(&from, &size);
                expected.chunks_mut(swap).for_each(<[u8]>::reverse);
                assert!(found == expected, "{element} {swap}");
            }
        }
        // Some chunks are not stored, one is without its filters, and one is already in memory.
        let dataset = Dataset::new(&[40, 40], &[10, 40], 4, &[filter(1, &[1])]);
        let plain = dataset.expected(&[20, 0], &[10, 40]);
        let stored = dataset.bytes[dataset.chunks[3].0 as usize..][..dataset.chunks[3].1 as usize].to_vec();
        let size = [40, 40];
        let file = file(&dataset.bytes);
        let mut request = dataset.request(Input::File(&file), &size, dataset.parts(&[0, 0], &size));
        request.parts[1].stored = ChunkBytes::Fill(&[1, 2, 3, 4]);
        request.parts[2].stored = ChunkBytes::Bytes(&plain);
        request.parts[2].mask = 1;
        request.parts[3].stored = ChunkBytes::Bytes(&stored);
        let mut expected = dataset.expected(&[0, 0], &size);
        expected[1600..3200].chunks_mut(4).for_each(|element| element.copy_from_slice(&[1, 2, 3, 4]));
        for nvcomp in [None, Some(&gpu.nvcomp)] {
            let (found, _) = gpu.get(&request, &Options { nvcomp, ..Options::default() }).unwrap();
            assert!(found == expected);
        }
    });
}

#[test]
fn damage_is_an_error_with_its_place_as_the_processor_has_it() {
    apart("ingest::damage_is_an_error_with_its_place_as_the_processor_has_it", || {
        let gpu = Gpu::new(1 << 20);
        let options = Options { nvcomp: Some(&gpu.nvcomp), ..Options::default() };
        let (mut wrong, mut again) = (0, 0);
        for id in [1, 32003, 32004, 32015] {
            for fletcher in [false, true] {
                let mut filters = vec![filter(2, &[4]), filter(id, &[])];
                filters.extend(fletcher.then(|| filter(3, &[])));
                if id == 32015 {
                    filters[1].parameters = vec![3];
                }
                let mut dataset = Dataset::new(&[16, 40], &[8, 40], 4, &filters);
                let (offset, bytes, ..) = dataset.chunks[1];
                for at in (0..bytes).step_by(3) {
                    let place = (offset + at) as usize;
                    dataset.bytes[place] ^= 0x10;
                    let size = [16, 40];
                    let input = file(&dataset.bytes);
                    let request = dataset.request(Input::File(&input), &size, dataset.parts(&[0, 0], &size));
                    let gpus = gpu.get(&request, &options);
                    let cpus = gpu.get(&request, &Options::default());
                    match (gpus, cpus) {
                        (Ok((a, report)), Ok((b, _))) => {
                            assert!(a == b, "{id} {fletcher} {at}");
                            again += report.again;
                        }
                        (Err(a), Err(b)) => {
                            assert_eq!(a.to_string(), b.to_string(), "{id} {fletcher} {at}");
                            assert!(a.to_string().contains(&format!("the chunk at byte {offset}")), "{a}");
                            wrong += 1;
                        }
                        (a, b) => panic!("{id} {fletcher} {at}: {a:?} on the GPU, {b:?} on the processor"),
                    }
                    dataset.bytes[place] ^= 0x10;
                }
            }
        }
        assert!(wrong > 200, "{wrong} {again}");
        assert_eq!(LoadedLibrary::new().counts().mistakes, 0);
    });
}

#[test]
fn what_cannot_be_read_is_an_error() {
    apart("ingest::what_cannot_be_read_is_an_error", || {
        let gpu = Gpu::new(1 << 20);
        let options = Options { nvcomp: Some(&gpu.nvcomp), cufile: Some(&gpu.cufile), ..Options::default() };
        let size = [45, 50];
        for filters in [vec![], vec![filter(1, &[1])], vec![filter(32015, &[3])]] {
            let dataset = Dataset::new(&size, &[20, 17], 4, &filters);
            // A tenth of the last chunk is left.
            let last = dataset.chunks[8].1 as usize;
            let file = file(&dataset.bytes[..dataset.bytes.len() - 3 - last * 9 / 10]);
            for options in [Options::default(), options] {
                let request = dataset.request(Input::File(&file), &size, dataset.parts(&[0, 0], &size));
                let error = gpu.get(&request, &options).map(|(_, report)| report).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            }
            let refuse = |_: u64, _: &mut [u8]| Err(Error::new(ErrorKind::Io, "no network"));
            let request = dataset.request(Input::Reader(&refuse), &size, dataset.parts(&[0, 0], &size));
            let error = gpu.get(&request, &options).unwrap_err();
            assert!(
                error.message().contains("no network") && error.message().contains("the chunk at byte 37"),
                "{error}"
            );
        }
        let dataset = Dataset::new(&size, &[20, 17], 4, &[]);
        let check = |kind: ErrorKind, change: &dyn Fn(&mut Request<'_>)| {
            let file = file(&dataset.bytes);
            let mut request = dataset.request(Input::File(&file), &size, dataset.parts(&[0, 0], &size));
            change(&mut request);
            assert_eq!(ingest(&request, &gpu.memory, 0, &options).unwrap_err().kind(), kind);
        };
        check(ErrorKind::Invalid, &|request| request.parts[0].size[0] = 21);
        check(ErrorKind::Invalid, &|request| request.parts[8].to[1] = 45);
        check(ErrorKind::Invalid, &|request| request.swap = 3);
        check(ErrorKind::Invalid, &|request| request.swap = 8);
        check(ErrorKind::Invalid, &|request| request.dims = &[1 << 20, 1 << 20]);
        check(ErrorKind::Limit, &|request| request.dims = &[1 << 40, 1 << 40]);
        check(ErrorKind::Invalid, &|request| request.parts[0].stored = ChunkBytes::Fill(&[0; 3]));
        check(ErrorKind::Damaged, &|request| request.parts[0].stored = ChunkBytes::Bytes(&[0; 3]));
        assert_eq!(
            ingest(
                &dataset.request(Input::Reader(&|_, _| Ok(())), &size, vec![]),
                &gpu.memory,
                usize::MAX,
                &options
            )
            .unwrap_err()
            .kind(),
            ErrorKind::Invalid
        );
    });
}

#[test]
fn all_is_done_once_before() {
    apart("ingest::all_is_done_once_before", || {
        let loaded = LoadedLibrary::new();
        let gpu = Gpu::new(1 << 12);
        warm_up(gpu.memory.context(), None).unwrap();
        let before = loaded.counts();
        assert_eq!(before.decompressed, 0);
        warm_up(gpu.memory.context(), Some(&gpu.nvcomp)).unwrap();
        let after = loaded.counts();
        // Two parts in each format.
        assert_eq!(after.decompressed - before.decompressed, 8);
        assert_eq!(
            (after.allocations, after.streams, after.mistakes),
            (before.allocations, before.streams, 0)
        );
        loaded.set(hyperchunk_cuda_fake::Knob::OutOfMemory, 3);
        assert_eq!(warm_up(gpu.memory.context(), Some(&gpu.nvcomp)).unwrap_err().kind(), ErrorKind::Limit);
        loaded.set(hyperchunk_cuda_fake::Knob::FailLaunch, 1);
        assert!(warm_up(gpu.memory.context(), Some(&gpu.nvcomp)).is_err());
    });
}

#[test]
fn nothing_is_left_behind() {
    apart("ingest::nothing_is_left_behind", || {
        let loaded = LoadedLibrary::new();
        let gpu = Gpu::new(1 << 20);
        let dataset = Dataset::new(&[45, 50], &[20, 17], 4, &[filter(1, &[1])]);
        gpu.check(&dataset, &[0, 0], &[45, 50]);
        gpu.check(&dataset, &[0, 0], &[45, 50]);
        let counts = loaded.counts();
        gpu.check(&dataset, &[0, 0], &[45, 50]);
        // Out of memory at every allocation in turn.
        let file = file(&dataset.bytes);
        let size = [45, 50];
        let mut failed = 0;
        for number in 1..100 {
            loaded.set(hyperchunk_cuda_fake::Knob::OutOfMemory, number);
            let request = dataset.request(Input::File(&file), &size, dataset.parts(&[0, 0], &size));
            let options = Options { nvcomp: Some(&gpu.nvcomp), batch: 3000, ..Options::default() };
            let done = ingest(&request, &gpu.memory, 0, &options);
            match done {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "{error}"),
                Ok(_) => break,
            }
            failed += 1;
        }
        loaded.set(hyperchunk_cuda_fake::Knob::OutOfMemory, 0);
        assert!(failed > 10, "{failed}");
        let after = loaded.counts();
        // Page-locked memory is cached for the next call, two pieces at most.
        assert_eq!(after.allocations, counts.allocations);
        assert!(after.pinned <= counts.pinned, "{} {}", after.pinned, counts.pinned);
        assert_eq!((after.streams, after.events, after.modules), (counts.streams, counts.events, 1));
    });
}

#[test]
fn nvidias_own_nvcomp_loads_without_a_gpu() {
    let Some(folder) = nvidia("libnvcomp") else {
        println!("skipped: nvCOMP is not installed");
        return;
    };
    let nvcomp = Nvcomp::load(Some(&folder.join("lib64"))).unwrap();
    assert_eq!(nvcomp.version().0, 6);
    for algorithm in [Algorithm::Snappy, Algorithm::Lz4, Algorithm::Deflate, Algorithm::Zstd] {
        assert!(nvcomp.decompresses(algorithm));
    }
}

#[test]
fn without_nvidia_fs_cufile_says_so() {
    let library = library();
    let variables: [(&str, &OsStr); 2] =
        [("HYPERCHUNK_FAKE_CUDA", "nvfs=0".as_ref()), ("HYPERCHUNK_CUFILE", library.as_ref())];
    apart_with("ingest::without_nvidia_fs_cufile_says_so", &variables, || {
        let context = Context::for_device(0).unwrap();
        let cufile = CuFile::load(&context, None).unwrap();
        assert_eq!((cufile.mode(), cufile.version()), (Mode::Compatibility, Some((1, 14))));
        // NVIDIA's own would not find a driver that replaces theirs.
        let error = Nvcomp::beside(context.driver(), None).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.message().contains("HYPERCHUNK_NVCOMP"), "{error}");
    });
}

#[test]
fn memory_is_kept_for_the_next_call_within_a_bound() {
    apart("ingest::memory_is_kept_for_the_next_call_within_a_bound", || {
        let gpu = Gpu::new(1 << 20);
        let dataset = Dataset::new(&[300, 200], &[50, 40], 4, &[filter(2, &[4]), filter(1, &[4])]);
        let (file, fake) = (file(&dataset.bytes), LoadedLibrary::new());
        let read = |kept: Option<&BufferCache>| {
            let (from, size) = ([0, 0], [300, 200]);
            let request = dataset.request(Input::File(&file), &size, dataset.parts(&from, &size));
            let options = Options { nvcomp: Some(&gpu.nvcomp), batch: 20_000, kept, ..Options::default() };
            let (found, _) = gpu.get(&request, &options).unwrap();
            assert!(found == dataset.values);
            let counts = fake.counts();
            (counts.taken, counts.allocations)
        };
        let (_, least) = read(None);
        let (before, allocations) = read(None);
        assert_eq!(allocations, least);
        let anew = read(None).0 - before;
        assert_ne!(anew, 0);
        let kept = BufferCache::new(1 << 30);
        let (first, with) = read(Some(&kept));
        assert!(with > least && kept.bytes() > 0);
        // No more memory is allocated by further calls.
        assert_eq!(read(Some(&kept)), (first, with));
        assert_eq!(read(Some(&kept)), (first, with));
        assert!(kept.clear() && !kept.clear());
        assert_eq!(fake.counts().allocations, least);
        // A smaller limit is honoured, and values are the same.
        for most in [0, 1, 5000, 100_000] {
            let kept = BufferCache::new(most);
            let used = fake.counts().bytes;
            let (_, with) = read(Some(&kept));
            assert!(kept.bytes() <= most && fake.counts().bytes - used == kept.bytes() as u64, "{most}");
            assert!(with > least || most < 5000, "{most}");
            read(Some(&kept));
            assert!(kept.bytes() <= most);
        }
        assert_eq!(fake.counts().allocations, least);
        assert_eq!(fake.counts().mistakes, 0);
    });
}

#[test]
fn blocks_go_to_their_places() {
    apart("ingest::blocks_go_to_their_places", || {
        let context = Context::for_device(0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let mut placing = BlockCopier::new(&context).unwrap();
        for (block, from, dims, to, size, element) in [
            (&[8, 9][..], &[1, 2][..], &[20, 30][..], &[5, 7][..], &[4, 6][..], 4),
            (&[8, 30], &[0, 0], &[20, 30], &[10, 0], &[8, 30], 8),
            (&[3, 4, 5], &[1, 1, 1], &[3, 3, 3], &[0, 1, 0], &[2, 2, 3], 1),
            (&[7], &[2], &[9], &[4], &[5], 2),
            (&[2; 10], &[0; 10], &[2; 10], &[0; 10], &[1, 2, 1, 2, 1, 2, 1, 2, 1, 2], 4),
            (&[4, 4], &[0, 0], &[4, 4], &[0, 0], &[0, 4], 4),
        ] {
            let bytes = |shape: &[u64]| shape.iter().product::<u64>() as usize * element;
            let values: Vec<u8> = (0..bytes(block)).map(|at| (at * 7 % 251) as u8).collect();
            let source = DeviceMemory::alloc(&context, bytes(block)).unwrap();
            let target = DeviceMemory::alloc(&context, bytes(dims)).unwrap();
            stream.upload(&source, 0, &values).unwrap();
            stream.fill(&target, 0, bytes(dims), 0x77).unwrap();
            stream.synchronize().unwrap();
            let part = BlockPart { block, from, dims, to, size, element };
            placing.place(&part, &source, &target).unwrap();
            let mut expected = vec![0x77; bytes(dims)];
            each(size, |place| {
                let at = |start: &[u64]| start.iter().zip(place).map(|(a, b)| a + b).collect::<Vec<_>>();
                let (read, write) = (index(block, &at(from)) * element, index(dims, &at(to)) * element);
                expected[write..write + element].copy_from_slice(&values[read..read + element]);
            });
            let mut found = vec![0; bytes(dims)];
            stream.download(&target, 0, &mut found).unwrap();
            assert!(found == expected, "{block:?} {dims:?}");
        }
        // A part that does not fit is refused.
        let small = DeviceMemory::alloc(&context, 16).unwrap();
        let part = BlockPart { block: &[4], from: &[0], dims: &[5], to: &[1], size: &[4], element: 4 };
        assert_eq!(placing.place(&part, &small, &small).unwrap_err().kind(), ErrorKind::Invalid);
        let part = BlockPart { block: &[4], from: &[1], dims: &[4], to: &[0], size: &[4], element: 4 };
        assert_eq!(placing.place(&part, &small, &small).unwrap_err().kind(), ErrorKind::Invalid);
    });
}
