import PerdureModel
import PerdureValue
import Synchronization

/// The output of a tool inside a wrap, on its way to the wrap.
///
/// A tool that puts out faster than the wrap takes it loses its oldest text, and the wrap is told how
/// much that was.
final class Capture: PluginStream {
  private struct State {
    var frames: [(json: JSON, text: String?, size: Int)] = []
    var size = 0
    var lost: SkippedOutput?
    var undecoded: [UInt8] = []
    var end: JSON?
    var reader: CheckedContinuation<Void, Never>?
    var retained = ""
    var retainedIsCut = false
    var isClosed = false
  }

  static let itemLimit = 1_000
  static let byteLimit = 1 << 20

  private let limits: OutputLimits
  private let atClose: @Sendable () -> Void
  private let state = Mutex(State())
  let pauses = true

  init(_ limits: OutputLimits, atClose: @escaping @Sendable () -> Void) {
    self.limits = limits
    self.atClose = atClose
  }

  // MARK: From the tool

  /// Takes a frame.
  func add(_ frame: JSONObject) {
    change { state in
      Self.decode(&state, limits, whole: true)
      Self.append(frame, &state, limits)
    }
  }

  /// Takes bytes, which are decoded across chunks.
  func add(bytes: [UInt8]) {
    change { state in
      state.undecoded += bytes
      Self.decode(&state, limits, whole: false)
    }
  }

  /// Takes what was left out before the next chunk.
  func skip(_ skipped: SkippedOutput?) {
    guard let skipped else { return }
    add([
      "skipped": [
        "bytes": .int(Int64(skipped.bytes)), "newlines": .int(Int64(skipped.newlines)),
        "endsWithNewline": .bool(skipped.endsWithNewline),
      ]
    ])
  }

  /// Takes the end: a result, or `{error}`.
  func finish(_ end: JSON) {
    change { state in
      Self.decode(&state, limits, whole: true)
      state.end = end
    }
  }

  /// The text that was put out, within the tool's limits.
  var text: String { state.withLock { $0.retained } }
  var isTruncated: Bool { state.withLock { $0.retainedIsCut } }

  private func change(_ body: (inout State) -> Void) {
    let reader = state.withLock { state in
      if state.isClosed { return nil as CheckedContinuation<Void, Never>? }
      body(&state)
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
  }

  /// Makes text of the bytes, but for the beginning of a character at their end.
  private static func decode(_ state: inout State, _ limits: OutputLimits, whole: Bool) {
    var count = state.undecoded.count
    if !whole { count -= unfinished(state.undecoded) }
    guard count > 0 else { return }
    let text = String(decoding: state.undecoded.prefix(count), as: UTF8.self)
    state.undecoded.removeFirst(count)
    append(["text": .string(text)], &state, limits)
  }

  private static func unfinished(_ bytes: [UInt8]) -> Int {
    for (index, byte) in bytes.reversed().prefix(4).enumerated() {
      if byte & 0xC0 == 0x80 { continue }
      let length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1
      return length > index + 1 ? index + 1 : 0
    }
    return 0
  }

  private static func append(_ frame: JSONObject, _ state: inout State, _ limits: OutputLimits) {
    if let text = frame["text"]?.text {
      retain(text, &state, limits)
      // Adjacent chunks are joined, so that many small ones take no more than their bytes.
      if let last = state.frames.last, let before = last.text, last.size < byteLimit / 16 {
        state.frames.removeLast()
        state.size -= last.size
        push(before + text, &state)
      } else {
        push(text, &state)
      }
    } else {
      let json = JSON.object(frame)
      let size = json.encoded.count
      state.frames.append((json, nil, size))
      state.size += size
    }
    while state.frames.count > itemLimit || state.size > byteLimit, drop(&state) {}
  }

  private static func push(_ text: String, _ state: inout State) {
    let size = text.utf8.count + 16
    state.frames.append((["text": .string(text)], text, size))
    state.size += size
  }

  private static func retain(_ text: String, _ state: inout State, _ limits: OutputLimits) {
    let whole = state.retained + text
    guard whole.utf8.count > limits.maxBytes else {
      state.retained = whole
      return
    }
    state.retainedIsCut = true
    state.retained =
      limits.retain == .tail
      ? String(decoding: whole.utf8.suffix(limits.maxBytes), as: UTF8.self)
      : String(decoding: whole.utf8.prefix(limits.maxBytes), as: UTF8.self)
  }

  /// Forgets the oldest text; `false` if there is none.
  private static func drop(_ state: inout State) -> Bool {
    guard let place = state.frames.firstIndex(where: { $0.text != nil }) else { return false }
    let frame = state.frames.remove(at: place)
    state.size -= frame.size
    let text = frame.text ?? ""
    let before = state.lost ?? SkippedOutput(bytes: 0, newlines: 0, endsWithNewline: false)
    state.lost = SkippedOutput(
      bytes: before.bytes + text.utf8.count,
      newlines: before.newlines + text.utf8.count { $0 == UInt8(ascii: "\n") },
      endsWithNewline: text.utf8.last == UInt8(ascii: "\n")
    )
    return true
  }

  // MARK: To the wrap

  /// Waits for at least one frame or the end, and takes as many as fit.
  func next(maxItems: Int, maxBytes: Int) async -> StreamBatch {
    while true {
      if let batch = take(maxItems, maxBytes) { return batch }
      await withCheckedContinuation { continuation in
        let isReady = state.withLock { state in
          if state.frames.isEmpty, state.end == nil, !state.isClosed {
            state.reader = continuation
            return false
          }
          return true
        }
        if isReady { continuation.resume() }
      }
    }
  }

  private func take(_ maxItems: Int, _ maxBytes: Int) -> StreamBatch? {
    state.withLock { state in
      if state.isClosed {
        return StreamBatch(
          items: [],
          end: ["error": ["code": -1, "message": "the stream was closed"]]
        )
      }
      var items: [JSON] = []
      if let lost = state.lost {
        items.append([
          "skipped": [
            "bytes": .int(Int64(lost.bytes)), "newlines": .int(Int64(lost.newlines)),
            "endsWithNewline": .bool(lost.endsWithNewline),
          ]
        ])
        state.lost = nil
      }
      var bytes = 0
      while let frame = state.frames.first, items.count < max(1, maxItems),
        items.isEmpty || bytes + frame.size <= maxBytes
      {
        state.frames.removeFirst()
        state.size -= frame.size
        bytes += frame.size
        items.append(frame.json)
      }
      let end = state.frames.isEmpty ? state.end : nil
      return items.isEmpty && end == nil ? nil : StreamBatch(items: items, end: end)
    }
  }

  /// Ends it; what is still put out is dropped.
  func close() {
    let reader = state.withLock { state in
      state.isClosed = true
      state.frames = []
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
    atClose()
  }
}
