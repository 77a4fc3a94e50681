use super::*;
use hyperchunk_udf::protocol::{PROTOCOL_VERSION, SetupSlot, Task};

mod numbers;

/// Dataset of a call: name, type, whether it is an output, and elements.
#[derive(Clone, Debug)]
struct Data {
    name: &'static str,
    kind: &'static str,
    output: bool,
    words: Vec<u64>,
    count: usize,
}

impl Data {
    fn new(name: &'static str, kind: &'static str, output: bool, bytes: &[u8]) -> Self {
        let size = Datatype::parse(kind).unwrap().size();
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Data { name, kind, output, words: words.collect(), count: bytes.len() / size }
    }

    fn floats(name: &'static str, values: impl Iterator<Item = f32>) -> Self {
        Data::new(name, "float", false, &values.flat_map(f32::to_ne_bytes).collect::<Vec<_>>())
    }

    fn out(name: &'static str, kind: &'static str, count: usize) -> Self {
        let size = Datatype::parse(kind).unwrap().size();
        Data::new(name, kind, true, &vec![0x55; count * size])
    }

    fn as_floats(&self) -> Vec<f32> {
        let bytes = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        bytes.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b)).take(self.count).collect()
    }
}

fn setup(source: &str, jit: bool, data: &[Data]) -> Setup {
    let slot =
        |d: &Data| SetupSlot { name: d.name.to_owned(), datatype: d.kind.to_owned(), output: d.output };
    Setup {
        protocol: PROTOCOL_VERSION,
        backend: "LuaJIT".to_owned(),
        jit,
        fine_clocks: true,
        memory: 0,
        cpu_s: 0,
        grants: Default::default(),
        file_bytes: 0,
        file_path: String::new(),
        slots: data.iter().map(slot).collect(),
        segments: Vec::new(),
        source: source.to_owned(),
        compiled: false,
        task: Task::Run,
        seed: None,
        no_clock: None,
        stored: false,
        wide: false,
        folder: None,
        partial: false,
    }
}

/// Runs a source once; returns the number of checked inputs.
fn run(source: &str, jit: bool, data: &mut [Data]) -> Result<usize> {
    let setup = setup(source, jit, data);
    let mut runtime = LuaRuntime::new(&setup)?;
    runtime.load(&setup, None)?;
    call(&mut runtime, data)
}

fn call(runtime: &mut LuaRuntime, data: &mut [Data]) -> Result<usize> {
    let types: Vec<_> = data.iter().map(|d| Datatype::parse(d.kind).unwrap()).collect();
    let dims: Vec<_> = data.iter().map(|d| [d.count as u64]).collect();
    let mut slots = Vec::new();
    for ((d, datatype), dims) in data.iter_mut().zip(&types).zip(&dims) {
        slots.push(CallSlot {
            name: d.name,
            datatype,
            data: d.words.as_mut_ptr().cast(),
            count: dims[0],
            dims,
            start: &[0],
            output: d.output,
            place: (0, 0),
            stored: 0,
        });
    }
    runtime.call(&slots)?;
    Ok(runtime.slots.borrow().checked)
}

fn body(lines: &str) -> String {
    format!(
        "function dynamic_dataset()\n  local out, a, b = lib.getData('out'), lib.getData('a'), lib.getData('b')\n  \
         local n = lib.getDims('out')[1]\n{lines}\nend\n"
    )
}

const ELEMENT_COUNT: usize = 4500;
/// All ones: `nil` to LuaJIT.
const BOXED_NAN: f32 = f32::from_bits(u32::MAX);

fn scene() -> Vec<Data> {
    let wave = |k: usize| move |n: usize| ((n * k) % 101) as f32 / 7.0 - 3.0;
    vec![
        Data::out("out", "float", ELEMENT_COUNT),
        Data::floats("a", (0..ELEMENT_COUNT).map(wave(17))),
        Data::floats("b", (0..ELEMENT_COUNT).map(wave(29))),
    ]
}

#[test]
fn test_boxed_nans_become_plain_ones_in_inputs_that_are_read() {
    let mut data = scene();
    data[1] = Data::floats("a", (0..ELEMENT_COUNT).map(|n| if n % 50 == 7 { BOXED_NAN } else { n as f32 }));
    let get = "local get = lib.getData lib.getData = function(...) return get(...) + 300 end\n";
    for (before, lines, checked) in [
        ("", "for i = 1, n do out[i] = a[i] + b[i] end", 2),
        ("", "for i = 1, n do out[i] = a[i] end out[1] = out[8] + 1", 2),
        ("", "for k = 1, 3 do for i = k, n do out[i] = lib.getData('a')[i] end end", 2),
        // Other functions of the source may pass the array on, even with an offset.
        (get, "for i = 1, 4100 do out[i - 300] = a[i - 300] * 2 end", 2),
    ] {
        let source = format!("{before}{}", body(lines));
        let mut results = Vec::new();
        for jit in [true, false] {
            let mut got = data.clone();
            assert_eq!(run(&source, jit, &mut got).unwrap(), checked, "{lines}");
            assert!(got[0].as_floats()[7].is_nan(), "{lines}");
            assert_eq!(got[1].words, data[1].words, "{lines}");
            results.push(got[0].as_floats().iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        }
        assert_eq!(results[0], results[1], "{lines}");
    }
    let source = "function dynamic_dataset() lib.getData('out')[1] = 7 end";
    assert_eq!(run(source, true, &mut data).unwrap(), 0);
}

#[test]
fn test_errors_have_the_line_of_the_source() {
    for (lines, line) in [
        ("\n\nfor i = 1, n do\n\n out[i] = a[i] + nothing end", "udf:8: "),
        ("\nfor i = 1, n do\n\n out[i] = 1 end\n error('here')", "udf:8: here"),
        ("local x = lib.getData('missing')", "udf:4: lib: no dataset missing"),
    ] {
        for jit in [true, false] {
            let error = run(&body(lines), jit, &mut scene()).unwrap_err();
            assert!(error.message().starts_with(line), "{}", error.message());
        }
    }
    for source in ["function dynamic_dataset() for i = 1, n do out[i] = end end", "x ="] {
        assert!(run(source, true, &mut scene()).unwrap_err().message().starts_with("udf:1: "));
    }
}

#[test]
fn test_calls_of_one_runtime_are_independent() {
    let mut data = scene();
    let source = body("for i = 1, n do out[i] = a[i] - b[i] end");
    let setup = setup(&source, true, &data);
    let mut runtime = LuaRuntime::new(&setup).unwrap();
    runtime.load(&setup, None).unwrap();
    for round in 0..4 {
        let count = if round % 2 == 0 { ELEMENT_COUNT } else { 4200 };
        data = scene();
        for each in &mut data {
            each.count = count;
        }
        assert_eq!(call(&mut runtime, &mut data).unwrap(), 2);
        let (a, b) = (data[1].as_floats(), data[2].as_floats());
        assert_eq!(data[0].as_floats(), a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>());
    }
}
