use std::{
    fs,
    future::Future,
    pin::pin,
    sync::atomic::AtomicUsize,
    task::{Context, Poll, Waker},
};

use image::{ExtendedColorType, ImageEncoder, codecs::jpeg::JpegEncoder};
use tokio::runtime::Runtime;

use super::*;
use system::priority::NICE;

const HOUR: Duration = Duration::from_secs(3600);

fn jpeg(side: u32) -> Bytes {
    let mut jpeg = Vec::new();
    let pixels = vec![90; (side * side * 3) as usize];
    JpegEncoder::new(&mut jpeg)
        .write_image(&pixels, side, side, ExtendedColorType::Rgb8)
        .unwrap();
    jpeg.into()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

/// A pool without threads, whose jobs wait until [`run`] is called.
fn stopped_pool() -> (Pool, Receiver<Job>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let pool = Pool {
        jobs: Some(sender),
        room: Arc::new(Semaphore::new(QUEUE)),
        threads: Vec::new(),
    };
    (pool, receiver)
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn photos_are_prepared_and_rejected() {
    let pool = Pool::start(HOUR).unwrap();
    let (photo, other) = runtime().block_on(async {
        tokio::join!(
            pool.prepare(jpeg(64)),
            pool.prepare(Bytes::from_static(b"GIF89a"))
        )
    });
    assert_eq!(photo.unwrap().width, 64);
    assert_eq!(other, Err(Rejection::NotAnImage { found: Some("GIF") }));
}

#[test]
fn the_timeout_is_the_deadline() {
    let pool = Pool::with_threads(1, Duration::ZERO, prepare_within).unwrap();
    let result = runtime().block_on(pool.prepare(jpeg(8)));
    assert_eq!(result, Err(Rejection::TimedOut));
}

/// The job of the caller that is gone is skipped: it has no result, and it has left the queue.
#[test]
fn jobs_without_a_caller_are_skipped() {
    let (pool, jobs) = stopped_pool();
    let mut kept = Box::pin(pool.prepare(jpeg(8)));
    assert!(poll(kept.as_mut()).is_pending());
    {
        let gone = pin!(pool.prepare(Bytes::from_static(b"GIF89a")));
        assert!(poll(gone).is_pending());
    }
    assert_eq!(jobs.len(), 2);
    let (sender, receiver) = crossbeam_channel::unbounded();
    let queued: Vec<_> = jobs.try_iter().collect();
    let cancelled: Vec<_> = queued
        .iter()
        .map(|job| job.is_cancelled.load(Ordering::Relaxed))
        .collect();
    assert_eq!(cancelled, [false, true]);
    queued.into_iter().for_each(|job| sender.send(job).unwrap());
    drop(sender);
    run(&receiver, &Mutex::new(()), HOUR, prepare_within);
    assert!(matches!(poll(kept.as_mut()), Poll::Ready(Ok(_))));
    drop(kept);
    assert_eq!(pool.room.available_permits(), QUEUE);
}

#[test]
fn callers_wait_while_the_queue_is_full() {
    let (pool, jobs) = stopped_pool();
    let mut callers: Vec<_> = (0..=QUEUE)
        .map(|_| Box::pin(pool.prepare(jpeg(8))))
        .collect();
    for caller in &mut callers {
        assert!(poll(caller.as_mut()).is_pending());
    }
    assert_eq!(jobs.len(), QUEUE);
    // A caller that is gone leaves room once its job has been taken.
    drop(callers.remove(0));
    drop(jobs.recv().unwrap());
    assert!(poll(callers.last_mut().unwrap().as_mut()).is_pending());
    assert_eq!(jobs.len(), QUEUE);
}

/// A cancelled job ends although its thread decodes it already.
#[test]
fn a_cancelled_job_ends_early() {
    let is_cancelled = Arc::new(AtomicBool::new(true));
    let deadline = Deadline::or_cancelled(HOUR, is_cancelled);
    assert_eq!(
        prepare_within(&jpeg(8), &deadline, MAX_MEMORY),
        Err(Rejection::TimedOut)
    );
}

/// Small ones need not wait for them.
#[test]
fn large_images_are_decoded_one_at_a_time() {
    let large = Arc::new(AtomicUsize::new(0));
    let counted = large.clone();
    let convert = move |bytes: &[u8], _: &Deadline, max_memory| {
        let needs = if bytes == b"large" { MAX_MEMORY } else { 1 };
        crate::limits::check_memory(needs, max_memory, 1, 1)?;
        if bytes == b"large" {
            assert_eq!(counted.fetch_add(1, Ordering::Relaxed), 0);
            thread::sleep(Duration::from_millis(20));
            counted.fetch_sub(1, Ordering::Relaxed);
        }
        Err(Rejection::TimedOut)
    };
    let pool = Pool::with_threads(4, HOUR, convert).unwrap();
    runtime().block_on(async {
        let prepare = |image: &'static str| pool.prepare(Bytes::from_static(image.as_bytes()));
        let results = tokio::join!(
            prepare("large"),
            prepare("large"),
            prepare("small"),
            prepare("large")
        );
        let ended = Err(Rejection::TimedOut);
        assert_eq!(
            results,
            (ended.clone(), ended.clone(), ended.clone(), ended)
        );
    });
}

#[test]
fn the_memory_of_a_decoder_is_limited() {
    let deadline = Deadline::after(HOUR);
    let needs = 64 * 64 * 3;
    let refused = Err(Rejection::TooMuchMemory {
        width: 64,
        height: 64,
    });
    assert_eq!(prepare_within(&jpeg(64), &deadline, needs - 1), refused);
    prepare_within(&jpeg(64), &deadline, needs).unwrap();
}

/// Its thread decodes the next photo.
#[test]
fn a_panic_rejects_one_photo() {
    let panicking = |bytes: &[u8], deadline: &Deadline, max_memory| {
        assert_ne!(bytes, b"panic");
        prepare_within(bytes, deadline, max_memory)
    };
    let pool = Pool::with_threads(1, HOUR, panicking).unwrap();
    let runtime = runtime();
    let damaged = runtime.block_on(pool.prepare(Bytes::from_static(b"panic")));
    assert_eq!(damaged, Err(Rejection::Damaged));
    runtime.block_on(pool.prepare(jpeg(8))).unwrap();
}

/// Dropping the pool ends its threads.
#[test]
fn dropping_the_pool_ends_its_threads() {
    let pool = Pool::with_threads(2, HOUR, prepare_within).unwrap();
    let room = Arc::downgrade(&pool.room);
    runtime().block_on(pool.prepare(jpeg(8))).unwrap();
    drop(pool);
    assert!(room.upgrade().is_none());
}

#[test]
#[cfg(target_os = "linux")]
fn threads_have_a_lower_priority() {
    let pool = Pool::with_threads(1, HOUR, prepare_within).unwrap();
    // The thread has lowered it before its first job.
    runtime().block_on(pool.prepare(jpeg(8))).unwrap();
    let mut priorities = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        // Other tests end their threads.
        let Ok(stat) = fs::read_to_string(task.unwrap().path().join("stat")) else {
            continue;
        };
        let (name, fields) = stat.rsplit_once(") ").unwrap();
        if name.ends_with("(photo-0") {
            let nice = fields.split(' ').nth(16).unwrap();
            priorities.push(nice.parse::<i32>().unwrap());
        }
    }
    assert!(
        priorities.contains(&NICE) || priorities.iter().any(|nice| *nice > NICE),
        "{priorities:?}"
    );
}
