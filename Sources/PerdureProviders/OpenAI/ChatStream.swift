import PerdureModel
import PerdureValue
import Synchronization

/// An answer that arrives over HTTP; read and decoded by the task that asks for events.
final class ChatStream: ModelStream {
  private let exchange: HTTPExchange
  private let watchdog: Watchdog
  private let key: APIKey
  private let clock: any HostClock
  private let reader: Mutex<ChatAnswerReader>

  init(
    _ exchange: HTTPExchange,
    tools: [JSONString],
    key: APIKey,
    clock: any HostClock,
    limits: ProviderLimits
  ) {
    self.exchange = exchange
    self.key = key
    self.clock = clock
    reader = Mutex(ChatAnswerReader(tools: tools))
    watchdog = Watchdog(clock: clock, limits: limits) { exchange.cancel() }
    watchdog.enter(.header)
  }

  deinit { cancel() }

  func next() async -> [ModelEvent] {
    if reader.withLock({ $0.isOver }) { return [] }
    watchdog.beginWait()
    defer { watchdog.endWait() }
    while true {
      let parts = await exchange.next()
      let (events, isOver, isHead) = reader.withLock { reader in
        let isHead = reader.head == nil
        let events = parts.isEmpty ? ended(&reader) : reader.take(parts, now: clock.now())
        return (events, reader.isOver, isHead && reader.head != nil)
      }
      if isOver {
        watchdog.stop()
        exchange.discardRest()
        return events.map(describing)
      }
      if isHead { watchdog.enter(.events) }
      if !events.isEmpty { return events }
    }
  }

  func cancel() {
    // A complete answer may still be on its way out of its connection, which is worth keeping.
    if reader.withLock({ $0.isOver }) { return }
    watchdog.stop()
    exchange.cancel()
  }

  /// The exchange gave nothing: it was cancelled, by the watchdog or by somebody else.
  private func ended(_ reader: inout ChatAnswerReader) -> [ModelEvent] {
    reader.stop(watchdog.failure ?? ProviderFailure(.stop, "the request was cancelled"))
  }

  private func describing(_ event: ModelEvent) -> ModelEvent {
    if case .failed(let failure) = event { return .failed(key.describing(failure)) }
    return event
  }
}

/// Turns the parts of an HTTP answer into events.
struct ChatAnswerReader {
  private enum Body {
    /// Nothing but white space so far.
    case unknown
    case events
    /// One JSON document: the server did not stream.
    case document
    case html
  }

  private static let errorLimit = 64 * 1024
  private static let documentLimit = 16 * 1024 * 1024

  private(set) var head: HTTPHead?
  private var body = Body.unknown
  private var collected: [UInt8] = []
  private var parser = ServerSentEventParser()
  private var decoder: ChatStreamDecoder

  init(tools: [JSONString]) { decoder = ChatStreamDecoder(tools: tools) }

  /// Whether the last event has been given out.
  var isOver: Bool { decoder.isOver }

  /// Returns the events that the parts mean.
  mutating func take(_ parts: [HTTPPart], now: Int64) -> [ModelEvent] {
    var events: [ModelEvent] = []
    for part in parts where !isOver {
      switch part {
      case .head(let head): self.head = head
      case .body(let bytes): events += take(bytes, now: now)
      case .end: events += end(now: now)
      case .failed(let failure): events += fail(failure, now: now)
      }
    }
    return events
  }

  /// Returns the last events of an answer that is not waited for any longer.
  mutating func stop(_ failure: ProviderFailure) -> [ModelEvent] {
    // Some servers forget to close a stream whose answer is complete.
    decoder.finishReason == nil ? decoder.fail(failure) : decoder.end()
  }

  private var isSuccess: Bool { head.map { (200..<300).contains($0.status) } ?? false }

  private mutating func take(_ bytes: [UInt8], now: Int64) -> [ModelEvent] {
    guard isSuccess else {
      collected.append(contentsOf: bytes.prefix(Self.errorLimit - collected.count))
      return collected.count < Self.errorLimit ? [] : end(now: now)
    }
    if case .unknown = body { recognise(bytes) }
    switch body {
    case .unknown: return []
    case .events: return takeEvents(bytes)
    case .html:
      return decoder.fail(
        ProviderFailure(
          .stop,
          "the server answered with an HTML page instead of a stream; check the base URL"
        )
      )
    case .document:
      collected.append(contentsOf: bytes)
      if collected.count <= Self.documentLimit { return [] }
      return decoder.fail(ProviderFailure(.stop, "the answer is larger than 16 MiB"))
    }
  }

  private mutating func recognise(_ bytes: [UInt8]) {
    let start = bytes.first { !($0 == 0x20 || (0x09...0x0D).contains($0)) }
    switch start {
    case nil: break
    case UInt8(ascii: "{"): body = .document
    case UInt8(ascii: "<"): body = .html
    default: body = .events
    }
  }

  private mutating func takeEvents(_ bytes: [UInt8]) -> [ModelEvent] {
    var events: [ModelEvent] = []
    do throws(ServerSentEventParser.TooLong) {
      for event in try parser.feed(bytes) { events += decoder.decode(event) }
    } catch {
      events += decoder.fail(ProviderFailure(.stop, "an event of the stream is too long"))
    }
    return events
  }

  private mutating func end(now: Int64) -> [ModelEvent] {
    guard let head else {
      return decoder.fail(ProviderFailure(.retry, "the server closed without an answer"))
    }
    guard isSuccess else { return decoder.fail(statusFailure(head, now: now)) }
    switch body {
    case .document: return decoder.end(cut: collected)
    case .events:
      let last = parser.finish()
      return decoder.end(cut: last.first?.data)
    case .unknown, .html:
      return decoder.fail(ProviderFailure(.retry, "the server sent an empty answer"))
    }
  }

  private mutating func fail(_ failure: HTTPFailure, now: Int64) -> [ModelEvent] {
    if let head, !isSuccess { return decoder.fail(statusFailure(head, now: now)) }
    if decoder.finishReason != nil { return decoder.end() }
    switch failure.kind {
    case .transient: return decoder.fail(ProviderFailure(.retry, failure.message))
    case .broken:
      return decoder.fail(ProviderFailure(.retry, "the stream ended early (\(failure.message))"))
    case .permanent: return decoder.fail(ProviderFailure(.stop, failure.message))
    }
  }

  private func statusFailure(_ head: HTTPHead, now: Int64) -> ProviderFailure {
    if (300..<400).contains(head.status) {
      let target = head["location"].map { " to \($0)" } ?? ""
      return ProviderFailure(
        .stop,
        "HTTP \(head.status): the server redirects\(target); name that address instead"
      )
    }
    return ErrorAnswer(
      status: head.status,
      body: collected,
      now: now,
      field: { head[$0] }
    ).failure
  }
}
