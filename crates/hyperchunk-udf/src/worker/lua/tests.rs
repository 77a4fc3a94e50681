use super::*;
use crate::protocol::{PROTOCOL_VERSION, SetupSlot, Task};

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

    /// Returns the bits of each element, with all NaNs made equal.
    fn bits(&self) -> Vec<u64> {
        let alike = |word: u64| match self.kind {
            "float" => [word & 0xffff_ffff, word >> 32]
                .map(|bits| u32::try_from(bits).unwrap())
                .map(|bits| if f32::from_bits(bits).is_nan() { 0x7fc0_0000 } else { bits })
                .iter()
                .fold(0, |word, bits| word << 32 | u64::from(*bits)),
            "double" if f64::from_bits(word).is_nan() => 0x7ff8 << 48,
            _ => word,
        };
        self.words.iter().map(|word| alike(*word)).collect()
    }
}

/// Counts of a call: checked inputs, and computed loops.
type CallCounts = (usize, usize);

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

fn run(source: &str, jit: bool, data: &mut [Data]) -> Result<CallCounts> {
    let setup = setup(source, jit, data);
    let mut runtime = LuaRuntime::new(&setup)?;
    runtime.load(&setup, None)?;
    call(&mut runtime, data)
}

fn call(runtime: &mut LuaRuntime, data: &mut [Data]) -> Result<CallCounts> {
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
    let slots = runtime.slots.borrow();
    Ok((slots.counted.0.get(), slots.counted.1.get()))
}

fn body(lines: &str) -> String {
    format!(
        "function dynamic_dataset()\n  local out, a, b = lib.getData('out'), lib.getData('a'), lib.getData('b')\n  \
         local n = lib.getDims('out')[1]\n{lines}\nend\n"
    )
}

/// Runs a source with and without LuaJIT's compiler, and compares with loops that are not vectorised, because
/// of an explicit step. `counted`: the expected counts.
fn check(source: &str, data: &[Data], counted: Option<CallCounts>) -> Vec<Data> {
    let plain = source.replace(" do -- loop", ", 1 do");
    assert!(counted.is_none_or(|c| c.1 == 0) || plain != source);
    let mut results = Vec::new();
    for jit in [true, false] {
        let mut expected = data.to_vec();
        let before = run(&plain, jit, &mut expected);
        let mut got = data.to_vec();
        let after = run(source, jit, &mut got);
        match (&before, &after) {
            (Ok((_, 0)), Ok(found)) => assert!(counted.is_none_or(|c| c == *found), "{found:?}: {source}"),
            (Err(a), Err(b)) => assert_eq!(a.message(), b.message(), "{source}"),
            _ => panic!("{before:?} {after:?}: {source}"),
        }
        for (e, g) in expected.iter().zip(&got) {
            for (at, (e, g)) in e.bits().iter().zip(g.bits()).enumerate() {
                assert_eq!(*e, g, "jit {jit}, {}, word {at}, {e:#x} {g:#x}: {source}", got[0].kind);
            }
        }
        results = got;
    }
    results
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
fn loops_are_computed() {
    for (lines, counted) in [
        ("for i = 1, n do -- loop\n out[i] = (a[i] - b[i]) / (a[i] + b[i]) end", (0, 1)),
        ("for i = 1, n do -- loop\n out[i] = a[i] * b[i] / (a[i] - b[i]) end", (0, 1)),
        ("for i = 1, n do -- loop\n out[i] = 7 end", (0, 1)),
        ("for i = 1, n do -- loop\n out[i] = -a[i] end", (0, 1)),
        ("for i = 1, n do -- loop\n local a, b = a[i], b[i] out[i] = (a - b) * 0.5 + a / 3 end", (0, 1)),
        ("for i = 2, n - 1 do -- loop\n out[i] = a[i - 1] - a[i + 1] end", (0, 1)),
        ("local k = 3 for i = 1 - k, n - k do -- loop\n out[i + k] = a[k + i] * k end", (0, 1)),
        ("for i = 1, n do -- loop\n out[i] = a[i] end out[1] = b[1] out[2] = out[7]", (1, 1)),
        (
            "local c = lib.getData('out') for i = 1, 0 do end for i = 1, 4100 do -- loop\n out[i] = a[i] end",
            (0, 1),
        ),
    ] {
        check(&body(lines), &scene(), Some(counted));
    }
    let mut two = scene();
    two.push(Data::out("more", "double", ELEMENT_COUNT));
    let lines =
        "local more = lib.getData('more') for i = 1, n do -- loop\n out[i] = a[i] / 3 more[i] = out2 end";
    check(&body(&lines.replace("out2", "b[i] / 3")), &two, Some((0, 1)));
    // The second loop reads the results of the first.
    let lines = "local c, more = lib.getData('out'), lib.getData('more') for i = 1, n do -- loop\n out[i] = a[i] / 3 end \
                 for i = 1, n - 100 do -- loop\n more[i] = c[i + 100] * b[i] end";
    check(&body(lines), &two, Some((0, 2)));
    // Integer outputs are left to LuaJIT, which rounds them where it compiles and truncates them where it
    // does not.
    for kind in ["int32", "uint8", "int64"] {
        let mut whole = scene();
        whole[0] = Data::out("out", kind, ELEMENT_COUNT);
        check(&body("for i = 1, n do -- loop\n out[i] = 7 end"), &whole, Some((0, 0)));
        whole[0] = Data::out("out", "float", ELEMENT_COUNT);
        whole[1] = Data::new(
            "a",
            kind,
            false,
            &[7; 8 * ELEMENT_COUNT][..ELEMENT_COUNT * Datatype::parse(kind).unwrap().size()],
        );
        let computed = usize::from(kind != "int64");
        check(&body("for i = 1, n do -- loop\n out[i] = a[i] / 3 end"), &whole, Some((0, computed)));
    }
    // One array under two names.
    let lines =
        "local more = lib.getData('out') for i = 1, n do -- loop\n out[i] = a[i] / 3 more[i] = b[i] end";
    check(&body(lines), &scene(), Some((2, 0)));
}

#[test]
fn what_cannot_be_computed_is_left_to_lua() {
    for (lines, counted) in [
        ("for i = 1, 0 do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = 1, n - 4450 do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = 1.5, n do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = 1, n + 0.5 do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = '1', tostring(n) do -- loop\n out[i] = a[i] end", (2, 0)),
        ("local k = 0.5 for i = 1, n - 1 do -- loop\n out[i + k] = a[i] end", (2, 0)),
        ("local s = '10' for i = 1, n do -- loop\n out[i] = a[i] + s end", (2, 0)),
        ("local s = {} for i = 1, n do -- loop\n out[i] = a[i] + s end", (2, 0)),
        ("local s for i = 1, n do -- loop\n out[i] = a[i] + s end", (2, 0)),
        ("local s for i = 1, 0 do -- loop\n out[i] = a[i] + s end", (2, 0)),
        ("local s for i = 1, s do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = {}, n do -- loop\n out[i] = a[i] end", (2, 0)),
        ("local c = {} for i = 1, n do c[i] = i + 0 end for i = 1, n do -- loop\n out[i] = c[i] end", (2, 0)),
        (
            "local c = {} for i = 1, n do -- loop\n c[i] = a[i] end for i = 1, n do -- loop\n out[i] = c[i] end",
            (1, 0),
        ),
        (
            "local c = setmetatable({}, {__index = function(_, i) return i end}) \
          for i = 1, n do -- loop\n out[i] = c[i] end",
            (2, 0),
        ),
        (
            "local c = require('ffi').new('float[?]', n + 1) for i = 1, n do -- loop\n out[i] = c[i] end",
            (2, 0),
        ),
        (
            "local c = require('ffi').cast('uint8_t *', a) for i = 1, n do -- loop\n out[i] = c[i + 3] end",
            (2, 0),
        ),
        ("local c for i = 1, n do -- loop\n out[i] = c[i] end", (2, 0)),
        ("for i = 1, n do -- loop\n a[i] = b[i] end a[1] = out[1]", (2, 0)),
        ("local c = out + 3 for i = 1, n - 3 do -- loop\n out[i] = c[i] end out[1] = a[1]", (2, 0)),
        ("local c = out - 3 for i = 4, n do -- loop\n out[i] = c[i] end out[1] = b[1]", (2, 0)),
        ("error('for i = 1, 2000 do ' .. n)", (0, 0)),
        // Extensions of newer LuaJITs to Lua 5.1.
        ("local k = 0 k += 1 for i = 1, n do -- loop\n out[i] = a[i] * k end", (2, 0)),
        ("const k = 1_000 for i = 1, n do -- loop\n out[i] = a[i] * k end", (2, 0)),
        ("local k = n != 3 ? 2 : 3 for i = 1, n do -- loop\n out[i] = a[i] * k end", (2, 0)),
        ("for i = 1, n do -- loop\n out[i] = a[i] * ~7 end", (2, 0)),
        ("for i = 1, n do -- loop\n out[i] = a[i] + 1_0 end", (2, 1)),
        ("for i = 1, n do -- loop\n if i > 3 then continue end out[i] = b[i] end", (2, 0)),
        ("local f = !n for i = 1, n do -- loop\n out[i] = a[i] + (f and 1 || 2) end", (2, 0)),
        ("for i = 1, 0/0 do -- loop\n out[i] = a[i] end", (2, 0)),
        ("for i = 1/0, 2 do -- loop\n out[i] = a[i] end", (2, 0)),
    ] {
        // Also with the names accessible to other code.
        check(&body(lines), &scene(), None);
        let source = body(&format!("{lines}\nlocal last = a[1] + b[1]"));
        check(&source, &scene(), Some(counted).filter(|c| c.0 == 2));
    }
}

#[test]
fn what_would_reach_past_the_elements_is_not_computed() {
    // Not run by Lua, which would crash.
    let mut vectors = Vectors::new(
        loops::rewrite(&body("for i = 1, n do -- loop\n out[i] = a[i] end"), 64)
            .unwrap()
            .loops
            .into_iter()
            .map(|each| each.computes),
        true,
    );
    let mut data = scene();
    let types: Vec<_> = data.iter().map(|d| Datatype::parse(d.kind).unwrap()).collect();
    let mut slots = Slots::new(&types);
    let places: Vec<_> = data.iter_mut().map(|d| d.words.as_mut_ptr().cast::<u8>()).collect();
    let calls: Vec<_> = types
        .iter()
        .zip(&places)
        .enumerate()
        .map(|(n, (datatype, place))| CallSlot {
            name: "",
            datatype,
            data: *place,
            count: ELEMENT_COUNT as u64,
            dims: &[],
            start: &[],
            output: n == 0,
            place: (0, 0),
            stored: 0,
        })
        .collect();
    slots.take(&calls);
    let (out, a) = (places[0] as usize as f64 - 4.0, places[1] as usize as f64 - 4.0);
    let last = ELEMENT_COUNT as f64;
    let mut asked = |given: &[f64]| vectors.compute(&slots, given).is_some();
    assert!(asked(&[0.0, 1.0, last, 0.0, out, 0.0, a]));
    let nan = f64::NAN;
    for given in [
        [0.0, 0.0, last, 0.0, out, 0.0, a],
        [0.0, 1.0, last + 1.0, 0.0, out, 0.0, a],
        [0.0, 1.0, last, 0.0, out + 4.0, 0.0, a],
        [0.0, 1.0, last, 0.0, out, 0.0, a - 4.0],
        [0.0, 1.0, last - 1.0, 0.0, out + 2.0, 0.0, a],
        [0.0, 1.0, last, 0.0, a, 0.0, out],
        [0.0, 1.0, last, 1.0, out, 0.0, a],
        [0.0, 1.0, last, 0.0, out, 6.0, a],
        [0.0, 1.0, last, 0.0, out, 8.0, a],
        [0.0, 1.0, last, 0.0, out, -1.0, a],
        [1.0, 1.0, last, 0.0, out, 0.0, a],
        [-1.0, 1.0, last, 0.0, out, 0.0, a],
        [0.0, nan, last, 0.0, out, 0.0, a],
        [0.0, 1.0, f64::INFINITY, 0.0, out, 0.0, a],
        [0.0, 1.0, 1e300, 0.0, out, 0.0, a],
        [0.0, -1e15, 1e15, 0.0, out, 0.0, a],
        [0.0, last, 1.0, 0.0, out, 0.0, a],
        [0.0, 1.0, last, 0.0, nan, 0.0, a],
        [0.0, 1.0, last, 0.0, 0.0, 0.0, 0.0],
    ] {
        assert!(!asked(&given), "{given:?}");
    }
    assert!(!asked(&[]) && !asked(&[0.0, 1.0, last]) && !asked(&[0.0, 1.0, last, 0.0, out, 0.0, a, 1.0]));
    slots.forget();
    assert!(vectors.compute(&slots, &[0.0, 1.0, last, 0.0, out, 0.0, a]).is_none());
}

#[test]
fn odd_nans_are_plain_ones_to_lua() {
    let mut data = scene();
    data[1] = Data::floats("a", (0..ELEMENT_COUNT).map(|n| if n % 50 == 7 { BOXED_NAN } else { n as f32 }));
    for (lines, counted) in [
        ("for i = 1, n do -- loop\n out[i] = a[i] + b[i] end", (0, 1)),
        // Lua can read computed elements.
        ("for i = 1, n do -- loop\n out[i] = a[i] end out[1] = out[8] + 1", (0, 1)),
        ("for i = 1, n - 4450 do -- loop\n out[i] = a[i] + b[i] end", (2, 0)),
        ("for i = 1, n - 4450 do -- loop\n out[i] = a[i + 300] + b[i] end", (2, 0)),
        (
            "for i = 1, n - 4450 do -- loop\n out[i] = a[i] end for i = 1, n do -- loop\n out[i] = a[i] * 2 end",
            (1, 1),
        ),
        (
            "for i = 1, n do -- loop\n out[i] = a[i] * 2 end for i = 1, n - 4450 do -- loop\n out[i] = a[i] end",
            (1, 1),
        ),
        ("for i = 1, n do -- loop\n out[i] = a[i] * 2 end out[1] = a[8] + 1", (1, 1)),
        ("for k = 1, 3 do for i = k, n do -- loop\n out[i] = a[i] + b[i] end end", (0, 3)),
        (
            "local four = 4 for k = 1, 300 do for i = 1, four do out[(k - 1) * 4 + i] = a[(k - 1) * 4 + i] end end",
            (1, 0),
        ),
    ] {
        let got = check(&body(lines), &data, None);
        let mut again = data.clone();
        let counted_now = run(&body(lines), true, &mut again).unwrap_or(counted);
        let reads_b = lines.contains("b[");
        let looked = if counted.0 == 2 && !reads_b { 1 } else { counted.0 };
        assert_eq!(counted_now, (looked, counted.1), "{lines}");
        assert!(got[0].as_floats()[7].is_nan(), "{lines}");
    }
    // Other functions of the source may pass the array on, even with an offset.
    let source = "local get = lib.getData lib.getData = function(...) return get(...) + 300 end\n".to_owned()
        + &body(
            "for i = 1, n - 4450 do -- loop\n out[i - 300] = a[i] + b[i] end for i = 1, 4100 do -- loop\n out[i - 300] = a[i] end",
        );
    check(&source, &data, None);
}

#[test]
fn a_program_may_change_everything_that_it_sees() {
    let taken = body("for i = 1, n do -- loop\n out[i] = a[i] * 2 end");
    for before in [
        "type, select, unpack, math, pcall = nil",
        "local ffi = require('ffi') ffi.cast, ffi.typeof, ffi.istype = nil",
        "for key in pairs(string) do string[key] = nil end",
        "getmetatable('').__index = nil",
        "setmetatable(_G, {__index = function(_, name) error('no ' .. name) end})",
        "local get = lib.getData lib.getData = function(name) return get(name) end",
        "jit.off()",
        "collectgarbage('stop')",
        "local ask0, ask1 = 1, 2",
    ] {
        let computed = run(&format!("{before}\n{taken}"), true, &mut scene()).unwrap();
        assert_eq!(computed.1, 1, "{before}");
        check(&format!("{before}\n{taken}"), &scene(), None);
    }
    // Globals are looked up in each iteration, with the current behaviour of their table.
    let source = body("for i = 1, 0 do -- loop\n out[i] = a[i] * missing end");
    check(
        &format!("setmetatable(_G, {{__index = function(_, name) error('no ' .. name) end}})\n{source}"),
        &scene(),
        None,
    );
}

#[test]
fn errors_say_the_same() {
    for lines in [
        "\n\nfor i = 1, n do -- loop\n\n out[i] = a[i] + nothing end",
        "\nfor i = 1, n do -- loop\n\n out[i] = 1 end\n error('here')",
        "\nlocal nothing\nfor i = 1, n do -- loop\n\n out[i] = nothing[i]\n end",
        "\nlocal nothing\nfor i = nothing, n do -- loop\n\n out[i] = 1\n end",
        "\nlocal nothing\nfor i = 1, nothing + 1 do -- loop\n\n out[i] = 1\n end",
        "\nlocal list = {}\nfor i = 1, n do -- loop\n\n out[i] = a[i] + list\n end",
        "lib.getData('missing')",
        "local x = lib.getData('missing') for i = 1, n do -- loop\n x[i] = 1 end",
    ] {
        let source = body(lines);
        let error = run(&source, false, &mut scene()).unwrap_err();
        let plain = run(&source.replace(" do -- loop", ", 1 do"), false, &mut scene()).unwrap_err();
        assert_eq!(error.message(), plain.message(), "{lines}");
    }
    for source in ["function dynamic_dataset() for i = 1, n do out[i] = end end", "x ="] {
        assert!(run(source, true, &mut scene()).unwrap_err().message().starts_with("udf:1: "));
    }
    // At the limit of locals there is no room for those of a rewritten loop.
    let many = (0..190).map(|n| format!("local v{n} = {n} ")).collect::<String>();
    let source = body(&format!("{many} for i = 1, n do -- loop\n out[i] = a[i] end"));
    assert_eq!(run(&source, true, &mut scene()).unwrap(), (2, 0));
}

#[test]
fn calls_are_apart() {
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
        assert_eq!(call(&mut runtime, &mut data).unwrap(), (0, 1));
        let (a, b) = (data[1].as_floats(), data[2].as_floats());
        assert_eq!(data[0].as_floats(), a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>());
    }
}

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn word(&mut self, kind: &str) -> u64 {
        let any = self.next() << 24 ^ self.next();
        let special = self.below(4) == 0;
        match kind {
            "float" if special => {
                let odd = [
                    u32::MAX,
                    0,
                    1 << 31,
                    1,
                    0x7f80_0000,
                    0xff80_0000,
                    0x7fc0_0000,
                    0x7f7f_ffff,
                    0x0080_0000,
                    0x7fa0_0001,
                ];
                u64::from(self.pick(&odd)) << 32 | u64::from(self.pick(&odd))
            }
            "double" if special => {
                let odd = [
                    u64::MAX,
                    0,
                    1 << 63,
                    1,
                    0x7ff0 << 48,
                    0xfff0 << 48,
                    0x7ff8 << 48,
                    0x3ff0 << 48,
                    0x7fef << 48,
                    0x7ff4 << 48,
                ];
                self.pick(&odd)
            }
            "float" => {
                let float = |bits: u64| ((bits & 0xffff) as f32 - 30000.0) / 128.0;
                u64::from(float(any).to_bits()) << 32 | u64::from(float(any >> 16).to_bits())
            }
            "double" => (((any & 0xffff_ffff) as f64 - 2e9) / 4096.0).to_bits(),
            _ if special => self.pick(&[0, u64::MAX, 1 << 63 | 1 << 31 | 1 << 15, 0x8080_8080_8080_8080]),
            _ => any,
        }
    }

    fn index(&mut self) -> &'static str {
        self.pick(&["i", "i", "i", "i + 1", "i - 1", "1 + i", "i + k", "k + i - 2", "i - (k - 1)", "(i)"])
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(8) == 0 {
            return match self.below(8) {
                0 => self.pick(&["0.5", "3", "1e-30", "1e300", "0x10", "0", "-0"]).to_owned(),
                1 => self.pick(&["s", "k", "z", "huge", "nan"]).to_owned(),
                2 => self.pick(&["p", "q"]).to_owned(),
                n => format!("{}[{}]", if n % 2 == 0 { "a" } else { "b" }, self.index()),
            };
        }
        let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.below(7) {
            0 => format!("-{}", left.trim_start_matches('-')),
            1 => format!("({left} - {right}) / ({left} + {right})"),
            n => {
                let operator = self.pick(&["+", "-", "*", "/"]);
                let right = if right.starts_with('-') { format!("({right})") } else { right };
                if n % 2 == 0 {
                    format!("{left} {operator} {right}")
                } else {
                    format!("({left} {operator} {right})")
                }
            }
        }
    }
}

#[test]
fn any_program_gives_the_bits_of_lua() {
    const KINDS: [&str; 9] =
        ["float", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float"];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut computed = 0;
    for round in 0..400 {
        let count = ELEMENT_COUNT + random.below(7);
        let mut data = vec![Data::out("out", random.pick(&["float", "float", "double"]), count)];
        for name in ["a", "b"] {
            let kind = if round % 3 == 0 { "float" } else { random.pick(&KINDS) };
            let size = Datatype::parse(kind).unwrap().size();
            let words: Vec<_> = (0..count * size / 8 + 1).map(|_| random.word(kind)).collect();
            data.push(Data { name, kind, output: false, words, count });
        }
        let locals = match random.below(4) {
            0 => String::new(),
            _ => format!("local p = {}", random.expression(1).replace(['p', 'q'], "s")),
        };
        let local = if locals.is_empty() { "s" } else { "p" };
        let expression = random.expression(3).replace('q', "a[i]").replace('p', local);
        let lines = format!(
            "local k, s, z, huge, nan = 2, -1.25, -0, 1e308, 0/0\n{} do -- loop\n {} out[{}] = {expression}\n end",
            random.pick(&["for i = 3, n - 2", "for i = 4, n - 3", "local last = n - 2 for i = 3, last"]),
            locals,
            random.pick(&["i", "i + 1", "i - 1"]),
        );
        let mut once = data.clone();
        computed += run(&body(&lines), false, &mut once).unwrap().1;
        check(&body(&lines), &data, None);
    }
    assert!(computed > 250, "{computed}");
}
