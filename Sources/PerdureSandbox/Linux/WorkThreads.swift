import Glibc
import PerdureModel
import Synchronization

/// Threads for calls that may block, so that none of those that run Swift's tasks waits for a disk.
final class WorkThreads: Sendable {
  /// What a thread does to itself before its first job; what it throws keeps it from all jobs.
  typealias Preparation = @Sendable () throws(SystemFailure) -> Void
  /// Something to do; with a failure, not to be done.
  typealias Job = @Sendable (SystemFailure?) -> Void

  /// Those that use files as this process may.
  static let shared = WorkThreads()

  private let queue: JobQueue

  /// Makes threads of their own, which end with the last reference.
  init(_ prepare: Preparation? = nil) { queue = JobQueue(prepare) }

  deinit { queue.close() }

  /// Runs a job on a thread and returns its result.
  func run<Value: Sendable>(
    _ job: @escaping @Sendable () -> Result<Value, FileError>
  ) async -> Result<Value, FileError> {
    await withCheckedContinuation { continuation in
      queue.enqueue { failure in
        continuation.resume(returning: failure.map { .failure(Self.unprepared($0)) } ?? job())
      }
    }
  }

  /// Starts another thread of the same kind, which runs `body` and ends; `false` if there can be none.
  func start(_ body: @escaping Job) -> Bool {
    let prepare = queue.prepare
    return Self.startPlain { body(Self.failure(of: prepare)) }
  }

  static func unprepared(_ failure: SystemFailure) -> FileError {
    FileError(.unknown, "no thread can serve these files: \(failure.text)")
  }

  /// Does to this thread what it needs; what failed, if something did.
  fileprivate static func failure(of prepare: Preparation?) -> SystemFailure? {
    do {
      try prepare?()
      return nil
    } catch {
      return error
    }
  }

  /// What a new thread is given.
  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Starts a thread that runs `body` as this process may, and ends; `false` if the system has no room.
  static func startPlain(_ body: @escaping @Sendable () -> Void) -> Bool {
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

/// What threads are to do, and how many there are.
///
/// `@unchecked Sendable`: `jobs`, `idle`, `count` and `isClosed` are read and written only while `mutex`
/// is held; the pointers are set once and freed with the last reference, which threads hold, too.
@safe private final class JobQueue: @unchecked Sendable {
  private static let most = 8

  let prepare: WorkThreads.Preparation?
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var jobs: [WorkThreads.Job] = []
  private var idle = 0
  private var count = 0
  private var isClosed = false

  init(_ prepare: WorkThreads.Preparation?) {
    self.prepare = prepare
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

  /// Lets the threads end once nothing is left to do.
  func close() {
    unsafe pthread_mutex_lock(mutex)
    isClosed = true
    unsafe pthread_mutex_unlock(mutex)
    unsafe pthread_cond_broadcast(condition)
  }

  func enqueue(_ job: @escaping WorkThreads.Job) {
    unsafe pthread_mutex_lock(mutex)
    jobs.append(job)
    let needsThread = idle < jobs.count && count < Self.most
    if needsThread { count += 1 }
    unsafe pthread_mutex_unlock(mutex)
    unsafe pthread_cond_signal(condition)
    guard needsThread, !WorkThreads.startPlain({ [self] in work() }) else { return }
    unsafe pthread_mutex_lock(mutex)
    count -= 1
    let isAlone = count == 0
    let mine = isAlone ? jobs : []
    if isAlone { jobs = [] }
    unsafe pthread_mutex_unlock(mutex)
    // Without any thread somebody has to do it, unless only a thread of its own may.
    let failure = prepare == nil ? nil : SystemFailure(Int32(EAGAIN))
    for job in mine { job(failure) }
  }

  private func work() {
    let failure = WorkThreads.failure(of: prepare)
    while true {
      unsafe pthread_mutex_lock(mutex)
      idle += 1
      while jobs.isEmpty, !isClosed { unsafe pthread_cond_wait(condition, mutex) }
      idle -= 1
      guard !jobs.isEmpty else {
        count -= 1
        unsafe pthread_mutex_unlock(mutex)
        return
      }
      let job = jobs.removeFirst()
      unsafe pthread_mutex_unlock(mutex)
      job(failure)
    }
  }
}
