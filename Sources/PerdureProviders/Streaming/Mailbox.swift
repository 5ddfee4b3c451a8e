import Synchronization

/// Elements on their way from one producer to one reader, handed over in batches.
///
/// The reader is woken once per batch, not once per element: a token costs an append to an array.
final class Mailbox<Element: Sendable>: Sendable {
  private struct State {
    var elements: [Element] = []
    var waiter: CheckedContinuation<[Element], Never>?
    var isFinished = false

    mutating func takeElements() -> [Element] {
      defer { elements = [] }
      return elements
    }
  }

  private let state = Mutex(State())

  /// Adds elements and wakes the reader; after `finish` they are dropped.
  func send(_ elements: [Element]) {
    guard !elements.isEmpty else { return }
    let woken: (CheckedContinuation<[Element], Never>, [Element])? = state.withLock { state in
      guard !state.isFinished else { return nil }
      state.elements.append(contentsOf: elements)
      guard let waiter = state.waiter else { return nil }
      state.waiter = nil
      return (waiter, state.takeElements())
    }
    woken?.0.resume(returning: woken?.1 ?? [])
  }

  /// Says that nothing more comes; `discarding` also drops what was not read yet.
  func finish(discarding: Bool = false) {
    let waiter: CheckedContinuation<[Element], Never>? = state.withLock { state in
      state.isFinished = true
      if discarding { state.elements = [] }
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume(returning: [])
  }

  /// Returns all elements since the last call; waits for the first.
  ///
  /// Empty means finished.
  func next() async -> [Element] {
    await withCheckedContinuation { continuation in
      let ready: [Element]? = state.withLock { state in
        // A second reader at the same time is a mistake of the caller; it gets nothing.
        if !state.elements.isEmpty || state.isFinished || state.waiter != nil {
          return state.takeElements()
        }
        state.waiter = continuation
        return nil
      }
      if let ready { continuation.resume(returning: ready) }
    }
  }
}
