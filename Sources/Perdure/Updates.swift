import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What is observed of an open store, for one loop that may be slow.
///
/// It costs the store nothing but what waits to be read, and that is bounded. Cancelling the task
/// that reads ends only the sequence, and so does dropping it; it ends by itself when the store is
/// being closed, and throws `sessionFailed` when the store failed.
public struct Updates<Element: Sendable>: AsyncSequence, Sendable {
  typealias Next = @Sendable () async throws(PerdureError) -> Element?

  let next: Next
  let observer: any Observing
  let report: @Sendable (Report) -> Void

  /// Takes the elements one by one.
  public struct Iterator: AsyncIteratorProtocol {
    let take: Next

    /// Returns the next element, waiting for it, or `nil` after the last.
    public mutating func next() async throws(PerdureError) -> Element? { try await take() }
  }

  /// Begins to read; only one loop may.
  public func makeAsyncIterator() -> Iterator { Iterator(take: next) }

  // MARK: End

  /// Ends it and drops what was not read; of several reasons for an end the first counts.
  public func stop() { observer.end(.stopped) }

  /// Why it ended, or `nil` as long as it has not.
  public var ending: UpdatesEnd? { observer.ending.map { UpdatesEnd($0) } }

  /// Returns why it ended once it has.
  public func waitForEnd() async -> UpdatesEnd { UpdatesEnd(await observer.waitForEnd()) }

  /// Hands each element to `listener`, one after the other, and returns why that ended.
  ///
  /// A listener that throws is reported as `listener_error` and ends only this.
  public func deliver(to listener: (Element) async throws -> Void) async -> UpdatesEnd {
    do {
      while let element = try await next() {
        do {
          try await listener(element)
        } catch {
          let failure = Report.listenerFailed(error)
          report(failure)
          observer.end(.listenerFailed(PerdureError("listener_error", failure.message)))
        }
      }
    } catch {
      // It is the reason of the end, or the element does not have the form that was asked for.
      observer.end(.listenerFailed(error))
    }
    return await waitForEnd()
  }
}

/// Why somebody who observes is told nothing more.
public enum UpdatesEnd: Sendable {
  /// The reader asked for it, or went away.
  case stopped
  /// The task that read was cancelled.
  case cancelled
  /// The document that was observed is gone.
  case retired
  /// The conversation that was observed was deleted.
  case deleted
  /// The store is being closed.
  case sessionClosed
  /// The store failed.
  case sessionFailed(PerdureError)
  /// The listener threw.
  case listenerFailed(PerdureError)

  init(_ end: WatchEnd) {
    self =
      switch end {
      case .stopped: .stopped
      case .cancelled: .cancelled
      case .retired: .retired
      case .deleted: .deleted
      case .sessionClosed: .sessionClosed
      case .sessionFailed(let error): .sessionFailed(error)
      case .listenerFailed(let error): .listenerFailed(error)
      }
  }

  /// `stopped`, `cancelled`, `retired`, `deleted`, `session_closed`, `session_failed`, `listener_error`.
  public var reason: String {
    switch self {
    case .stopped: "stopped"
    case .cancelled: "cancelled"
    case .retired: "retired"
    case .deleted: "deleted"
    case .sessionClosed: "session_closed"
    case .sessionFailed: "session_failed"
    case .listenerFailed: "listener_error"
    }
  }
}

/// One change of what is observed.
public struct Change: Sendable, Equatable {
  /// The whole value after the change.
  public var value: JSON
  /// What leads there from the value of the change before.
  ///
  /// The first change, and one that stands for several because the reader was more than 100
  /// behind, is one replacement of the whole value.
  public var operations: [PerdureValue.Operation]
  /// The number of the commit.
  public var sequence: Int64
}

extension Updates {
  init<Value: Fold>(
    _ latest: Latest<Value>,
    of engine: Engine,
    _ transform: @escaping @Sendable (Value.Value) throws(PerdureError) -> Element
  ) {
    self.init(
      next: { () async throws(PerdureError) in
        if let value = await latest.next() { return try transform(value.value) }
        if let error = latest.ending?.error { throw error }
        return nil
      },
      observer: latest,
      report: engine.session.report
    )
  }

  /// The initial view and then every change of it, each as `transform` shows it.
  init<Value: Fold>(
    _ watch: Watch<Value>,
    of engine: Engine,
    _ transform: @escaping @Sendable (Change) throws(PerdureError) -> Element
  ) where Value.Step == PerdureValue.Operation {
    let first = Mailbox<Bool>()
    first.change { $0 = [true] }
    first.end(.stopped)
    self.init(
      next: { () async throws(PerdureError) in
        if await first.next() != nil, !watch.isDiscarded {
          let json = watch.initial.json
          return try transform(
            Change(value: json, operations: [.replace(json)], sequence: watch.initialSequence)
          )
        }
        if let frame = await watch.next() {
          return try transform(
            Change(value: frame.value, operations: frame.operations, sequence: frame.sequence)
          )
        }
        if let error = watch.ending?.error { throw error }
        return nil
      },
      observer: watch,
      report: engine.session.report
    )
  }
}

extension Updates<Change> {
  init<Value: Fold>(_ watch: Watch<Value>, of engine: Engine)
  where Value.Step == PerdureValue.Operation {
    self.init(watch, of: engine) { (change) throws(PerdureError) in change }
  }
}
