import Glibc

/// Threads for calls that may block, so that none of those that run Swift's tasks waits for a disk.
///
/// `@unchecked Sendable`: `jobs`, `idle` and `count` are read and written only while `mutex` is held;
/// the pointers are set once and live as long as the process, as the threads do.
@safe final class WorkThreads: @unchecked Sendable {
  typealias Job = @Sendable () -> Void

  static let shared = WorkThreads()

  private static let most = 8
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var jobs: [Job] = []
  private var idle = 0
  private var count = 0

  private init() {
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(condition, nil)
  }

  /// Runs a job on a thread and returns its result.
  func run<Value: Sendable>(_ job: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      enqueue { continuation.resume(returning: job()) }
    }
  }

  private func enqueue(_ job: @escaping Job) {
    unsafe pthread_mutex_lock(mutex)
    jobs.append(job)
    let needsThread = idle < jobs.count && count < Self.most
    if needsThread { count += 1 }
    unsafe pthread_mutex_unlock(mutex)
    unsafe pthread_cond_signal(condition)
    guard needsThread, !Self.start({ [self] in work() }) else { return }
    unsafe pthread_mutex_lock(mutex)
    count -= 1
    let isAlone = count == 0
    let mine = isAlone ? jobs : []
    if isAlone { jobs = [] }
    unsafe pthread_mutex_unlock(mutex)
    // Without any thread somebody has to do it.
    for job in mine { job() }
  }

  private func work() {
    while true {
      unsafe pthread_mutex_lock(mutex)
      idle += 1
      while jobs.isEmpty { unsafe pthread_cond_wait(condition, mutex) }
      idle -= 1
      let job = jobs.removeFirst()
      unsafe pthread_mutex_unlock(mutex)
      job()
    }
  }

  /// What a new thread is given.
  private final class Body: Sendable {
    let run: Job
    init(_ run: @escaping Job) { self.run = run }
  }

  /// Starts a thread that runs `body` and ends; `false` if the system has no room for one.
  static func start(_ body: @escaping Job) -> Bool {
    let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
    var handle = pthread_t()
    let code = unsafe pthread_create(
      &handle,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
        return nil
      },
      context
    )
    guard code == 0 else {
      unsafe Unmanaged<Body>.fromOpaque(context).release()
      return false
    }
    pthread_detach(handle)
    return true
  }
}
