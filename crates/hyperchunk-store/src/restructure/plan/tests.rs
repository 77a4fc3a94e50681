use super::*;

const MIB: u64 = 1 << 20;

fn geometry(extent: &[u64], source: &[u64], target: &[u64], memory: u64) -> Geometry {
    Geometry {
        extent: extent.to_vec(),
        element: 4,
        source: source.to_vec(),
        decoded: false,
        operation: 0,
        target: target.to_vec(),
        encoded: false,
        memory,
        fixed: 0,
    }
}

/// Makes a plan and checks general properties.
#[track_caller]
fn check(geometry: &Geometry) -> Plan {
    let plan = Plan::new(geometry).unwrap();
    for wanted in [1, 2, 64] {
        assert!(plan.needs(wanted) <= geometry.memory, "{geometry:?} {plan:?}");
    }
    for pass in &plan.passes {
        let tile = pass.tiles.cell();
        let multiple = |of: &[u64]| tile.iter().zip(of).all(|(tile, of)| tile % of == 0);
        if pass.way != Endpoint::Scatter {
            assert!(multiple(&geometry.target), "{plan:?}");
        }
        assert!(pass.cost.read >= pass.cost.written * 0.999, "{plan:?}");
    }
    assert_eq!(Plan::new(geometry).unwrap(), plan, "always the same");
    plan
}

#[test]
fn rows_become_columns_in_one_pass() {
    let side = 16_384;
    let plan = check(&geometry(&[side, side], &[side, side], &[side, 16], 64 * MIB));
    assert_eq!(plan.passes.len(), 1);
    let tile = plan.passes[0].tiles.cell();
    // Every single read and write is large enough.
    assert!(tile[1] * 4 >= 4096 && tile[0] * 64 >= 4096, "{tile:?}");
    assert!(plan.threads(&plan.passes[0], 8) >= 2);
    // Less memory gives smaller tiles; insufficient memory is an error.
    for memory in [6 * MIB, 10 * MIB, 20 * MIB] {
        check(&geometry(&[side, side], &[side, side], &[side, 16], memory));
    }
    let refused = Plan::new(&geometry(&[side, side], &[side, side], &[side, 16], MIB)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert!(refused.message().contains("needs"), "{refused}");
}

#[test]
fn filters_want_whole_chunks() {
    let base = geometry(&[4096, 4096], &[64, 4096], &[4096, 64], 64 * MIB);
    let encoded = Geometry { encoded: true, ..base.clone() };
    let plan = check(&encoded);
    assert_eq!(plan.passes.iter().map(|pass| pass.way).collect::<Vec<_>>(), [Endpoint::Encode]);
    let needed = Plan::new(&Geometry { memory: 4 * MIB, ..encoded.clone() }).unwrap_err();
    let number: u64 = needed.message().split(' ').filter_map(|word| word.parse().ok()).next_back().unwrap();
    // The amount in the error message is sufficient.
    check(&Geometry { memory: number, ..encoded.clone() });
    assert!(Plan::new(&Geometry { memory: number - 1, ..encoded }).is_err());
    // The source's chunks are decoded once, or there are two passes.
    let decoded = Geometry { decoded: true, encoded: true, memory: 24 * MIB, ..base };
    let plan = check(&decoded);
    assert_eq!(
        plan.passes.iter().map(|pass| pass.way).collect::<Vec<_>>(),
        [Endpoint::Scatter, Endpoint::Finish]
    );
    assert!((plan.passes[0].cost.read - plan.passes[0].cost.written).abs() < 1.0);
    assert_eq!(check(&Geometry { memory: 1 << 30, ..decoded }).passes.len(), 1);
}

#[test]
fn all_shapes() {
    let shapes: [(&[u64], &[u64], &[u64]); 6] = [
        (&[1], &[1], &[1]),
        (&[1_000_003], &[1000], &[777]),
        (&[100, 1, 3000], &[7, 1, 3000], &[100, 1, 11]),
        (&[20, 30, 40, 50], &[20, 1, 40, 1], &[1, 30, 1, 50]),
        (&[5, 4, 3, 2, 5, 4, 3, 2], &[1; 8], &[5, 1, 3, 1, 5, 1, 3, 1]),
        (&[10, 10], &[64, 64], &[32, 3]),
    ];
    for (extent, source, target) in shapes {
        for (decoded, encoded, operation) in
            [(false, false, 0), (true, false, 0), (false, true, 0), (true, true, 0), (false, true, MIB)]
        {
            let base = geometry(extent, source, target, 16 * MIB);
            check(&Geometry { decoded, encoded, operation, ..base });
        }
    }
}

#[test]
fn the_time_to_plan_does_not_grow_with_the_data() {
    for grown in [1, 1000] {
        let plan =
            check(&geometry(&[100_000, 10_000 * grown], &[1, 10_000 * grown], &[100_000, 1], 256 * MIB));
        let tile = plan.passes[0].tiles.cell();
        assert!(tile.iter().product::<u64>() * 4 <= 128 * MIB, "{tile:?}");
    }
}

#[test]
fn nonsense_is_refused() {
    let wrong = |extent: &[u64], source: &[u64], target: &[u64]| {
        Plan::new(&geometry(extent, source, target, MIB * 64)).unwrap_err().kind()
    };
    assert_eq!(wrong(&[], &[], &[]), ErrorKind::Invalid);
    assert_eq!(wrong(&[0], &[1], &[1]), ErrorKind::Invalid);
    assert_eq!(wrong(&[4], &[0], &[1]), ErrorKind::Invalid);
    assert_eq!(wrong(&[4], &[1], &[1, 1]), ErrorKind::Invalid);
    assert_eq!(wrong(&[1 << 40, 1 << 40], &[1, 1], &[1, 1]), ErrorKind::Limit);
}
