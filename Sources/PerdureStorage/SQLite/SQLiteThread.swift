import Glibc
import PerdureModel
import PerdureValue

/// One thread that owns a store and runs the calls that arrive, in their order.
///
/// SQLite blocks, so it must not run on the threads that Swift's tasks share.
///
/// `@unchecked Sendable`: `jobs` and `isStopping` are read and written only while `mutex` is held;
/// the pointers are set once, and released when the last reference goes, which the thread itself
/// holds until it ends.
@safe final class SQLiteThread: @unchecked Sendable {
  typealias Job = @Sendable (SQLiteStore?) -> Void

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
  static func start() throws -> SQLiteThread {
    let thread = SQLiteThread()
    let context = unsafe Unmanaged.passRetained(thread).toOpaque()
    var handle = pthread_t()
    let code = unsafe pthread_create(
      &handle,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        let thread = unsafe Unmanaged<SQLiteThread>.fromOpaque(context).takeRetainedValue()
        thread.run()
        return nil
      },
      context
    )
    guard code == 0 else {
      unsafe Unmanaged<SQLiteThread>.fromOpaque(context).release()
      throw PerdureError(
        .storageFailed,
        "no thread could be started for the store",
        cause: unsafe String(cString: strerror(code))
      )
    }
    pthread_detach(handle)
    return thread
  }

  /// Runs `body` on the thread with a store that it makes and keeps.
  func adopt(_ body: @escaping @Sendable () throws -> SQLiteStore) async throws {
    try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Void, any Error>) in
      let isAccepted = enqueue { [self] _ in
        do {
          store = try body()
          waiter.resume()
        } catch {
          waiter.resume(throwing: error)
        }
      }
      if !isAccepted { waiter.resume(throwing: Self.closed) }
    }
  }

  /// Returns what `body` makes of the store on the thread; throws `closed` after `stop`.
  func call<Value: Sendable>(
    _ body: @escaping @Sendable (SQLiteStore) throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Value, any Error>) in
      let isAccepted = enqueue { store in
        guard let store else {
          waiter.resume(throwing: Self.closed)
          return
        }
        do {
          let value = try body(store)
          waiter.resume(returning: value)
        } catch {
          waiter.resume(throwing: error)
        }
        store.afterCall()
      }
      if !isAccepted { waiter.resume(throwing: Self.closed) }
    }
  }

  /// Closes the store after the calls under way, and ends the thread.
  func stop() async {
    await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
      let isAccepted = enqueue(last: true) { [self] store in
        store?.close()
        self.store = nil
        waiter.resume()
      }
      if !isAccepted { waiter.resume() }
    }
  }

  /// Lets the thread close the store and end, without waiting.
  func abandon() {
    _ = enqueue(last: true) { [self] store in
      store?.close()
      self.store = nil
    }
  }

  static let closed = PerdureError(.closed, "the store is closed")

  // Only code on the thread uses it.
  private var store: SQLiteStore?

  private func enqueue(last: Bool = false, _ job: @escaping Job) -> Bool {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    guard !isStopping else { return false }
    isStopping = last
    jobs.append(job)
    if jobs.count == 1 { unsafe pthread_cond_signal(condition) }
    return true
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
      for job in jobs { job(store) }
      if isLast { return }
    }
  }
}
