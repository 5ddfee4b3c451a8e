import PerdureModel
import PerdureValue
import Synchronization

/// What a plugin takes from a stream in one step.
struct StreamBatch: Sendable {
  var items: [JSON]
  /// Present when nothing follows: what the stream ends with, or `{error}`.
  var end: JSON?
}

/// Something from which a plugin pulls items, for as long as its call lasts.
protocol PluginStream: Sendable {
  /// Whether the deadline of the call stands still while the plugin waits for items.
  var pauses: Bool { get }
  /// Waits for at least one item or the end, and takes as many items as fit.
  func next(maxItems: Int, maxBytes: Int) async -> StreamBatch
  /// Ends it and whatever fills it.
  func close()
}

/// The streams of one call, by their handles.
final class StreamTable: Sendable {
  private struct Entry {
    var stream: any PluginStream
    var isRead = false
  }

  private struct State {
    var entries: [String: Entry] = [:]
    var count = 0
    var isClosed = false
  }

  static let limit = 256

  private let state = Mutex(State())

  /// Keeps a stream and gives its handle; `nil` if there are too many or the call is over.
  func open(_ stream: any PluginStream) -> String? {
    state.withLock { state in
      guard !state.isClosed, state.entries.count < Self.limit else { return nil }
      state.count += 1
      let handle = "s\(state.count)"
      state.entries[handle] = Entry(stream: stream)
      return handle
    }
  }

  /// Takes a stream for one read.
  func begin(_ handle: String) throws(OperationProblem) -> any PluginStream {
    let result: Result<any PluginStream, OperationProblem> = state.withLock { state in
      guard let entry = state.entries[handle] else { return .failure(.unknownHandle(handle)) }
      guard !entry.isRead else {
        return .failure(
          OperationProblem(.busy, "another stream.next of it is running", reason: "limit")
        )
      }
      state.entries[handle]?.isRead = true
      return .success(entry.stream)
    }
    return try result.get()
  }

  /// Ends a read; a stream that has ended is forgotten.
  func end(_ handle: String, isLast: Bool) {
    state.withLock { state in
      if isLast {
        state.entries[handle] = nil
      } else {
        state.entries[handle]?.isRead = false
      }
    }
  }

  /// Closes one; an unknown handle is refused.
  func close(_ handle: String) throws(OperationProblem) {
    guard let entry = state.withLock({ $0.entries.removeValue(forKey: handle) }) else {
      throw .unknownHandle(handle)
    }
    entry.stream.close()
  }

  /// Closes all of them, because the call is over.
  func closeAll() {
    let entries = state.withLock { state in
      state.isClosed = true
      defer { state.entries = [:] }
      return state.entries.values.map(\.stream)
    }
    for stream in entries { stream.close() }
  }
}

extension OperationProblem {
  /// A handle that the call was not given, or not any more.
  static func unknownHandle(_ handle: String) -> OperationProblem {
    OperationProblem(
      .stale,
      "the handle \(handle) is none of this call",
      reason: "unknown_handle"
    )
  }
}

extension OperationSchema {
  private static let everywhere: CallClasses = [.tool, .task, .abort, .hook, .created, .section]

  static let streams: [OperationSchema] = [
    OperationSchema(
      name: "stream.next",
      classes: everywhere,
      members: [
        .needs("stream", .handle), .takes("maxItems", .integer(1...1_000)),
        .takes("maxBytes", .integer(1...1 << 20)),
      ],
      body: .later { run, input in
        guard let call = run.call else {
          throw OperationProblem.unknownHandle(input.text("stream"))
        }
        let handle = input.text("stream")
        let stream = try call.streams.begin(handle)
        if stream.pauses { call.pause() }
        defer { if stream.pauses { call.resume() } }
        let (items, bytes) = (input.integer("maxItems"), input.integer("maxBytes"))
        let take: @Sendable () async -> StreamBatch = {
          await stream.next(maxItems: Int(items ?? 1_000), maxBytes: Int(bytes ?? 1 << 20))
        }
        // The deadline of a tool is the engine's.
        let engine = stream.pauses ? call.operations : nil
        let batch = if let engine { await engine.standingStill(take) } else { await take() }
        call.streams.end(handle, isLast: batch.end != nil)
        var answer: JSONObject = ["items": .array(batch.items)]
        if let end = batch.end { answer["end"] = end }
        return .object(answer)
      }
    ),
    OperationSchema(
      name: "stream.close",
      classes: everywhere,
      members: [.needs("stream", .handle)],
      body: .now { (run, input) throws(OperationProblem) in
        guard let call = run.call else { throw .unknownHandle(input.text("stream")) }
        try call.streams.close(input.text("stream"))
        return .object([:])
      }
    ),
  ]
}
