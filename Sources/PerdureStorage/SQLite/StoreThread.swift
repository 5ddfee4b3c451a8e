import PerdureModel

/// An open store that waits for the disk, and so must not be used on the threads that Swift's tasks
/// share.
protocol BlockingStore: AnyObject, SendableMetatype {
  /// Does what can wait until the caller has its answer.
  func afterCall()
  /// Releases everything.
  func close()
}

/// A thread that owns a store and runs the calls that arrive, in their order.
///
/// `@unchecked Sendable`: `store` is read and written only by jobs, which the one thread runs.
final class StoreThread<Store: BlockingStore>: @unchecked Sendable {
  private let thread: JobThread
  private var store: Store?

  /// Starts a thread, or throws if the system has no room for one.
  init() throws { thread = try JobThread.start() }

  /// Runs `body` on the thread with a store that it makes and keeps.
  func adopt(_ body: @escaping @Sendable () throws -> Store) async throws {
    try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Void, any Error>) in
      let isAccepted = thread.enqueue { [self] in
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

  /// Returns what `body` makes on the thread, which needs no store.
  func perform<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Value, any Error>) in
      let isAccepted = thread.enqueue { waiter.resume(with: Result { try body() }) }
      if !isAccepted { waiter.resume(throwing: Self.closed) }
    }
  }

  /// Returns what `body` makes of the store on the thread; throws `closed` after `stop`.
  func call<Value: Sendable>(
    _ body: @escaping @Sendable (Store) throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Value, any Error>) in
      let isAccepted = thread.enqueue { [self] in
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
      let isAccepted = thread.enqueue(last: true) { [self] in
        store?.close()
        self.store = nil
        waiter.resume()
      }
      if !isAccepted { waiter.resume() }
    }
  }

  /// Lets the thread close the store and end, without waiting.
  func abandon() {
    _ = thread.enqueue(last: true) { [self] in
      store?.close()
      self.store = nil
    }
  }

  private static var closed: PerdureError { PerdureError(.closed, "the store is closed") }
}
