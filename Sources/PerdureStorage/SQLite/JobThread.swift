import Glibc
import PerdureModel
import PerdureValue

/// One thread that runs the jobs that arrive, in their order.
///
/// `@unchecked Sendable`: `jobs` and `isStopping` are read and written only while `mutex` is held;
/// the pointers are set once, and released when the last reference goes, which the thread itself
/// holds until it ends.
@safe package final class JobThread: @unchecked Sendable {
  package typealias Job = @Sendable () -> Void

  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var jobs: [Job] = []
  private var isStopping = false

  private init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Starts a thread, or throws if the system has no room for one.
  package static func start() throws -> JobThread {
    let thread = JobThread()
    let context = unsafe Unmanaged.passRetained(thread).toOpaque()
    var handle = pthread_t()
    let code = unsafe pthread_create(
      &handle,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        let thread = unsafe Unmanaged<JobThread>.fromOpaque(context).takeRetainedValue()
        thread.run()
        return nil
      },
      context
    )
    guard code == 0 else {
      unsafe Unmanaged<JobThread>.fromOpaque(context).release()
      throw PerdureError(
        .storageFailed,
        "no thread could be started for the store",
        cause: unsafe String(cString: strerror(code))
      )
    }
    pthread_detach(handle)
    return thread
  }

  /// Adds a job, after the last of which the thread ends; `false` if the last one came before.
  package func enqueue(last: Bool = false, _ job: @escaping Job) -> Bool {
    unsafe pthread_mutex_lock(mutex)
    let isAccepted = !isStopping
    if isAccepted {
      isStopping = last
      jobs.append(job)
    }
    let isFirst = isAccepted && jobs.count == 1
    unsafe pthread_mutex_unlock(mutex)
    // A thread that is woken while the lock is held would only go to sleep again.
    if isFirst { unsafe pthread_cond_signal(condition) }
    return isAccepted
  }

  /// Takes all that is waiting at once, so that a burst costs one wake-up.
  private func take() -> (jobs: [Job], isLast: Bool) {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while jobs.isEmpty { unsafe pthread_cond_wait(condition, mutex) }
    let taken = jobs
    jobs = []
    return (taken, isStopping)
  }

  private func run() {
    while true {
      let (jobs, isLast) = take()
      for job in jobs { job() }
      if isLast { return }
    }
  }
}
