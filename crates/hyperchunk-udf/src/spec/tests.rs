use super::*;
use crate::backend::Backend;
use crate::scan::{self, Scan};

/// Compares a description's result, `name RESOLUTION type` or `name`, or part of its error after a `!`.
fn check_parse(text: &str, expected: &str) {
    match (OutputSpec::parse(text), expected.strip_prefix('!')) {
        (Ok(OutputSpec { name, dims: Some(dims), datatype: Some(datatype) }), None) => {
            assert_eq!(format!("{name} {} {}", resolution(&dims), datatype.name()), expected, "{text}");
        }
        (Ok(OutputSpec { name, dims: None, datatype: None }), None) => assert_eq!(name, expected, "{text}"),
        (Err(e), Some(part)) => {
            assert!(e.to_string().contains(part), "{e} has no {part:?}");
            if e.kind() == ErrorKind::Syntax {
                assert!(e.message().ends_with(GRAMMAR), "{e}");
            } else {
                assert_eq!(e.kind(), ErrorKind::Unsupported);
            }
        }
        (result, _) => panic!("{result:?} is not {expected}"),
    }
}

#[test]
fn descriptions() {
    let rank = |n: usize| format!("n:{}1:int8", "1x".repeat(n - 1));
    for (text, expected) in [
        ("NDVI", "NDVI"),
        ("/group/a b.lua", "/group/a b.lua"),
        ("time:utc", "time:utc"),
        ("Simple.py:2000:float", "Simple.py 2000 float"),
        ("a:100x50x3:uint8", "a 100x50x3 uint8"),
        ("/g/a b:1x1x1x1:double", "/g/a b 1x1x1x1 double"),
        ("time:utc:10:int64", "time:utc 10 int64"),
        (&rank(32), &format!("n {}1 int8", "1x".repeat(31))),
        ("a:4611686018427387904:int8", "a 4611686018427387904 int8"),
        (&rank(33), "!more than 32 dimensions"),
        ("a:4611686018427387904:int16", "!too many"),
        ("a:4294967296x4294967296:int8", "!too many"),
        ("a:99999999999999999999:int8", "!too large"),
        ("a:0x5:int8", "!a dimension is 0"),
        ("a:-5:int8", "!not a resolution"),
        ("a:5xx5:int8", "!not a resolution"),
        ("a:10,10:int8", "!not a resolution: whole numbers with x between them"),
        ("a:10 x 10:int8", "!not a resolution"),
        ("a:ten:int8", "!\"ten\" is not a resolution"),
        ("a:float:100", "!the resolution \"100\" comes before the type \"float\""),
        ("a:float", "!the resolution is missing"),
        ("a:100", "!the type is missing"),
        ("a:100:", "!unknown type"),
        ("a:", "!ends with a colon"),
        ("a:100:float32", "!unknown type \"float32\"; the types are int8"),
        ("", "!it has no name"),
        ("/", "!it has no name"),
        (":100:float", "!it has no name"),
        ("a\0b", "!it has no name"),
        ("a:100:float:100:float", "!the end of its name"),
        ("a:100:string", "a 100 string(32)"),
        ("a:100:string(80)", "a 100 string(80)"),
        ("a:100:string(*)", "!strings of variable length cannot be computed; give them a size"),
        ("a.py:100x2:int16[3]", "a.py 100x2 int16[3]"),
        ("a:{id:uint32,location:string,t:float}:1000", "a 1000 {id:uint32,location:string(32),t:float}"),
        ("a:{T (F):float,\"x:y\":{z:int8}}:2x5", "a 2x5 {\"T (F)\":float,\"x:y\":{z:int8}}"),
        ("a:{id:uint32,t:string(*)}:1000", "!strings of variable length"),
        ("a:{id:uint32,t}:1000", "!\":\" is missing after a member's name"),
        ("a:{id:uint32,t:}:1000", "!unknown type"),
        ("a:{id:uint32}:x", "!not a resolution"),
        ("a:{id:uint32}", "!the end of its name"),
    ] {
        check_parse(text, expected);
    }
}

/// Resolves names separated by blanks, with descriptions, in a file that is described the same way. The
/// result is `inputs -> outputs`, or part of the error after a `!`.
fn check(names: &str, specs: &[&str], file: &[&str], expected: &str) {
    let scan = Scan { names: names.split_whitespace().map(str::to_owned).collect(), ..Scan::default() };
    let parse = |texts: &[&str]| texts.iter().map(|t| OutputSpec::parse(t).unwrap()).collect::<Vec<_>>();
    let file = parse(file);
    let mut lookup = |name: &str| {
        if name == "damaged" {
            fail!(Invalid, "broken")
        }
        let found = file.iter().find(|f| normal_name(&f.name) == normal_name(name));
        Ok(found.map(|f| InputInfo {
            name: f.name.clone(),
            dims: f.dims.clone().unwrap(),
            datatype: f.datatype.clone().unwrap(),
            stored: f.datatype.clone().unwrap(),
            attribute: None,
        }))
    };
    match (resolve(&scan, &parse(specs), &mut lookup), expected.strip_prefix('!')) {
        (Ok(FunctionDatasets { inputs, outputs }), None) => {
            let inputs: Vec<_> = inputs.iter().map(|i| i.name.clone()).collect();
            let outputs: Vec<_> = outputs
                .iter()
                .map(|o| format!("{}:{}:{}", o.name, resolution(&o.dims), o.datatype.name()))
                .collect();
            assert_eq!(format!("{} -> {}", inputs.join(" "), outputs.join(" ")), expected);
        }
        (Err(e), Some(part)) => assert!(e.to_string().contains(part), "{e} has no {part:?}"),
        (result, _) => panic!("{result:?} is not {expected}"),
    }
}

const FILE: [&str; 4] =
    ["Red:100x50:float", "NIR:100x50:float", "Elevation:7:int16", "Table:{a:int8,b:string(5)}:4"];

#[test]
fn inputs_and_outputs() {
    for (names, specs, expected) in [
        ("Red NIR NDVI", &[][..], "Red NIR -> NDVI:100x50:float"),
        ("NDVI Red A", &[], "Red -> NDVI:100x50:float A:100x50:float"),
        ("/NIR NIR NDVI NIR/", &[], "/NIR -> NDVI:100x50:float"),
        ("Red NDVI", &["NDVI"], "Red -> NDVI:100x50:float"),
        ("Red NDVI", &["NDVI:9:int8"], "Red -> NDVI:9:int8"),
        ("Red /NDVI", &["NDVI"], "Red -> /NDVI:100x50:float"),
        ("Red Elevation A", &["A:7:double"], "Red Elevation -> A:7:double"),
        ("A B", &["B:2:int8", "A:3:int8"], " -> B:2:int8 A:3:int8"),
        ("Red NIR", &["NIR"], "Red -> NIR:100x50:float"),
        ("Red NIR", &["/NIR:4:int8"], "Red -> NIR:4:int8"),
        ("Red Elevation A", &[], "!the inputs differ (Red:100x50:float, Elevation:7:int16); describe it as"),
        ("Red Elevation A", &["A"], "!for example A:1000x1000:float"),
        ("A", &[], "!no inputs to copy dimensions and type from; describe it as NAME:RESOLUTION:TYPE"),
        ("Red NIR", &[], "!every dataset that the source uses (\"Red\", \"NIR\") is in the file already"),
        ("", &[], "!the source names no dataset"),
        ("Red A B", &["A"], "!dataset \"B\" is neither in the file nor described as output"),
        (
            "Red A",
            &["A", "B"],
            "!the source does not use the described dataset \"B\"; it uses \"Red\", \"A\"",
        ),
        ("Table A", &[], "Table -> A:4:{a:int8,b:string(5)}"),
        ("Red NIR", &["B:1:int8"], "!it uses \"Red\", \"NIR\""),
        ("", &["B:1:int8"], " -> B:1:int8"),
        ("Red A", &["A", "/A"], "!dataset \"/A\" is described twice"),
        ("damaged A", &[], "!damaged: broken"),
    ] {
        check(names, specs, &FILE, expected);
    }
}

/// Sources that HDF5-UDF 2.1 misreads: it sees only the first call of a line, and no variables.
#[test]
fn sources_that_the_reference_fails_on() {
    for (backend, source) in [
        (
            Backend::Lua,
            "function dynamic_dataset()\n local r, n, o = lib.getData('Red'), lib.getData('NIR'), lib.getData('NDVI')\nend",
        ),
        (
            Backend::Lua,
            "function dynamic_dataset()\n local band = 'NIR' f(lib.getData('Red'), lib.getData(band))\n\
             local out = lib.getData -- ('no')\n out\n'NDVI' end",
        ),
        (
            Backend::Cpp,
            "extern \"C\" void dynamic_dataset() { float *r = lib.getData<float>(\"Red\"), \
             *n = lib.getData<float>(\"NIR\"), *o = lib.getData<float>(\"NDVI\"); }",
        ),
    ] {
        let names = scan::scan(backend, source, None).unwrap().names;
        check(&names.join(" "), &[], &FILE, "Red NIR -> NDVI:100x50:float");
    }
}
