import PerdureModel
import PerdureValue

/// The output of a command that nobody has taken yet, within bounds.
///
/// With a window the older part may be left out, as long as what follows it in the same chunk fills
/// more than the window.
struct OutputQueue {
  private struct Segment {
    var stream: OutputChunk.Stream
    var bytes: [UInt8]
    var skipped: SkippedOutput?
  }

  private let window: OutputWindowHint?
  private var output = UTF8Stream()
  private var errors = UTF8Stream()
  private var segments: [Segment] = []
  private var count = 0
  private var nextDelivery: Int64 = 0

  private static let room = 1 << 16

  /// Makes a queue; numbers of the hint that nobody can mean are taken as the next ones that can be.
  init(window: OutputWindowHint?) {
    self.window = window.map { hint in
      func bounded(_ number: Int) -> Int { min(max(number, 0), Int(Int32.max)) }
      return OutputWindowHint(
        maxBytes: bounded(hint.maxBytes),
        maxLines: bounded(hint.maxLines),
        minIntervalMs: bounded(hint.minIntervalMs),
        bytesPerSecond: bounded(hint.bytesPerSecond)
      )
    }
  }

  var isEmpty: Bool { segments.isEmpty }

  /// Whether no more should be read before something is taken.
  var isFull: Bool { count >= limit }

  private var limit: Int { Self.room + 4 * min(max(window?.maxBytes ?? 0, 0), 1 << 24) }

  /// When the next chunk may be taken, for one who keeps the pace.
  var due: Int64? {
    guard !segments.isEmpty else { return nil }
    return window == nil || isFull ? 0 : nextDelivery
  }

  mutating func add(_ bytes: ArraySlice<UInt8>, _ stream: OutputChunk.Stream) {
    let data = Array(bytes)
    append(stream == .stdout ? output.decode(data) : errors.decode(data), stream)
  }

  /// Ends a stream: a character that is still incomplete becomes U+FFFD.
  mutating func end(_ stream: OutputChunk.Stream) {
    append(stream == .stdout ? output.flush() : errors.flush(), stream)
  }

  private mutating func append(_ text: [UInt8], _ stream: OutputChunk.Stream) {
    guard !text.isEmpty else { return }
    count += text.count
    if let last = segments.indices.last, segments[last].stream == stream {
      segments[last].bytes += text
    } else {
      segments.append(Segment(stream: stream, bytes: text))
    }
    if isFull { skip() }
  }

  /// Leaves out all but the end of the last segment, if that alone fills more than the window.
  private mutating func skip() {
    guard let window, var last = segments.last, last.bytes.count > window.maxBytes + 1 else {
      return
    }
    var start = last.bytes.count - window.maxBytes - 1
    while start > 0, last.bytes[start] & 0xC0 == 0x80 { start -= 1 }
    guard start > 0 else { return }
    var skipped = SkippedOutput(bytes: 0, newlines: 0, endsWithNewline: false)
    for segment in segments.dropLast() {
      skipped.add(segment.skipped)
      skipped.add(segment.bytes)
    }
    skipped.add(last.skipped)
    skipped.add(Array(last.bytes[..<start]))
    last.bytes.removeFirst(start)
    last.skipped = skipped
    segments = [last]
    count = last.bytes.count
  }

  /// Takes the oldest chunk.
  mutating func take(now: Int64) -> OutputChunk? {
    guard !segments.isEmpty else { return nil }
    let segment = segments.removeFirst()
    count -= segment.bytes.count
    if let window {
      let pace = max(1, Int64(window.bytesPerSecond))
      let transfer = Int64(segment.bytes.count) * 1_000_000_000 / pace
      nextDelivery = now + max(Int64(window.minIntervalMs) * 1_000_000, transfer)
    }
    return OutputChunk(
      segment.stream,
      String(decoding: segment.bytes, as: UTF8.self),
      skipped: segment.skipped
    )
  }

  mutating func discard() {
    segments = []
    count = 0
  }
}

extension SkippedOutput {
  fileprivate mutating func add(_ text: [UInt8]) {
    guard let last = text.last else { return }
    bytes += text.count
    newlines += PerdureSandbox.newlines(in: text)
    endsWithNewline = last == 0x0A
  }

  fileprivate mutating func add(_ other: SkippedOutput?) {
    guard let other, other.bytes > 0 else { return }
    bytes += other.bytes
    newlines += other.newlines
    endsWithNewline = other.endsWithNewline
  }
}
