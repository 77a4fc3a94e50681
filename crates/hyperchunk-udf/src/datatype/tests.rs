use super::*;
use crate::error::ErrorKind;

#[test]
fn rows_are_in_the_order_of_the_enum() {
    for t in ElementType::all() {
        assert_eq!(t.row().0, t);
        assert_eq!(ElementType::from_name(t.name()), Some(t));
    }
    assert_eq!(ElementType::from_name("float32"), None);
}

/// Checks the canonical name, size and alignment of a type, and the offsets of its variable-length strings.
fn check(text: &str, name: &str, size: usize, align: usize, pointers: &[usize]) {
    let datatype = Datatype::parse(text).unwrap();
    assert_eq!(datatype.name(), name);
    assert_eq!((datatype.size(), datatype.align()), (size, align), "{text}");
    assert_eq!(datatype.pointers(), pointers, "{text}");
    assert_eq!(Datatype::parse(name).unwrap(), datatype);
}

#[test]
fn types_as_text() {
    check("int16", "int16", 2, 2, &[]);
    check("string", "string(32)", 32, 1, &[]);
    check("string(7)", "string(7)", 7, 1, &[]);
    check("{a:string(7,utf8)[2]}", "{a:string(7,utf8)[2]}", 14, 1, &[]);
    check("string(*)", "string(*)", 8, 8, &[0]);
    check("double[3x2]", "double[3x2]", 48, 8, &[]);
    check("{a:uint8,b:double,c:uint8}", "{a:uint8,b:double,c:uint8}", 24, 8, &[]);
    check("{a:uint8,s:string(3),b:int16}", "{a:uint8,s:string(3),b:int16}", 6, 2, &[]);
    check("{Temperature (F):double}", "{\"Temperature (F)\":double}", 8, 8, &[]);
    check(
        "{\"a,b\":int8,\"q\\\"\\\\\":string(*)[2]}",
        "{\"a,b\":int8,\"q\\\"\\\\\":string(*)[2]}",
        24,
        8,
        &[8, 16],
    );
    check("{a:{b:int8,c:{d:int64}},e:int8}", "{a:{b:int8,c:{d:int64}},e:int8}", 24, 8, &[]);
    check("{x:{t:string(*),n:int8}[2]}", "{x:{t:string(*),n:int8}[2]}", 32, 8, &[0, 16]);
}

#[test]
fn hostile_types_are_refused() {
    let deep = format!("{}int8{}", "{a:".repeat(9), "}".repeat(9));
    let wide = format!("{{{}}}", (0..1025).map(|n| format!("m{n}:int8")).collect::<Vec<_>>().join(","));
    let half: Vec<_> = (0..500).map(|n| format!("m{n}:int8")).collect();
    let half = format!("{{{}}}", half.join(","));
    for text in [
        "",
        "float32",
        "string()",
        "string(0)",
        "string(-1)",
        "string(+1)",
        "string(16777217)",
        "string(99999999999999999999)",
        "string(*",
        "string(7,ascii)",
        "string(,utf8)",
        "string(*,utf8)",
        "string(7,utf8,utf8)",
        "{}",
        "{a}",
        "{a:}",
        "{:int8}",
        "{a:int8",
        "{a:int8,}",
        "{a:int8}}",
        "{a:int8,a:int8}",
        "{\"a:int8}",
        "{\"a\\n\":int8}",
        "{\"\":int8}",
        "int8[]",
        "int8[0]",
        "int8[4294967296x4294967296]",
        "int8[16777217]",
        "int8[2",
        "int8[1][1][1][1][1][1][1][1][1]",
        "string(*)[5000]",
        "int8 ",
        &deep,
        &wide,
        &format!("{{a:{half},b:{half},c:{half}}}"),
        &"{a:".repeat(100_000),
        &"x".repeat(1 << 19),
    ] {
        let error = Datatype::parse(text).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Syntax | ErrorKind::Unsupported), "{error}");
        assert!(error.to_string().len() < 600);
    }
}

#[test]
fn names_that_functions_use() {
    for (names, expected) in [
        (&["Serial number", "Temperature (F)", "Pressure (inHg)"][..], "serial_number temperature pressure"),
        (&["Temperature.cpp", "/group/b-2", "x[0]", "trail_ "], "temperature_cpp group_b_2 x trail"),
        (&["Number", "number", "T2"], "number/Number number_2 t2/T2"),
        (&["T (F)", "T (C)", "t"], "t t_2 t_3"),
        (&["1st", "(x)", "é", "class", "end", "-"], "_1st _x _ class_ end_ __2"),
        (&["Class", "EOF", "value"], "class_/Class eof value"),
    ] {
        let got = identifiers(names.iter().copied());
        let got: Vec<_> = got.iter().map(|all| all.join("/")).collect();
        assert_eq!(got.join(" "), expected);
    }
}

#[test]
fn structures() {
    let parsed: Vec<_> = [
        "float",
        "string(20)",
        "string(*)",
        "{\"Serial number\":int32,Where:{x:double[2],N:string(3)},\"tags\":string(*)[2]}",
        "int16[3]",
        "string(4)[2]",
        "string(20)",
    ]
    .map(|t| Datatype::parse(t).unwrap())
    .to_vec();
    let names = ["a", "Dataset1", "/g/Data.set-2", "Table", "b", "c", "same"];
    let (text, types) = declarations(names.into_iter().zip(&parsed));
    assert_eq!(types, ["float", "dataset1_t", "g_data_set_2_t", "table_t", "int16_t", "c_t", "same_t"]);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let expected = [
        "typedef dataset1_t same_t;",
        "typedef struct { char * value; } g_data_set_2_t;",
        "typedef struct { char value[20]; } dataset1_t;",
        "typedef struct { char value[2][4]; } c_t;",
        "typedef struct { double x[2]; union { char n[3]; char N[3]; }; } table_where_t;",
        "typedef struct { int32_t serial_number; union { table_where_t where; table_where_t Where; }; char * tags[2]; } table_t;",
    ];
    assert_eq!(lines, expected);
    let reversed = declarations(names.into_iter().zip(&parsed).rev());
    assert_eq!(reversed.0, text);
    assert_eq!(reversed.1.into_iter().rev().collect::<Vec<_>>(), types);
}
