import PerdureValue
import Synchronization

/// A stream whose source waits while the plugin does not take what is there.
final class BufferedStream: PluginStream {
  private struct State {
    var items: [(json: JSON, size: Int)] = []
    var size = 0
    var end: JSON?
    var isClosed = false
    var reader: CheckedContinuation<Void, Never>?
    var writer: CheckedContinuation<Void, Never>?
    var closer: (@Sendable () -> Void)?
  }

  private static let itemLimit = 1_000
  private static let byteLimit = 1 << 20

  let pauses: Bool
  private let state = Mutex(State())

  init(pauses: Bool) { self.pauses = pauses }

  /// Runs `closer` when the stream is closed, at once if it is.
  func onClose(_ closer: @escaping @Sendable () -> Void) {
    let isClosed = state.withLock { state in
      state.closer = closer
      return state.isClosed
    }
    if isClosed { closer() }
  }

  /// Adds an item once there is room; `false` if nobody takes it any more.
  func send(_ item: JSON) async -> Bool {
    let size = item.encoded.count
    await withCheckedContinuation { continuation in
      let hasRoom = state.withLock { state in
        let isFull = state.items.count >= Self.itemLimit || state.size + size > Self.byteLimit
        guard isFull, !state.items.isEmpty, !state.isClosed else { return true }
        state.writer = continuation
        return false
      }
      if hasRoom { continuation.resume() }
    }
    let (isOpen, reader) = state.withLock { state in
      guard !state.isClosed else { return (false, nil as CheckedContinuation<Void, Never>?) }
      state.items.append((item, size))
      state.size += size
      defer { state.reader = nil }
      return (true, state.reader)
    }
    reader?.resume()
    return isOpen
  }

  /// Adds an item at once; where there is no room one that says so takes the place of what is left
  /// out.
  func offer(_ item: JSON) {
    let size = item.encoded.count
    let reader = state.withLock { state -> CheckedContinuation<Void, Never>? in
      guard !state.isClosed, state.end == nil else { return nil }
      let isFull = state.items.count >= Self.itemLimit || state.size + size > Self.byteLimit
      if isFull, state.items.last?.json == ["overflow": true] { return nil }
      state.items.append(isFull ? (["overflow": true], 0) : (item, size))
      if !isFull { state.size += size }
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
  }

  /// Ends it; the plugin is told after the items.
  func finish(_ end: JSON) {
    let reader = state.withLock { state in
      state.end = end
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
  }

  func next(maxItems: Int, maxBytes: Int) async -> StreamBatch {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        guard state.items.isEmpty, state.end == nil, !state.isClosed else { return true }
        state.reader = continuation
        return false
      }
      if isReady { continuation.resume() }
    }
    return take(maxItems, maxBytes)
  }

  private func take(_ maxItems: Int, _ maxBytes: Int) -> StreamBatch {
    let (batch, writer) = state.withLock { state in
      guard !state.isClosed else {
        let error: JSON = ["error": ["code": -1, "message": "the stream was closed"]]
        return (StreamBatch(items: [], end: error), nil as CheckedContinuation<Void, Never>?)
      }
      var items: [JSON] = []
      var bytes = 0
      while let first = state.items.first, items.count < max(1, maxItems),
        items.isEmpty || bytes + first.size <= maxBytes
      {
        state.items.removeFirst()
        state.size -= first.size
        bytes += first.size
        items.append(first.json)
      }
      defer { state.writer = nil }
      return (
        StreamBatch(items: items, end: state.items.isEmpty ? state.end : nil), state.writer
      )
    }
    writer?.resume()
    return batch
  }

  func close() {
    let (closer, reader, writer) = state.withLock { state in
      state.isClosed = true
      state.items = []
      defer {
        state.closer = nil
        state.reader = nil
        state.writer = nil
      }
      return (state.closer, state.reader, state.writer)
    }
    closer?()
    reader?.resume()
    writer?.resume()
  }
}
