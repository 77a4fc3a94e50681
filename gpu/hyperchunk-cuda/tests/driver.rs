//! Contexts, memory, streams and kernels.

use crate::support::{apart, apart_with, nvrtc};
use hyperchunk_cuda::{
    Argument, Context, DeviceMemory, Driver, ErrorKind, Event, Launch, Module, PinnedMemory, Stream,
};
use hyperchunk_cuda_fake::{Knob, LoadedLibrary};
use std::os::fd::AsFd as _;

/// `out[i] = a[i] * by + i` for the first `count` elements.
const SCALE: &str = "
.version 6.3
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 scale_param_0, .param .u64 scale_param_1, .param .u32 scale_param_2, .param .u64 scale_param_3)
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [scale_param_0]; ld.param.u64 %rd2, [scale_param_1];
    ld.param.u32 %r5, [scale_param_2]; ld.param.u64 %rd3, [scale_param_3];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3; cvt.u64.u32 %rd4, %r4;
    setp.ge.u64 %p1, %rd4, %rd3; @%p1 bra $end;
    shl.b64 %rd5, %rd4, 2; add.s64 %rd6, %rd1, %rd5; add.s64 %rd7, %rd2, %rd5;
    ld.global.u32 %r6, [%rd6]; mad.lo.s32 %r7, %r6, %r5, %r4; st.global.u32 [%rd7], %r7;
$end:
    ret;
}
";

fn bytes(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn devices_are_told() {
    apart("driver::devices_are_told", "devices=2,memory=5000000", || {
        let driver = Driver::load().unwrap();
        assert_eq!(driver.version(), (12, 9));
        assert!(driver.is_substitute());
        assert_eq!(
            driver.path().canonicalize().unwrap(),
            hyperchunk_cuda_fake::library().canonicalize().unwrap()
        );
        let devices = driver.devices().unwrap();
        assert_eq!(devices.len(), 2);
        assert_eq!((devices[1].ordinal, devices[1].memory, devices[1].capability), (1, 5_000_000, (9, 0)));
        assert_ne!(devices[0].uuid, devices[1].uuid);
        let error = Context::for_device(2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.message().contains("there is no GPU 2"), "{error}");
        assert_eq!(Context::for_device(1).unwrap().memory().unwrap(), (5_000_000, 5_000_000));
    });
}

#[test]
fn without_a_gpu_or_a_driver() {
    apart("driver::without_a_gpu_or_a_driver", "devices=0", || {
        let error = Context::for_device(0).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Missing, Some(100)));
        assert!(error.message().contains("finds no GPU"), "{error}");
    });
}

#[test]
fn a_driver_that_is_not_there() {
    let variables = [("HYPERCHUNK_CUDA_DRIVER", "/nowhere/libcuda.so.1".as_ref())];
    apart_with("driver::a_driver_that_is_not_there", &variables, || {
        let error = match Driver::load() {
            Ok(_) => panic!("loaded from nowhere"),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.message().contains("/nowhere/libcuda.so.1"), "{error}");
    });
}

#[test]
fn a_relative_path_is_refused() {
    let variables = [("HYPERCHUNK_CUDA_DRIVER", "libcuda.so.1".as_ref())];
    apart_with("driver::a_relative_path_is_refused", &variables, || {
        assert_eq!(Context::for_device(0).unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_kernel_from_upload_to_download() {
    apart("driver::a_kernel_from_upload_to_download", "", || {
        let context = Context::for_device(0).unwrap();
        context.prepare().unwrap();
        let loaded = LoadedLibrary::new();
        let before = loaded.counts();
        {
            let stream = Stream::new(&context).unwrap();
            let module = Module::load(&context, SCALE).unwrap();
            let function = module.function("scale").unwrap();
            drop(module);
            assert_eq!(function.max_threads().unwrap(), 1024);
            // More than one staging buffer, and a part of one.
            let count = 3_000_001_u32;
            let values: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let from = DeviceMemory::alloc(&context, values.len() * 4).unwrap();
            let to = DeviceMemory::alloc(&context, values.len() * 4).unwrap();
            let (start, end) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
            start.record(&stream).unwrap();
            stream.upload(&from, 0, &bytes(&values)).unwrap();
            // All but the first 1000 are only copied: the interpreter is slow.
            stream.copy(&from, 0, &to, 0, from.bytes()).unwrap();
            let by = 7_u32.to_le_bytes();
            let elements = 1000_u64.to_le_bytes();
            let arguments = [
                Argument::Address(from.address()),
                Argument::Address(to.address()),
                Argument::Bytes(&by),
                Argument::Bytes(&elements),
            ];
            function.launch(&stream, &Launch::linear(8, 128), &arguments).unwrap();
            end.record(&stream).unwrap();
            let mut back = vec![0; from.bytes()];
            stream.download(&to, 0, &mut back).unwrap();
            let mut expected = values.clone();
            for (i, value) in expected.iter_mut().enumerate().take(1000) {
                *value = value.wrapping_mul(7).wrapping_add(u32::try_from(i).unwrap());
            }
            assert!(back == bytes(&expected));
            assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
            stream.fill(&to, 4, 4, 9).unwrap();
            let mut few = [0; 12];
            stream.download(&to, 0, &mut few).unwrap();
            assert_eq!(few[4..8], [9; 4]);
            assert_eq!(few[8..], back[8..12]);
        }
        let after = loaded.counts();
        assert_eq!((after.allocations, after.pinned), (before.allocations, before.pinned));
        assert_eq!(
            (after.streams, after.events, after.modules),
            (before.streams, before.events, before.modules)
        );
        assert_eq!((after.launches, after.mistakes), (before.launches + 1, 0));
    });
}

#[test]
fn streams_wait_for_events() {
    apart("driver::streams_wait_for_events", "", || {
        let context = Context::for_device(0).unwrap();
        let (first, second) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
        let memory = DeviceMemory::alloc(&context, 64).unwrap();
        first.fill(&memory, 0, 64, 1).unwrap();
        let event = Event::new(&context).unwrap();
        event.record(&first).unwrap();
        second.wait(&event).unwrap();
        second.fill(&memory, 0, 32, 2).unwrap();
        let mut back = [0; 64];
        second.download(&memory, 0, &mut back).unwrap();
        assert_eq!((back[0], back[63]), (2, 1));
        // Dropped with work left in it.
        first.fill(&memory, 0, 64, 3).unwrap();
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_it_is_done() {
    apart("driver::what_makes_no_sense_is_refused_before_it_is_done", "", || {
        let context = Context::for_device(0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let memory = DeviceMemory::alloc(&context, 100).unwrap();
        let mut back = [0; 101];
        let function = Module::load(&context, SCALE).unwrap().function("scale").unwrap();
        let address = Argument::Address(memory.address());
        let [four, eight] = [Argument::Bytes(&[0; 4]), Argument::Bytes(&[0; 8])];
        let linear = Launch::linear(1, 32);
        let none = Launch { grid: [1, 0, 1], ..linear };
        let errors = [
            stream.upload(&memory, 1, &[0; 100]),
            stream.upload(&memory, usize::MAX, &[0; 1]),
            stream.download(&memory, 0, &mut back),
            stream.fill(&memory, 101, 0, 0),
            stream.copy(&memory, 0, &memory, 51, 50),
            function.launch(&stream, &linear, &[address, address, four]),
            function.launch(&stream, &linear, &[address, address, eight, eight]),
            function.launch(&stream, &none, &[address, address, four, eight]),
            Module::load(&context, SCALE).unwrap().function("other").map(|_| ()),
        ];
        for (number, error) in errors.into_iter().enumerate() {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid, "{number}");
        }
        assert_eq!(LoadedLibrary::new().counts().mistakes, 0);
        let empty = DeviceMemory::alloc(&context, 0).unwrap();
        stream.upload(&empty, 0, &[]).unwrap();
        stream.download(&empty, 0, &mut []).unwrap();
    });
}

#[test]
fn ptx_that_the_driver_does_not_take() {
    apart("driver::ptx_that_the_driver_does_not_take", "", || {
        let context = Context::for_device(0).unwrap();
        let text = SCALE.replace("mad.lo.s32 %r4", "frobnicate.s32 %r4");
        let error = Module::load(&context, &text).unwrap_err();
        assert_eq!(error.code(), Some(218));
        assert!(error.message().contains("frobnicate.s32 is not known"), "{error}");
    });
}

#[test]
fn shared_memory_is_one_and_is_given_back() {
    apart("driver::shared_memory_is_one_and_is_given_back", "memory=1000000", || {
        let (context, fake) = (Context::for_device(0).unwrap(), LoadedLibrary::new());
        context.prepare_sharing().unwrap();
        assert_eq!(fake.counts().shared, 0);
        let stream = Stream::new(&context).unwrap();
        let (memory, descriptor) = DeviceMemory::shareable(&context, 100_000).unwrap();
        // A multiple of the granularity, and all zeros.
        assert_eq!(memory.bytes(), 2 << 16);
        let mut found = vec![1; memory.bytes()];
        stream.download(&memory, 0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == 0));
        let other = DeviceMemory::import(&context, descriptor.as_fd(), memory.bytes()).unwrap();
        assert_ne!(other.address(), memory.address());
        stream.upload(&other, 99_990, b"across").unwrap();
        stream.synchronize().unwrap();
        let mut found = [0; 6];
        stream.download(&memory, 99_990, &mut found).unwrap();
        assert_eq!(&found, b"across");
        // Its owner frees it; until then, it counts once.
        assert_eq!(fake.counts().bytes, 2 << 16);
        drop((memory, other));
        assert_eq!((fake.counts().shared, fake.counts().bytes), (0, 0));
        drop(descriptor);
        let error = DeviceMemory::shareable(&context, 1_000_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.message().contains("bytes on the GPU"), "{error}");
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(DeviceMemory::import(&context, file.as_fd(), 1 << 16).is_err());
        fake.set(Knob::FailImport, 1);
        let error = context.prepare_sharing().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        fake.set(Knob::Exports, 0);
        let error = DeviceMemory::shareable(&context, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!((fake.counts().shared, fake.counts().mistakes), (0, 1));
    });
}

#[test]
fn too_little_memory() {
    apart("driver::too_little_memory", "memory=1000", || {
        let context = Context::for_device(0).unwrap();
        let error = DeviceMemory::alloc(&context, 1001).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.message().contains("1001 bytes on the GPU"), "{error}");
        let whole = DeviceMemory::alloc(&context, 1000).unwrap();
        drop(whole);
        LoadedLibrary::new().set(Knob::OutOfMemory, 2);
        let _first = DeviceMemory::alloc(&context, 10).unwrap();
        assert_eq!(DeviceMemory::alloc(&context, 10).unwrap_err().kind(), ErrorKind::Limit);
        let _third = DeviceMemory::alloc(&context, 10).unwrap();
        LoadedLibrary::new().set(Knob::OutOfMemory, 1);
        assert_eq!(PinnedMemory::alloc(&context, 10).unwrap_err().kind(), ErrorKind::Limit);
    });
}

#[test]
fn a_fault_shows_at_the_next_wait_and_stays() {
    apart("driver::a_fault_shows_at_the_next_wait_and_stays", "", || {
        let context = Context::for_device(0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let memory = DeviceMemory::alloc(&context, 64).unwrap();
        let function = Module::load(&context, SCALE).unwrap().function("scale").unwrap();
        let address = Argument::Address(memory.address());
        let count = 17_u64.to_le_bytes();
        let arguments = [address, address, Argument::Bytes(&[0; 4]), Argument::Bytes(&count)];
        function.launch(&stream, &Launch::linear(1, 32), &arguments).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.code(), Some(700), "{error}");
        assert!(stream.fill(&memory, 0, 1, 0).is_err());
    });
}

#[test]
fn a_launch_that_fails() {
    apart("driver::a_launch_that_fails", "fail_launch=1", || {
        let context = Context::for_device(0).unwrap();
        let error = context.prepare().unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Failed, Some(719)));
        assert!(error.message().contains("nothing: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED"), "{error}");
        context.prepare().unwrap();
    });
}

#[test]
fn a_fork_cannot_use_it() {
    apart("driver::a_fork_cannot_use_it", "", || {
        let context = Context::for_device(0).unwrap();
        let memory = DeviceMemory::alloc(&context, 8).unwrap();
        // SAFETY: the child only asks for errors and leaves without cleaning up.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = |error: Option<hyperchunk_cuda::Error>| {
                error.is_some_and(|error| {
                    error.kind() == ErrorKind::Unsupported && error.message().contains("spawn")
                })
            };
            let all = refused(Context::for_device(0).err())
                && refused(context.make_current().err())
                && refused(DeviceMemory::alloc(&context, 8).err());
            drop(memory);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if all { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for our child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        drop(memory);
        assert_eq!(LoadedLibrary::new().counts().allocations, 0);
    });
}

#[test]
fn kernels_of_nvrtc_compute_what_the_processor_does() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = r#"
        struct Region { unsigned long long rank, dims[4]; };
        extern "C" __global__ void ndvi(const int *nir, const int *red, float *out, size_t count, Region region) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i >= count) return;
            float a = nir[i], b = red[i];
            out[i] = (a + b) == 0 ? -1.0f : (a - b) / (a + b) + (float)(i / region.dims[1] % region.rank);
        }
        extern "C" __global__ void mean(const float *in, double *out, size_t count) {
            __shared__ double sums[128];
            double sum = 0;
            for (size_t i = threadIdx.x; i < count; i += blockDim.x) sum += in[i];
            sums[threadIdx.x] = sum;
            __syncthreads();
            for (int half = 64; half > 0; half >>= 1) {
                if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
                __syncthreads();
            }
            if (threadIdx.x == 0) *out = sums[0] / count;
        }"#;
    let made =
        nvrtc.compile(source, "t.cu", &["--gpu-architecture=compute_80", "--fmad=false"], &[]).unwrap();
    apart("driver::kernels_of_nvrtc_compute_what_the_processor_does", "", || {
        let context = Context::for_device(0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, &made.text).unwrap();
        let count = 1000_usize;
        let nir: Vec<u32> = (0..1000).map(|i| i * 37 % 501).collect();
        let red: Vec<u32> = (0..1000).map(|i| i * 91 % 313 % 7).collect();
        let place = |values: &[u32]| {
            let memory = DeviceMemory::alloc(&context, values.len() * 4).unwrap();
            stream.upload(&memory, 0, &bytes(values)).unwrap();
            memory
        };
        let (a, b) = (place(&nir), place(&red));
        let out = DeviceMemory::alloc(&context, count * 4).unwrap();
        let mean = DeviceMemory::alloc(&context, 8).unwrap();
        let size = (count as u64).to_le_bytes();
        let region: Vec<u8> = [3_u64, 10, 8, 0, 0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let arguments = [
            Argument::Address(a.address()),
            Argument::Address(b.address()),
            Argument::Address(out.address()),
            Argument::Bytes(&size),
            Argument::Bytes(&region),
        ];
        module.function("ndvi").unwrap().launch(&stream, &Launch::linear(8, 128), &arguments).unwrap();
        let arguments =
            [Argument::Address(out.address()), Argument::Address(mean.address()), Argument::Bytes(&size)];
        module.function("mean").unwrap().launch(&stream, &Launch::linear(1, 128), &arguments).unwrap();
        let (mut ndvi, mut average) = (vec![0; count * 4], [0; 8]);
        stream.download(&out, 0, &mut ndvi).unwrap();
        stream.download(&mean, 0, &mut average).unwrap();
        let mut sums = [0.0_f64; 128];
        for i in 0..count {
            let (a, b) = (nir[i] as f32, red[i] as f32);
            let expected = if a + b == 0.0 { -1.0 } else { (a - b) / (a + b) + (i / 8 % 3) as f32 };
            assert_eq!(ndvi[i * 4..i * 4 + 4], expected.to_bits().to_le_bytes(), "{i}");
            sums[i % 128] += f64::from(expected);
        }
        let mut half = 64;
        while half > 0 {
            for i in 0..half {
                sums[i] += sums[i + half];
            }
            half /= 2;
        }
        assert_eq!(f64::from_le_bytes(average), sums[0] / 1000.0);
    });
}

#[test]
fn functions_of_nvidia_are_near_the_processors() {
    let Some(nvrtc) = nvrtc() else { return };
    type Pair = (&'static str, fn(f64) -> f64);
    let functions: [Pair; 17] = [
        ("exp", f64::exp),
        ("log", f64::ln),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("sqrt", f64::sqrt),
        ("cbrt", f64::cbrt),
        ("tanh", f64::tanh),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("rint", f64::round_ties_even),
        ("trunc", f64::trunc),
        ("log10", f64::log10),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("expm1", f64::exp_m1),
        ("pow25", |x| x.powf(2.5)),
    ];
    let mut source = String::from(
        "__device__ float pow25f(float x) { return powf(x, 2.5f); } __device__ double pow25(double x) { return pow(x, 2.5); }\n",
    );
    for (name, _) in functions {
        source += &format!(
            "extern \"C\" __global__ void {name}_32(const float *a, float *o) {{ o[threadIdx.x] = {name}f(a[threadIdx.x]); }}
            extern \"C\" __global__ void {name}_64(const double *a, double *o) {{ o[threadIdx.x] = {name}(a[threadIdx.x]); }}\n"
        );
    }
    source += "extern \"C\" __global__ void wide(const long long *a, long long *o) {
        int i = threadIdx.x; long long x = a[i], y = a[i ^ 1] | 1;
        o[i] = x / y + x % y + __clzll(x) + __popcll(y) + __ffsll(x) + __mul64hi(x, y) + llabs(x) + min(x, y)
            + (long long)((unsigned __int128)x * y >> 70); }";
    let options = ["--gpu-architecture=compute_80", "--fmad=false", "--device-int128"];
    let made = nvrtc.compile(&source, "t.cu", &options, &[]).unwrap();
    apart("driver::functions_of_nvidia_are_near_the_processors", "", || {
        let context = Context::for_device(0).unwrap();
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, &made.text).unwrap();
        let (from, to) =
            (DeviceMemory::alloc(&context, 512).unwrap(), DeviceMemory::alloc(&context, 512).unwrap());
        let run = |name: &str, input: &[u8]| {
            stream.upload(&from, 0, input).unwrap();
            let arguments = [Argument::Address(from.address()), Argument::Address(to.address())];
            module.function(name).unwrap().launch(&stream, &Launch::linear(1, 64), &arguments).unwrap();
            let mut back = vec![0; input.len()];
            stream.download(&to, 0, &mut back).unwrap();
            back
        };
        let values: Vec<f64> = (0..64).map(|i| f64::from(i) * 0.37 + 0.01).collect();
        for (name, function) in functions {
            let input: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            for (value, found) in values.iter().zip(run(&format!("{name}_64"), &input).chunks(8)) {
                let (found, expected) = (f64::from_le_bytes(found.try_into().unwrap()), function(*value));
                assert!(
                    (found - expected).abs() <= expected.abs() * 1e-14,
                    "{name} of {value}: {found}, not {expected}"
                );
            }
            let input: Vec<u8> = values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
            for (value, found) in values.iter().zip(run(&format!("{name}_32"), &input).chunks(4)) {
                let found = f64::from(f32::from_le_bytes(found.try_into().unwrap()));
                let expected = function(f64::from(*value as f32));
                let off = (found - expected).abs();
                assert!(off <= expected.abs() * 1e-6 + 1e-7, "{name}f of {value}: {found}, not {expected}");
            }
        }
        let mut state = 3_i64;
        let whole: Vec<i64> = (0..64)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> (i % 50)
            })
            .collect();
        let input: Vec<u8> = whole.iter().flat_map(|value| value.to_le_bytes()).collect();
        for (i, found) in run("wide", &input).chunks(8).enumerate() {
            let (x, y) = (whole[i], whole[i ^ 1] | 1);
            let high = |a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> 64) as i64;
            let first = if x == 0 { 0 } else { i64::from(x.trailing_zeros()) + 1 };
            let product = i128::from(x).cast_unsigned().wrapping_mul(i128::from(y).cast_unsigned()) >> 70;
            let terms = [
                x.wrapping_div(y),
                x.wrapping_rem(y),
                i64::from(x.leading_zeros()),
                i64::from(y.count_ones()),
                first,
                high(x, y),
                x.wrapping_abs(),
                x.min(y),
                product as i64,
            ];
            let expected = terms.into_iter().fold(0, i64::wrapping_add);
            assert_eq!(i64::from_le_bytes(found.try_into().unwrap()), expected, "{x} {y}");
        }
    });
}
