import PerdureModel
import PerdureValue
import Synchronization

/// Makes the calls of one hook, section or wrap, or of the plugin itself: in time, and only so many
/// at once.
struct ContributionCaller: Sendable {
  let core: PluginCore
  let code: PluginCode
  let kind: PluginCall.Kind
  let target: ImmortalName
  /// Such as "hook beforeTool", for sentences.
  let label: String
  let times: CallTimes
  /// How many calls of this one contribution run at once, if that is limited.
  var own: CallSlots?
  /// Present if the plugin promises to answer at once, on the thread of whoever calls.
  var inline: InlineWatch?

  private static let busyPause: Int64 = 5_000_000
  private static let longestPause: Int64 = 200_000_000
  private static let inputLimit = 16 << 20

  /// Makes one call and returns what `decode` makes of its completion.
  ///
  /// Throws what the plugin failed with; `plugin_down` if the plugin takes no calls any more.
  func call<Value: Sendable>(
    _ input: [UInt8],
    _ place: CallPlace,
    decode: @escaping @Sendable (JSONObject) throws(BorderProblem) -> Value
  ) async throws -> Value {
    let answer = Decoded<Value>()
    var place = place
    place.check = { (object: JSONObject) throws(BorderProblem) in
      answer.value = try decode(object)
    }
    _ = try await outcome(input, place)
    guard let value = answer.value else { throw failure("gave no answer") }
    return value
  }

  /// Makes one call and returns how it ended.
  func outcome(_ input: [UInt8], _ place: CallPlace) async throws -> CallOutcome {
    guard !core.isDown else { throw down }
    guard input.count <= Self.inputLimit else { throw failure("would be given more than 16 MiB") }
    if let inline, inline.isOn, let end = try await here(input, place, inline) { return end }
    let ongoing = OngoingCall(core, core.environment.clock, times)
    ongoing.timer.start()
    defer { ongoing.timer.stop() }
    return try await withTaskCancellationHandler {
      try await wait(input, place, ongoing)
    } onCancel: {
      ongoing.cancel(place.port?.cancelReason ?? .abort)
      ongoing.timer.cancelled()
    }
  }

  private var use: CallSlots.Use {
    switch kind {
    case .wrap, .taskPhase, .abort: .work
    default: .quick
    }
  }

  private func wait(
    _ input: [UInt8],
    _ place: CallPlace,
    _ ongoing: OngoingCall
  ) async throws -> CallOutcome {
    let held = try await slots(place, ongoing)
    defer { held.finish() }
    var place = place
    place.timer = ongoing.timer
    var pause = Self.busyPause
    while true {
      let news = try await once(input, place, ongoing, held)
      if let outcome = news.outcome { return try Self.result(outcome) }
      guard news.refusal == BorderCode.busy.rawValue else { throw refusal(news.refusal ?? 0) }
      await ongoing.sleep(nanoseconds: pause)
      if let reason = ongoing.reason { throw cancelled(reason) }
      pause = min(pause * 2, Self.longestPause)
    }
  }

  private static func result(_ outcome: CallOutcome) throws -> CallOutcome {
    if case .failed(let error) = outcome { throw error }
    return outcome
  }

  // MARK: Slots

  private func slots(_ place: CallPlace, _ ongoing: OngoingCall) async throws -> HeldPermits {
    let held = await core.hold(own, use, at: place.task, { place.port }) {
      ongoing.waits(for: $0)
    }
    guard let held else { throw cancelled(ongoing.reason ?? .deadline) }
    if let reason = ongoing.reason {
      held.finish()
      throw cancelled(reason)
    }
    return held
  }

  // MARK: One attempt

  private func make(_ place: CallPlace) -> PluginCall {
    PluginCall(
      kind: kind,
      label: label,
      plugin: core.id,
      host: place.tool?.host,
      operations: place.operations,
      place: place
    )
  }

  private func once(
    _ input: [UInt8],
    _ place: CallPlace,
    _ ongoing: OngoingCall,
    _ held: HeldPermits
  ) async throws -> PluginCall.News {
    let running = make(place)
    if let reason = ongoing.begin(running) { throw cancelled(reason) }
    held.enter()
    core.start(
      running,
      code,
      target: target,
      input: input,
      deadline: deadline,
      left: { _ in held.leave() }
    )
    return await Self.end(of: running, place.tool?.host, core)
  }

  private var deadline: UInt64 {
    let (sum, overflow) = core.environment.clock.monotonic()
      .addingReportingOverflow(times.deadline)
    return overflow ? UInt64(Int64.max) : UInt64(max(0, sum))
  }

  /// Takes what a call sends until it ends.
  private static func end(
    of call: PluginCall,
    _ host: (any ToolCallHost)?,
    _ core: PluginCore
  ) async -> PluginCall.News {
    var fold = host.map { OutputFold(host: $0, core: core) }
    while true {
      let news = await call.next()
      fold?.take(news.frames)
      call.returnCredit(news.credit)
      if news.outcome != nil || news.refusal != nil {
        fold?.end()
        return news
      }
    }
  }

  /// Makes the call on this thread; `nil` if there is no slot or the plugin is busy.
  private func here(
    _ input: [UInt8],
    _ place: CallPlace,
    _ inline: InlineWatch
  ) async throws -> CallOutcome? {
    guard core.slots.take(use) else { return nil }
    defer { core.slots.give(use) }
    var place = place
    place.isInline = true
    let running = make(place)
    let nanoseconds = core.startHere(
      running,
      code,
      target: target,
      input: input,
      deadline: deadline
    )
    let isAnswered = running.hasEnded
    inline.note(nanoseconds, answered: isAnswered || place.inner != nil, label, core)
    if isAnswered {
      let news = await running.next()
      if news.refusal == BorderCode.busy.rawValue { return nil }
      if let code = news.refusal { throw refusal(code) }
      if let outcome = news.outcome { return try Self.result(outcome) }
    }
    return try await late(running, place)
  }

  /// Waits for a call that did not end at once although it should have.
  private func late(_ running: PluginCall, _ place: CallPlace) async throws -> CallOutcome {
    let ongoing = OngoingCall(core, core.environment.clock, times)
    ongoing.timer.start()
    defer { ongoing.timer.stop() }
    running.adopt(ongoing.timer)
    _ = ongoing.begin(running)
    return try await withTaskCancellationHandler {
      let news = await Self.end(of: running, place.tool?.host, core)
      guard let outcome = news.outcome else { throw refusal(news.refusal ?? 0) }
      return try Self.result(outcome)
    } onCancel: {
      ongoing.cancel(place.port?.cancelReason ?? .abort)
      ongoing.timer.cancelled()
    }
  }

  // MARK: Sentences

  private var down: PerdureError {
    PerdureError("plugin_down", "plugin \(core.id) is not running")
  }

  private func refusal(_ status: Int32) -> PerdureError {
    var error = failure(
      "refused to begin (\(BorderCode(rawValue: status)?.word ?? "\(status)"))"
    )
    if status == BorderCode.unsupported.rawValue { error.code = .unsupportedFeature }
    return error
  }

  private func failure(_ what: String) -> PerdureError {
    PerdureError("tool_error", "\(label) of plugin \(core.id) \(what)")
  }

  private func cancelled(_ reason: CancelReason) -> PerdureError {
    reason == .deadline
      ? failure("could not begin before its deadline")
      : PerdureError(.cancelled, "\(label) of plugin \(core.id) was cancelled before it began")
  }
}

/// A place for what a completion came to, written before the call ends and read after.
private final class Decoded<Value: Sendable>: Sendable {
  private let state = Mutex<Value?>(nil)

  var value: Value? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}

/// One call on its way through waits and attempts, so that it can be cancelled wherever it is.
final class OngoingCall: Sendable {
  private struct State {
    var call: PluginCall?
    var ticket: SlotTicket?
    var reason: CancelReason?
    var sleeper: Task<Void, Never>?
  }

  private let core: PluginCore
  private let state = Mutex(State())
  let timer: CallTimer

  init(_ core: PluginCore, _ clock: any HostClock, _ times: CallTimes) {
    self.core = core
    let link = Link()
    timer = CallTimer(
      clock,
      times,
      atDeadline: { link.call?.cancel(.deadline) },
      atGrace: { link.call?.abandon() }
    )
    link.call = self
  }

  /// Leads from the timer to the call that owns it.
  private final class Link: Sendable {
    private struct State {
      weak var call: OngoingCall?
    }

    private let state = Mutex(State())

    var call: OngoingCall? {
      get { state.withLock { $0.call } }
      set { state.withLock { $0.call = newValue } }
    }
  }

  /// Why it is cancelled, or `nil`.
  var reason: CancelReason? { state.withLock { $0.reason } }

  /// Notes what it waits for.
  func waits(for ticket: SlotTicket) {
    let isCancelled = state.withLock { state in
      state.ticket = ticket
      return state.reason != nil
    }
    if isCancelled { ticket.cancel() }
  }

  /// Notes an attempt; returns why it must not be made.
  func begin(_ call: PluginCall) -> CancelReason? {
    state.withLock { state in
      if state.reason == nil { state.call = call }
      return state.reason
    }
  }

  /// Cancels whatever it is doing; the first reason counts.
  func cancel(_ reason: CancelReason) {
    let (call, ticket, sleeper) = state.withLock { state in
      if state.reason == nil { state.reason = reason }
      return (state.call, state.ticket, state.sleeper)
    }
    ticket?.cancel()
    sleeper?.cancel()
    if let call { core.cancel(call, reason) }
  }

  /// Stops waiting for the plugin.
  func abandon() {
    if let call = state.withLock({ $0.call }) { core.abandon(call) }
  }

  /// Waits before the next attempt, no longer than until it is cancelled.
  func sleep(nanoseconds: Int64) async {
    let clock = core.environment.clock
    // Ends with this function.
    let sleeper = Task { await clock.sleep(nanoseconds: nanoseconds) }
    let isCancelled = state.withLock { state in
      state.sleeper = sleeper
      return state.reason != nil
    }
    if isCancelled { sleeper.cancel() }
    await sleeper.value
  }
}

/// Watches a contribution that promises to answer within 50 microseconds on the caller's thread.
final class InlineWatch: Sendable {
  static let limit: Int64 = 50_000
  static let allowance = 20

  private let overruns = Atomic(0)

  /// Whether the promise is still believed.
  var isOn: Bool { overruns.load(ordering: .relaxed) < Self.allowance }

  /// Takes what one call took; each that broke the promise is a strike.
  func note(_ nanoseconds: Int64, answered: Bool, _ label: String, _ core: PluginCore) {
    if answered, nanoseconds <= Self.limit { return }
    let count = overruns.wrappingAdd(1, ordering: .relaxed).newValue
    core.strike(
      answered
        ? "took \(nanoseconds / 1_000) microseconds for the inline \(label), and 50 are allowed"
        : "did not answer the inline \(label) inside start"
    )
    guard count == Self.allowance else { return }
    core.environment.report(
      Report(
        type: "plugin_inline_dropped",
        message: "the \(label) of plugin \(core.id) is not run inline any more, because it was late"
          + " \(Self.allowance) times",
        extensionName: core.id
      )
    )
  }
}
