use std::net::Ipv4Addr;

use super::*;
use crate::{activity::QueuedRequest, memory::MemoryBudget};

const SETTINGS: u8 = 4;

fn meter() -> (FrameMeter, Arc<Activity>) {
    let now = Instant::now();
    let unlimited = MemoryBudget::new(1 << 40, Arc::default());
    let client = Ipv4Addr::LOCALHOST.into();
    let activity = Arc::new(Activity::new(client, Arc::new(unlimited), now, now));
    let mut meter = FrameMeter::new(activity.clone());
    assert!(meter.accepts(&[0; PREFACE_BYTES]));
    (meter, activity)
}

/// Frames with a payload that looks like frames.
fn frames(kind: u8, count: usize) -> Vec<u8> {
    let mut frame = vec![0, 0, 18, kind, 0, 0, 0, 0, 0];
    frame.extend([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0].repeat(2));
    frame.repeat(count)
}

#[test]
fn control_frames_are_a_flood_after_a_thousand() {
    for kind in [2, SETTINGS, 6, 8, 200] {
        let (mut meter, _) = meter();
        assert!(meter.accepts(&frames(kind, 999)), "{kind}");
        assert!(!meter.accepts(&frames(kind, 1)), "{kind}");
    }
}

#[test]
fn frames_are_counted_however_they_are_split() {
    for size in [1, 2, 5, 9, 10, 100] {
        let (mut meter, _) = meter();
        let sent = frames(SETTINGS, 999);
        assert!(sent.chunks(size).all(|part| meter.accepts(part)), "{size}");
        let last = frames(SETTINGS, 1);
        assert!(!last.chunks(size).all(|part| meter.accepts(part)), "{size}");
    }
}

#[test]
fn bodies_and_requests_are_not_counted() {
    let (mut meter, activity) = meter();
    for kind in [DATA, HEADERS, RST_STREAM, CONTINUATION] {
        assert!(meter.accepts(&frames(kind, 5000)), "{kind}");
    }
    // A request allows ten control frames.
    for _ in 0..1000 {
        drop(QueuedRequest::new(&activity, 0));
        assert!(meter.accepts(&frames(SETTINGS, 10)));
    }
}
