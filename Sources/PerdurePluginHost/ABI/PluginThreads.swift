internal import CPerdureLinux
import Glibc
internal import PerdureModel

/// Threads for the code of one plugin, which is never run on Swift's cooperative pool.
///
/// There are as many threads as jobs that run at once, up to a limit: a job that hangs costs its own
/// thread and no other job, and the next plugin has threads of its own. Idle threads end after a
/// while.
// Safe and @unchecked Sendable: all state is reached under `lock`; lock and condition live for ever.
@safe final class PluginThreads: @unchecked Sendable {
  typealias Job = @Sendable () -> Void

  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let news: UnsafeMutablePointer<pthread_cond_t>
  private let rest: UnsafeMutablePointer<pthread_cond_t>
  private let limit: Int
  private var jobs: [Job] = []
  private var firstJob = 0
  private var threads = 0
  private var idle = 0
  private var whenIdle: [@Sendable () -> Void] = []
  private var stopping = false

  private static let idleSeconds = 10

  /// Makes a pool that grows up to `limit` threads.
  init(limit: Int) {
    self.limit = limit
    unsafe lock = .allocate(capacity: 1)
    unsafe news = .allocate(capacity: 1)
    unsafe rest = .allocate(capacity: 1)
    unsafe pthread_mutex_init(lock, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(news, &attributes)
    unsafe pthread_cond_init(rest, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    // No thread is left: each holds the pool.
    unsafe pthread_cond_destroy(news)
    unsafe pthread_cond_destroy(rest)
    unsafe pthread_mutex_destroy(lock)
    unsafe news.deallocate()
    unsafe rest.deallocate()
    unsafe lock.deallocate()
  }

  /// Runs `job` soon on one of the threads; `false` if there is none and none can be made.
  @discardableResult func run(_ job: @escaping Job) -> Bool {
    unsafe pthread_mutex_lock(lock)
    let isTaken = take(job)
    let isAwaited = idle > 0
    unsafe pthread_mutex_unlock(lock)
    // A thread that is woken while the lock is held would only go to sleep again.
    if isTaken, isAwaited { unsafe pthread_cond_signal(news) }
    return isTaken
  }

  private func take(_ job: @escaping Job) -> Bool {
    guard !stopping else { return false }
    if idle <= jobs.count - firstJob, threads < limit, !spawn(), threads == 0 { return false }
    jobs.append(job)
    return true
  }

  /// Lets threads end when the jobs that were given are done; no further job is taken.
  func stop() {
    unsafe pthread_mutex_lock(lock)
    stopping = true
    unsafe pthread_cond_broadcast(news)
    unsafe pthread_mutex_unlock(lock)
  }

  /// Waits until no job runs and none is left; `false` when that takes longer than this.
  func isIdle(within nanoseconds: Int64, on clock: any HostClock) async -> Bool {
    let idle = OneShot<Bool>()
    if !tell(idle) { return await idle.value(within: nanoseconds, on: clock, else: false) }
    return true
  }

  /// The same for a thread that has nothing else to do.
  func waitUntilIdle(seconds: Int) -> Bool {
    var until = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &until)
    until.tv_sec += seconds
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    while idle < threads || firstJob < jobs.count {
      if unsafe pthread_cond_timedwait(rest, lock, &until) == ETIMEDOUT { return false }
    }
    return true
  }

  private func tell(_ shot: OneShot<Bool>) -> Bool {
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    if idle == threads, firstJob == jobs.count { return true }
    whenIdle.append { shot.fire(true) }
    return false
  }

  private func spawn() -> Bool {
    let context = unsafe Unmanaged.passRetained(self)
    var thread = pthread_t()
    let status = unsafe pthread_create(
      &thread,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        let pool = unsafe Unmanaged<PluginThreads>.fromOpaque(context).takeRetainedValue()
        pool.work()
        return nil
      },
      context.toOpaque()
    )
    guard status == 0 else {
      unsafe context.release()
      return false
    }
    pthread_detach(thread)
    threads += 1
    return true
  }

  private func work() {
    perdure_breadcrumb_signal_stack()
    while let job = next() { job() }
  }

  private func next() -> Job? {
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    while firstJob == jobs.count {
      jobs.removeAll(keepingCapacity: true)
      firstJob = 0
      if stopping {
        threads -= 1
        return nil
      }
      idle += 1
      if idle == threads {
        for tell in whenIdle { tell() }
        whenIdle = []
        unsafe pthread_cond_broadcast(rest)
      }
      let status = waitForNews()
      idle -= 1
      if status == ETIMEDOUT, firstJob == jobs.count, threads > 1 {
        threads -= 1
        return nil
      }
    }
    let job = jobs[firstJob]
    // The job must not be kept by the queue after it ran.
    jobs[firstJob] = {}
    firstJob += 1
    if firstJob >= 64, firstJob * 2 >= jobs.count {
      jobs.removeFirst(firstJob)
      firstJob = 0
    }
    return job
  }

  private func waitForNews() -> Int32 {
    var until = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &until)
    until.tv_sec += Self.idleSeconds
    return unsafe pthread_cond_timedwait(news, lock, &until)
  }
}
