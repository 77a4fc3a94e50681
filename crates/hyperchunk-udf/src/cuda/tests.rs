use super::*;
use crate::datatype::ElementType;

const LISTING_5: &str = r#"
__global__ void
kernel(int *red, int *nir, int *ndvi, size_t n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        ndvi[i] = (nir[i] - red[i]) /
                (nir[i] + red[i]);
}

extern "C" void dynamic_dataset()
{
    // Output dataset size and its memory buffer
    auto ndvi = lib.getData<int>("NDVI");
    auto band_size = lib.getDims("NDVI");
    auto n = band_size[0] * band_size[1];

    // Input datasets
    auto red = lib.getData<int>("Red");
    auto nir = lib.getData<int>("NIR");

    // Configure and launch the kernel
    int block_dim = 1024;
    int grid_dim = (int)
        ceil((float) (n * sizeof(int))/block_dim);

    kernel<<<grid_dim,block_dim>>>(red,nir,ndvi,n);
}
"#;

const ALONE: &str = "THREADS(32, 4)\n__global__ void ndvi(const float *Red, DATASET(\"bands/NIR\") const float *__restrict__ nir,\n    float *NDVI, unsigned count, Region NDVI_region)\n{ }\n";

fn number(number: ElementType) -> Datatype {
    Datatype::Number(number)
}

/// Makes datasets of one type and shape; the first is the output.
fn datasets<'a>(
    names: &'a [&'a str],
    datatype: &'a Datatype,
    dims: &'a [u64],
    start: &'a [u64],
) -> Vec<Dataset<'a>> {
    let one = |(n, &name): (usize, &&'a str)| Dataset { name, datatype, dims, start, output: n == 0 };
    names.iter().enumerate().map(one).collect()
}

#[test]
fn listing_5_of_the_paper_becomes_one_launch() {
    let program = Program::parse(LISTING_5).unwrap();
    assert_eq!(program.names(), ["NDVI", "Red", "NIR"]);
    assert_eq!(program.kernels().collect::<Vec<_>>(), ["kernel"]);
    let int = number(ElementType::Int32);
    let found = datasets(&["NDVI", "Red", "NIR"], &int, &[1000, 1000], &[0, 0]);
    program.check(&found).unwrap();
    let plan = program.plan(&found).unwrap();
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!((step.grid, step.block, step.shared), ([3907, 1, 1], [1024, 1, 1], 0));
    let expected = [
        KernelArgument::Address(1),
        KernelArgument::Address(2),
        KernelArgument::Address(0),
        KernelArgument::Bytes(1_000_000u64.to_le_bytes().to_vec()),
    ];
    assert_eq!(step.arguments, expected);
    let text = program.assemble(LISTING_5, found.iter().map(|d| (d.name, d.datatype)));
    assert!(text.contains("extern \"C\" void dynamic_dataset()\n;"), "{text}");
    assert!(!text.contains("lib.getData"), "{text}");
    assert!(text.contains("decltype(&kernel), void (*)(int *, int *, int *, unsigned long)"), "{text}");
    let lines = text.split("#line 1 \"udf.cu\"\n").nth(1).unwrap().split("\n#line").next().unwrap();
    assert_eq!(lines.lines().count(), LISTING_5.lines().count());
    let float = number(ElementType::Float32);
    let error =
        program.check(&datasets(&["NDVI", "Red", "NIR"], &float, &[2], &[0])).unwrap_err().to_string();
    assert!(
        error.contains(
            "line 14: \"NDVI\" has elements of type float (float in C++), but the source declares int"
        ),
        "{error}"
    );
}

#[test]
fn a_kernel_alone_is_bound_by_its_parameters() {
    let program = Program::parse(ALONE).unwrap();
    assert_eq!(program.names(), ["Red", "bands/NIR", "NDVI"]);
    let float = number(ElementType::Float32);
    let dims = [5, 100, 70];
    let found = datasets(&["NDVI", "/bands/NIR", "Red"], &float, &dims, &[3, 0, 7]);
    program.check(&found).unwrap();
    let plan = program.plan(&found).unwrap();
    let step = &plan.steps[0];
    assert_eq!((step.grid, step.block), ([3, 25, 5], [32, 4, 1]));
    assert_eq!(
        step.arguments[..3],
        [KernelArgument::Address(2), KernelArgument::Address(1), KernelArgument::Address(0)]
    );
    assert_eq!(step.arguments[3], KernelArgument::Bytes(35_000u32.to_le_bytes().to_vec()));
    let KernelArgument::Bytes(region) = &step.arguments[4] else { panic!("no region") };
    let word = |n: usize| u64::from_le_bytes(region[n * 8..n * 8 + 8].try_into().unwrap());
    assert_eq!((region.len(), word(0), word(2), word(33), word(35)), (520, 3, 100, 3, 7));
    let swapped = datasets(&["Red", "NDVI", "bands/NIR"], &float, &dims, &[0, 0, 0]);
    assert!(
        program
            .check(&swapped)
            .unwrap_err()
            .to_string()
            .contains("\"Red\" is an output, and `const float *`")
    );
    let mut other = found.clone();
    other[0].output = false;
    other[1].output = true;
    assert!(program.check(&other).is_err());
}

#[test]
fn templates_are_made_with_what_follows_from_the_arguments() {
    let source = r#"
        #define BLOCK 64
        namespace bands { template <typename T, int N> __global__ void scale(const T *in, T *out, int n, T by) {} }
        template <class T> __global__ void copy(const T *in, T *out, size_t n) {}
        void dynamic_dataset(void) {
            const auto dims = lib.getDims("out");
            std::vector<size_t> wide = lib.getDims("in"), at = lib.getOffset("in");
            float *out = lib.getData<float>("out");
            dim3 block(BLOCK, 2), grid;
            grid.x = (wide[0] + block.x - 1) / block.x;
            grid = dim3(grid.x, std::min(dims[0], size_t(3)), 0x2u);
            copy<<<grid, block, 2 * sizeof(float)>>>(lib.getData<float>("in"), out, wide.size() > 1 ? wide[1] : 7);
            bands::scale<float, 3><<<(dims[0] + 255) / 256, 256, 0, 0>>>(out, out, -1, 1.5f);
            copy<<<1, 1>>>(out, out, at[0] << 2);
            cudaDeviceSynchronize();
        }"#;
    let program = Program::parse(source).unwrap();
    assert_eq!(program.kernels().collect::<Vec<_>>(), ["copy<float>", "bands::scale<float, 3>"]);
    let float = number(ElementType::Float32);
    let found = datasets(&["out", "in"], &float, &[1000], &[40]);
    program.check(&found).unwrap();
    let steps = program.plan(&found).unwrap().steps;
    let shapes: Vec<_> = steps.iter().map(|s| (s.kernel, s.grid, s.block, s.shared)).collect();
    assert_eq!(
        shapes,
        [(0, [16, 3, 2], [64, 2, 1], 8), (1, [4, 1, 1], [256, 1, 1], 0), (0, [1, 1, 1], [1, 1, 1], 0)]
    );
    assert_eq!(steps[0].arguments[2], KernelArgument::Bytes(7u64.to_le_bytes().to_vec()));
    assert_eq!(steps[1].arguments[2], KernelArgument::Bytes((-1i32).to_le_bytes().to_vec()));
    assert_eq!(steps[1].arguments[3], KernelArgument::Bytes(1.5f32.to_le_bytes().to_vec()));
    assert_eq!(steps[2].arguments[2], KernelArgument::Bytes(160u64.to_le_bytes().to_vec()));
    let text = program.assemble(source, found.iter().map(|d| (d.name, d.datatype)));
    assert!(
        text.contains("decltype(&bands::scale<float, 3>), void (*)(const float *, float *, int, float)"),
        "{text}"
    );
}

/// Checks that arithmetic in `dynamic_dataset` follows C++.
#[test]
fn host_numbers_are_those_of_c() {
    let check = |text: &str, expected: Option<i64>| {
        let source = format!(
            "__global__ void k(long n, int *o) {{}} void dynamic_dataset() {{ auto d = lib.getDims(\"o\"); auto o = lib.getData<int>(\"o\"); auto v = {text}; k<<<1, 1>>>(v, o); }}"
        );
        let int = number(ElementType::Int32);
        let steps = Program::parse(&source).and_then(|p| p.plan(&datasets(&["o"], &int, &[7, 9], &[0, 0])));
        match (steps, expected) {
            (Ok(plan), Some(expected)) => {
                assert_eq!(
                    plan.steps[0].arguments[0],
                    KernelArgument::Bytes(expected.to_le_bytes().to_vec()),
                    "{text}"
                );
            }
            (Err(error), None) => assert!(error.to_string().contains("line 1"), "{error}"),
            (Ok(plan), None) => panic!("{text}: {plan:?}"),
            (Err(error), Some(_)) => panic!("{text}: {error}"),
        }
    };
    check("7 / 2 * 2 + 7 % 4", Some(9));
    check("-7 / 2", Some(-3));
    check("d[0] - 8", Some(-1));
    check("(int) (d[0] - 8)", Some(-1));
    check("0u - 1", Some(4_294_967_295));
    check("1 << 4 | 3 & 2 ^ 1", Some(19));
    check("(unsigned char) 300", Some(44));
    check("ceil(7 / 2.0)", Some(4));
    check("ceil(7 / 2)", Some(3));
    check("(float) 16777217", Some(16_777_216));
    check("1 < 2 && !(3 == 4) ? 5 : 6", Some(5));
    check("d.size() * sizeof(double)", Some(16));
    check("static_cast<int>(2.9) + int(-2.9)", Some(0));
    check("std::max(d[0], d[1]) + min(1, 2)", Some(10));
    check("~0 + 0x10 + 1'000 + 010", Some(1023));
    check("true + 1e2f + .5", Some(101));
    check("2147483647 + 1", None);
    check("2147483647L + 1", Some(2_147_483_648));
    check("1 / 0", None);
    check("1 << 32", None);
    check("d[2]", None);
    check("1e30f", None);
    check("1.5 % 2", None);
    check("pow(2, 3)", None);
    check("99999999999999999999", None);
    check("0 ? 1 / 0 : 3", Some(3));
}

#[test]
fn what_is_not_translated_says_where_and_what_to_do() {
    let check = |body: &str, expected: &str| {
        let source = format!(
            "#define TWICE(x) x\n#if 1\n#define N 3\n#endif\n__global__ void k(int *a, int n) {{}}\ntemplate <typename T> __global__ void t(T n) {{}}\nvoid dynamic_dataset()\n{{\n    auto a = lib.getData<int>(\"a\");\n    {body}\n}}\n"
        );
        let error = Program::parse(&source).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("line 1"), "{body}: {error}");
    };
    check("for (int i = 0; i < 3; i++) k<<<1, 1>>>(a, i);", "line 10: `for` is not translated");
    check("if (a) {}", "write the kernel alone");
    check("float *b; cudaMalloc(&b, 100);", "= is missing before `;`");
    check("cudaMalloc(&b, 100);", "cudaMalloc is not translated: Hyperchunk itself manages");
    check("k<<<1, 1>>>(a, a[0]);", "are on the GPU, where only kernels see them");
    check("k<<<1, 1>>>(a);", "k takes 2 arguments, got 1");
    check("k<<<1, 1>>>(3, a);", "k expects int *, got a number");
    check("k<<<1, 1, 0, 1>>>(a, 3);", "the only stream is 0");
    check("other<<<1, 1>>>(a);", "there is no kernel other; there are k, t");
    check(
        "auto f = lib.getData<float>(\"f\"); k<<<1, 1>>>(f, 1);",
        "elements of type float, and k takes int * there",
    );
    check("t<<<1, 1>>>(a);", "cannot deduce T of t; write t<float>");
    check("int n = N; k<<<1, 1>>>(a, n);", "N is a macro that is defined under a condition");
    check("int n = TWICE(2); k<<<1, 1>>>(a, n);", "TWICE is a macro");
    check("auto s = lib.connect(\"a:1\");", "a kernel has no connections");
    check("auto s = lib.getAttr(\"a\", \"scale\");", "lib.getAttr: attributes are not supported in CUDA");
    check("auto s = lib.clock();", "there is no seed and no clock");
    check("auto s = lib.getData<int>(name);", "a dataset's name has to be a string here, and not `name`");
    check("auto s = lib.getData(\"a\");", "write the type of the elements");
    check("const int n = 3; n = 4;", "only `n = …` is translated");
    check("int n; k<<<1, 1>>>(a, n);", "n has no initial value");
    check("int n = m;", "m is not declared");
    check("int n = 3", "; is missing before the end");
}

#[test]
fn a_host_without_launches_is_an_error() {
    let error = Program::parse("__global__ void k() {}\nvoid dynamic_dataset() {}").unwrap_err().to_string();
    assert!(error.contains("line 2: dynamic_dataset launches no kernel"), "{error}");
}

#[test]
fn kernels_that_cannot_be_bound_say_why() {
    let check = |source: &str, expected: &str| {
        let error = Program::parse(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}: {error}");
    };
    check("void f() {}", "the source has no kernel");
    check("__global__ void a(int *x) {} __global__ void b(int *x) {}", "got a and b");
    check("__global__ void a(int *x) {} __global__ void a(int *x) {}", "two kernels called a");
    check("template <typename T> __global__ void a(T *x) {}", "a is a template");
    check("__global__ void a(int *x, int n) {}", "n of a is bound to no dataset");
    check("__global__ void a(int *x, Region r) {}", "call the Region of NIR NIR_region");
    check("__global__ void a(int **x) {}", "a pointer to a pointer");
    check("__global__ void a(int x[3]) {}", "then its name: unexpected `[`");
    check("__global__ void a(DATASET(x) int *x) {}", "has to be a string");
    check("__global__ void a(DATASET(\"//\") int *x) {}", "cannot be the name of a dataset");
    check("__global__ void THREADS(0) a(int *x) {}", "write THREADS(256)");
    check("__global__ void THREADS(512, 4) a(int *x) {}", "a block has at most 1024 threads");
    check("__global__ void a(int *x) {", "not closed");
    check("#define THREADS 3\n__global__ void a(int *x) {}", "line 1: THREADS is reserved for Hyperchunk");
    check("#define A A\n__global__ void a(A *x) {}", "or recursive");
    check(
        "__global__ void a(const float *x, int *y, double *z, Region x_region, Region y_region, Region z_region, DATASET(\"x\") Region a, DATASET(\"x\") Region b, DATASET(\"x\") Region c, DATASET(\"x\") Region d, DATASET(\"x\") Region e) {}",
        "over the limit of 4096",
    );
}

#[test]
fn plans_that_no_gpu_can_launch_are_errors() {
    let check = |launch: &str, expected: &str| {
        let source = format!(
            "__global__ void k(int *a) {{}}\nvoid dynamic_dataset()\n{{ auto n = lib.getDims(\"a\")[0];\n k<<<{launch}>>>(lib.getData<int>(\"a\")); }}"
        );
        let int = number(ElementType::Int32);
        let program = Program::parse(&source).unwrap();
        let error = program.plan(&datasets(&["a"], &int, &[100_000], &[0])).unwrap_err().to_string();
        assert!(error.contains("line 4") && error.contains(expected), "{error}");
    };
    check("1, n", "1 to 1024 in a block");
    check("1, dim3(1, 1, 65)", "64 along z");
    check("0, 32", "a grid of [0, 1, 1] blocks");
    check("dim3(1, n), 32", "65535 along y");
    check("n - 100001, 32", "from 0 to 4294967295");
    check("1, 32, 50000", "every GPU has 49152");
    check("n / (n - 100000), 32", "division by zero");
}

#[test]
fn compiled_forms_have_the_kernels_of_their_source() {
    let program = Program::parse(ALONE).unwrap();
    let ptx = ".version 8.8\n.target sm_75\n.visible .entry _Z4ndvi(\n.param .u64 a,\n.param .u64 b,\n.param .u64 c,\n.param .u32 d,\n.param .align 8 .b8 e[520]\n)\n{\nret;\n}\n";
    let object = stored(ptx, ["_Z4ndvi"]).into_bytes();
    assert_eq!(target(&object).unwrap(), "ptx/compute_75");
    assert_eq!(program.ptx(&object).unwrap().names, ["_Z4ndvi"]);
    let check = |from: &str, to: &str| {
        let text = String::from_utf8(object.clone()).unwrap().replace(from, to);
        assert_ne!(text.as_bytes(), object);
        let error = program.ptx(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    };
    check("kernel _Z4ndvi", "kernel other");
    check(".u32 d", ".u64 d");
    check(".param .u32 d,\n", "");
    check("[520]", "[8]");
    check("// hyperchunk kernel _Z4ndvi\n", "");
    check("ret", "\0");
    assert!(program.ptx(&[0xff]).is_err());
    assert!(target(b".target sm_60\n").is_err() && target(b"").is_err());
}

/// Checks that no source makes the parser panic or take long.
#[test]
fn hostile_sources_end_in_an_error() {
    let sources = [LISTING_5, ALONE];
    let pieces = [
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "<<<",
        ">>>",
        "[",
        "]",
        ",",
        ";",
        "\"",
        "'",
        "\\",
        "\n",
        "#define A",
        "#if",
        "/*",
        "R\"(",
        "__global__",
        "lib.",
        "getData<",
        "dim3 ",
        "auto x = ",
        "template <",
        "1e",
        "0x",
        "ü",
        "A A A",
        "-",
        "?",
        ":",
        "::",
        "THREADS(",
        "DATASET(",
        "const ",
        "*",
        "99999999999999999999999",
        "sizeof(",
        "min(1, ",
    ];
    let mut state = 7u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let int = number(ElementType::Int32);
    let found = datasets(&["NDVI", "Red", "NIR", "bands/NIR"], &int, &[10, 10], &[0, 0]);
    let slots = || found.iter().map(|d| (d.name, d.datatype));
    for source in sources {
        for cut in (0..source.len()).filter(|&n| source.is_char_boundary(n)) {
            let _ = Program::parse(&source[..cut]);
        }
        for _ in 0..4000 {
            let mut text = source.to_owned();
            for _ in 0..=random(3) {
                let mut at = random(text.len() + 1);
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                match random(3) {
                    0 => text.truncate(at),
                    1 => text.insert_str(at, pieces[random(pieces.len())]),
                    _ => {
                        text.remove(at.min(text.len() - 1));
                    }
                }
                if text.is_empty() {
                    break;
                }
            }
            if let Ok(program) = Program::parse(&text) {
                let _ = program.check(&found);
                let _ = program.plan(&found);
                program.assemble(&text, slots());
            }
        }
    }
    let wrap = |text: String| {
        format!(
            "__global__ void k(int *a) {{}} void dynamic_dataset() {{ auto x = {text}; k<<<1, 1>>>(lib.getData<int>(\"a\")); }}"
        )
    };
    let repeated = [
        wrap("(".repeat(100_000)),
        wrap("-".repeat(100_000)),
        wrap(format!("{}1", "1 + ".repeat(100_000))),
        wrap(format!("{}1{}", "min(1, ".repeat(100), ")".repeat(100))),
        wrap(format!("{}1", "(int) ".repeat(100_000))),
        wrap(format!("{}1", "1 ? 2 : ".repeat(100_000))),
        "template <".repeat(100_000),
        "__global__ void k(".repeat(50_000),
        "{".repeat(100_000),
        "namespace a {".repeat(100_000),
        format!("{}A0", (0..40).map(|n| format!("#define A{n} A{0} A{0}\n", n + 1)).collect::<String>()),
    ];
    for text in &repeated {
        assert!(Program::parse(text).is_err(), "{}", &text[..100]);
    }
}
