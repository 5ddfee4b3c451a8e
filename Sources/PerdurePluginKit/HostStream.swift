public import PerdureValue
import Synchronization

/// Items that the host holds for a call.
///
/// One loop at a time may read them.
public struct HostStream: AsyncSequence, Sendable {
  /// Tells the host when nobody reads any more.
  final class Source: Sendable {
    private struct State {
      var items: [JSON] = []
      var end: JSON?
    }

    private let call: PluginCall
    private let handle: JSON
    private let state = Mutex(State())

    init(_ call: PluginCall, _ handle: JSON) {
      self.call = call
      self.handle = handle
    }

    deinit {
      guard end == nil else { return }
      // Nobody waits for the answer; the stream ends with its call anyway.
      let tables = call.core.tables
      _ = tables.start(call.id, "stream.close", Payload(["stream": handle]), PendingRequest())
    }

    var end: JSON? { state.withLock { $0.end } }

    func next() async throws -> JSON? {
      while true {
        let (item, end): (JSON?, JSON?) = state.withLock { state in
          (state.items.isEmpty ? nil : state.items.removeFirst(), state.end)
        }
        if let item { return item }
        if let end { return try Self.finish(end) }
        let batch = try await call.invoke("stream.next", ["stream": handle])
        state.withLock { state in
          state.items = batch["items"]?.array ?? []
          state.end = batch["end"]
        }
      }
    }

    private static func finish(_ end: JSON) throws(PluginError) -> JSON? {
      guard let error = end["error"] else { return nil }
      throw PluginError(
        PluginError.Code(rawValue: Int32(clamping: error["code"]?.int ?? -11)),
        error["message"]?.text ?? "the stream ended with an error",
        detail: error["detail"]
      )
    }
  }

  /// Reads the items in order.
  public struct Iterator: AsyncIteratorProtocol {
    let source: Source

    /// Returns the next item, or `nil` at the end; throws the error with which the stream ended.
    public mutating func next() async throws -> JSON? { try await source.next() }
  }

  private let source: Source

  init(call: PluginCall, handle: JSON) { source = Source(call, handle) }

  /// What the stream ended with, once its last item was read.
  public var end: JSON? { source.end }

  /// Reads from where the last reader stopped.
  public func makeAsyncIterator() -> Iterator { Iterator(source: source) }
}
