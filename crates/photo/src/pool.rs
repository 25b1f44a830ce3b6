//! Threads that prepare photos, so that other work is not delayed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, available_parallelism},
    time::Duration,
};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    EncodedPhoto, MAX_MEMORY, MAX_SHARED_MEMORY, Rejection, catch_panic, deadline::Deadline,
    prepare_within,
};

/// Jobs that wait for a thread. Further callers wait until there is room.
const QUEUE: usize = 8;

/// A pool of threads that prepare photos: one for two processors, and at most two, at a lower
/// priority.
///
/// Dropping it ends the threads and waits for them. Jobs are cancelled by then, because the futures
/// that wait for them borrow the pool.
#[derive(Debug)]
pub struct Pool {
    /// `None` once the pool is being dropped.
    jobs: Option<Sender<Job>>,
    /// The jobs that wait or run.
    room: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Job {
    bytes: Bytes,
    is_cancelled: Arc<AtomicBool>,
    result: oneshot::Sender<Result<EncodedPhoto, Rejection>>,
    /// Held until the job has ended, even if its caller is gone.
    _room: OwnedSemaphorePermit,
}

/// [`prepare_within`], or what tests run in its place.
trait Conversion:
    Fn(&[u8], &Deadline, u64) -> Result<EncodedPhoto, Rejection> + Clone + Send + 'static
{
}

impl<F> Conversion for F where
    F: Fn(&[u8], &Deadline, u64) -> Result<EncodedPhoto, Rejection> + Clone + Send + 'static
{
}

/// Cancels a job when its caller stops waiting.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Pool {
    /// Starts the threads. A photo that takes more than `limit` of the CPU time of one is rejected.
    ///
    /// # Errors
    ///
    /// If the operating system does not allow another thread.
    pub fn start(limit: Duration) -> std::io::Result<Self> {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::with_threads((processors / 2).clamp(1, 2), limit, prepare_within)
    }

    fn with_threads(
        count: usize,
        limit: Duration,
        convert: impl Conversion,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut pool = Self {
            jobs: Some(sender),
            room: Arc::new(Semaphore::new(count + QUEUE)),
            threads: Vec::new(),
        };
        let large = Arc::new(Mutex::new(()));
        for number in 0..count {
            let jobs = receiver.clone();
            let large = large.clone();
            let convert = convert.clone();
            let thread = thread::Builder::new().name(format!("photo-{number}"));
            pool.threads
                .push(thread.spawn(move || run(&jobs, &large, limit, convert))?);
        }
        Ok(pool)
    }

    /// Prepares a photo. Waits while the queue is full.
    ///
    /// If the future is dropped, the job is skipped, or ends soon if a thread runs it.
    pub async fn prepare(&self, bytes: Bytes) -> Result<EncodedPhoto, Rejection> {
        const RUNS: &str = "threads, channel and semaphore live as long as the pool";
        let room = self.room.clone().acquire_owned().await.expect(RUNS);
        let cancel = CancelOnDrop(Arc::default());
        let (sender, result) = oneshot::channel();
        let job = Job {
            bytes,
            is_cancelled: cancel.0.clone(),
            result: sender,
            _room: room,
        };
        let jobs = self.jobs.as_ref().expect(RUNS);
        jobs.send(job).expect(RUNS);
        result.await.expect(RUNS)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that prepares photos panicked");
            }
        }
    }
}

/// Prepares the photos of jobs until the pool is dropped. `large` is held for those that take more
/// than [`MAX_SHARED_MEMORY`].
fn run(jobs: &Receiver<Job>, large: &Mutex<()>, limit: Duration, convert: impl Conversion) {
    if let Err(error) = system::priority::lower() {
        tracing::warn!(%error, "lowering the priority of a thread failed");
    }
    for job in jobs {
        let convert = |max_memory| {
            let deadline = Deadline::or_cancelled(limit, job.is_cancelled.clone());
            catch_panic(&job.bytes, || convert(&job.bytes, &deadline, max_memory))
        };
        let converted = match convert(MAX_SHARED_MEMORY) {
            Err(Rejection::TooMuchMemory { .. }) => {
                let turn = large.lock();
                let _turn = turn.expect("no thread panics while holding the lock");
                convert(MAX_MEMORY)
            }
            converted => converted,
        };
        // Of a cancelled job nothing is decoded, and its caller is gone.
        let _ = job.result.send(converted);
    }
}

#[cfg(test)]
mod tests;
