import PerdureModel
import PerdureValue

/// The newest output of a session, with exact counts of what came before.
struct SessionLog {
  private struct Segment {
    var stream: OutputChunk.Stream
    var bytes: [UInt8]
  }

  private let room: Int
  private var output = UTF8Stream()
  private var errors = UTF8Stream()
  private var segments: [Segment] = []
  /// Where what is kept begins.
  private var start = SessionPosition.start
  /// Whether the text before it ends a line.
  private var startsLine = false
  /// Behind all.
  private(set) var position = SessionPosition.start

  /// Larger ones are begun anew, so that dropping costs little.
  private static let segmentSize = 1 << 14

  /// Makes one that keeps at most this many bytes, and no fewer than one reading brings.
  init(room: Int) { self.room = min(max(room, 1 << 16), 1 << 26) }

  mutating func add(_ bytes: ArraySlice<UInt8>, _ stream: OutputChunk.Stream) {
    let data = Array(bytes)
    append(stream == .stdout ? output.decode(data) : errors.decode(data), stream)
  }

  /// Ends both streams: a character that is still incomplete becomes U+FFFD.
  mutating func end() {
    append(output.flush(), .stdout)
    append(errors.flush(), .stderr)
  }

  private mutating func append(_ text: [UInt8], _ stream: OutputChunk.Stream) {
    guard !text.isEmpty else { return }
    position.bytes += Int64(text.count)
    position.newlines += Int64(newlines(in: text))
    if let last = segments.indices.last, segments[last].stream == stream,
      segments[last].bytes.count < Self.segmentSize
    {
      segments[last].bytes += text
    } else {
      segments.append(Segment(stream: stream, bytes: text))
    }
    drop()
  }

  private mutating func drop() {
    var dropped = 0
    for segment in segments where position.bytes - start.bytes > Int64(room) {
      start.bytes += Int64(segment.bytes.count)
      start.newlines += Int64(newlines(in: segment.bytes))
      startsLine = segment.bytes.last == 0x0A
      dropped += 1
    }
    segments.removeFirst(dropped)
  }

  /// What is kept behind a position; one that is none is taken as the nearest that is.
  func chunks(after asked: SessionPosition) -> [OutputChunk] {
    var chunks: [OutputChunk] = []
    var place = start.bytes
    for segment in segments {
      defer { place += Int64(segment.bytes.count) }
      var first = Int(clamping: max(0, asked.bytes - place))
      guard first < segment.bytes.count else { continue }
      while first > 0, segment.bytes[first] & 0xC0 == 0x80 { first -= 1 }
      let text = String(decoding: segment.bytes[first...], as: UTF8.self)
      if let last = chunks.indices.last, chunks[last].stream == segment.stream {
        chunks[last].text += text
      } else {
        chunks.append(OutputChunk(segment.stream, text))
      }
    }
    guard asked.bytes < start.bytes else { return chunks }
    let skipped = SkippedOutput(
      bytes: Int(clamping: start.bytes - max(0, asked.bytes)),
      newlines: Int(clamping: max(0, start.newlines - max(0, asked.newlines))),
      endsWithNewline: startsLine
    )
    if chunks.isEmpty { chunks.append(OutputChunk(.stdout, "")) }
    chunks[0].skipped = skipped
    return chunks
  }
}
