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
  private let courier: Courier

  /// Makes threads of their own, which end with the last reference.
  init(_ prepare: Preparation? = nil) {
    queue = JobQueue(prepare)
    courier = Courier(isNeeded: prepare != nil)
  }

  deinit { queue.close() }

  /// Carries what these threads tell to others.
  func makeCourier() -> Courier { Courier(isNeeded: queue.prepare != nil) }

  /// Runs a job on a thread and returns its result.
  func run<Value: Sendable>(
    _ job: @escaping @Sendable () -> Result<Value, FileError>
  ) async -> Result<Value, FileError> {
    guard courier.isReady else { return .failure(Self.unprepared(SystemFailure(Int32(EAGAIN)))) }
    return await withCheckedContinuation { [courier] continuation in
      queue.enqueue { failure in
        let result = failure.map { .failure(Self.unprepared($0)) } ?? job()
        courier.deliver { continuation.resume(returning: result) }
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

/// Runs what threads with less rights must not run themselves, one after another.
///
/// A thread hands all its restrictions on to those that it starts, and whoever is woken by it may start
/// some: the runtime does, when a task goes on. So such a thread wakes nobody but this one, which was
/// there before.
final class Courier: Sendable {
  private let queue: JobQueue?
  /// Whether it can carry.
  let isReady: Bool

  /// Makes one; where it is not needed, the thread itself does what there is.
  init(isNeeded: Bool) {
    let queue = isNeeded ? JobQueue(nil, most: 1) : nil
    self.queue = queue
    isReady = queue?.startAtOnce() ?? true
  }

  deinit { queue?.close() }

  func deliver(_ body: @escaping @Sendable () -> Void) {
    guard let queue else { return body() }
    queue.enqueue { _ in body() }
  }
}

/// What threads are to do, and how many there are.
///
/// `@unchecked Sendable`: `jobs`, `idle`, `count` and `isClosed` are read and written only while `mutex`
/// is held; the pointers are set once and freed with the last reference, which threads hold, too.
@safe private final class JobQueue: @unchecked Sendable {
  private let most: Int
  let prepare: WorkThreads.Preparation?
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var jobs: [WorkThreads.Job] = []
  private var idle = 0
  private var count = 0
  private var isClosed = false

  init(_ prepare: WorkThreads.Preparation?, most: Int = 8) {
    self.prepare = prepare
    self.most = most
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

  /// Starts the first thread; `false` if the system has no room for it.
  func startAtOnce() -> Bool {
    unsafe pthread_mutex_lock(mutex)
    count += 1
    unsafe pthread_mutex_unlock(mutex)
    return WorkThreads.startPlain { [self] in work() }
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
    let needsThread = idle < jobs.count && count < most
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
