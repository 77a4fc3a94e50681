//! Requests about a file whose bytes come in pieces.

use super::*;

const SCENE: &[u8] = include_bytes!("../../../hyperchunk/examples/scene.h5");

/// Runs a request until it has an answer; hands over each range in two parts, the second one first.
fn run(file: u64, operation: u32, mut request: Value) -> (Value, Answer, usize) {
    request["file"] = file.into();
    request["operation"] = operation.into();
    for round in 0..20 {
        let answer = call(request.to_string().as_bytes());
        let parsed: Value = serde_json::from_slice(&answer[0]).unwrap();
        let Some(need) = parsed.get("need") else { return (parsed, answer, round) };
        assert!(!need.as_array().unwrap().is_empty());
        for range in need.as_array().unwrap() {
            let [id, start, end] = [0, 1, 2].map(|place| range[place].as_u64().unwrap() as usize);
            let middle = start + (end - start) / 2;
            for (from, to) in [(middle, end), (start, middle)] {
                provide(u32::try_from(id).unwrap(), operation, from as f64, SCENE[from..to].to_vec());
            }
        }
    }
    panic!("no answer after 20 round trips");
}

fn opened() -> u64 {
    let request = json!({"op": "source", "size": SCENE.len(), "name": "scene.h5"});
    let answer: Value = serde_json::from_slice(&call(request.to_string().as_bytes())[0]).unwrap();
    let file = answer["ok"].as_u64().unwrap();
    let (opened, ..) = run(file, 1, json!({"op": "open", "external": "never"}));
    assert_eq!(opened["ok"]["superblock"], 2);
    file
}

#[test]
fn test_reads_in_pieces() {
    let file = opened();
    let (found, ..) = run(file, 2, json!({"op": "object", "path": "/temperature"}));
    assert_eq!(found["ok"]["shape"], json!([4, 6]));
    assert_eq!(found["ok"]["chunks"], json!([2, 3]));
    let read =
        json!({"op": "read", "path": "/temperature", "start": [1, 0], "count": [2, 2], "step": [2, 5]});
    let (result, buffers, rounds) = run(file, 3, read.clone());
    assert_eq!(result["ok"]["column"]["array"], "Float32Array");
    let numbers: Vec<f32> =
        buffers[1].chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(numbers, [6.0, 11.0, 18.0, 23.0]);
    assert!(rounds > 0);
    // Structure is not fetched again.
    let (_, _, again) = run(file, 4, read);
    assert!(again <= 1);
}

#[test]
fn test_mistakes_have_a_kind() {
    let file = opened();
    for (request, kind) in [
        (json!({"op": "object", "path": "/none"}), "NotFound"),
        (json!({"op": "read", "path": "/runs"}), "Invalid"),
        (json!({"op": "read", "path": "/temperature", "start": [0]}), "Invalid"),
        (json!({"op": "read", "path": "/temperature", "start": [9, 0], "count": [1, 1]}), "Invalid"),
        (json!({"op": "fly"}), "Invalid"),
    ] {
        let (answer, buffers, _) = run(file, 9, request.clone());
        assert_eq!(answer["error"]["kind"], kind, "{request}: {answer}");
        assert_eq!(buffers.len(), 1);
    }
    run(file, 9, json!({"op": "close"}));
    let (answer, ..) = run(file, 9, json!({"op": "object", "path": "/"}));
    assert_eq!(answer["error"]["message"], "the file is closed");
    assert!(String::from_utf8_lossy(&call(b"{")[0]).contains("Invalid"));
}
