import PerdureModel
import PerdureValue
import Synchronization

/// Makes the calls of one hook, section or wrap, or of the plugin itself: in time, and only so many
/// at once.
///
/// One object for all of them: closures that keep a structure copy it whole for each call.
final class ContributionCaller: Sendable {
  let core: PluginCore
  let code: PluginCode
  let kind: PluginCall.Kind
  let target: ImmortalName
  /// Such as "hook beforeTool", for sentences.
  let label: String
  let times: CallTimes
  /// How many calls of this one contribution run at once, if that is limited.
  let own: CallSlots?
  /// Present if the plugin promises to answer at once, on the thread of whoever calls.
  let inline: InlineWatch?

  init(
    core: PluginCore,
    code: PluginCode,
    kind: PluginCall.Kind,
    target: ImmortalName,
    label: String,
    times: CallTimes,
    own: CallSlots? = nil,
    inline: InlineWatch? = nil
  ) {
    self.core = core
    self.code = code
    self.kind = kind
    self.target = target
    self.label = label
    self.times = times
    self.own = own
    self.inline = inline
  }

  private static let busyPause: Int64 = 5_000_000
  private static let longestPause: Int64 = 200_000_000
  private static let inputLimit = 16 << 20

  /// Makes one call and returns what `decode` makes of its completion.
  ///
  /// Throws what the plugin failed with; `pluginDown` if the plugin takes no calls any more.
  func call<Value: Sendable>(
    _ input: [UInt8],
    _ place: CallPlace,
    decode: @escaping @Sendable (JSONObject) throws(BorderProblem) -> Value
  ) async throws -> Value {
    let answer = Decoded<Value>()
    let check: PluginCall.Check = { (object) throws(BorderProblem) in
      answer.value = try decode(object)
    }
    do {
      _ = try await outcome(input, place, check)
    } catch let error as PerdureError where kind == .pure && error.code == .pluginFault {
      // Something else took the process along; what only computes can be asked once more.
      _ = try await outcome(input, place, check)
    }
    guard let value = answer.value else { throw failure("gave no answer") }
    return value
  }

  /// Makes one call and returns how it ended.
  func outcome(
    _ input: [UInt8],
    _ place: CallPlace,
    _ check: PluginCall.Check? = nil
  ) async throws -> CallOutcome {
    guard !core.isDown else { throw core.downError }
    guard input.count <= Self.inputLimit else { throw failure("would be given more than 16 MiB") }
    if let inline, inline.isOn, case .mapped(let code) = code, core.slots.take(use) {
      defer { core.slots.give(use) }
      let running = make(place, nil, check)
      // If it is busy, a thread of the plugin asks again.
      if let end = try await here(input, running, code, inline) { return end }
    }
    return try await elsewhere(input, place, check)
  }

  /// Makes the call on a thread of the plugin.
  private func elsewhere(
    _ input: [UInt8],
    _ place: CallPlace,
    _ check: PluginCall.Check?
  ) async throws -> CallOutcome {
    let ongoing = OngoingCall(core, core.environment.clock, times)
    ongoing.timer.start()
    defer { ongoing.timer.stop() }
    return try await withTaskCancellationHandler {
      try await wait(input, place, ongoing, check)
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
    _ ongoing: OngoingCall,
    _ check: PluginCall.Check?
  ) async throws -> CallOutcome {
    let held = try await slots(place, ongoing)
    defer { held.finish() }
    var pause = Self.busyPause
    while true {
      let news = try await once(input, make(place, ongoing.timer, check), ongoing, held)
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
    let held = await core.hold(
      own,
      use,
      at: place.task,
      port: { place.port },
      waits: { ongoing.waits(for: $0) }
    )
    guard let held else { throw cancelled(ongoing.reason ?? .deadline) }
    if let reason = ongoing.reason {
      held.finish()
      throw cancelled(reason)
    }
    return held
  }

  // MARK: One attempt

  /// A call on a thread of the plugin, or on that of the caller if it has no timer.
  private func make(
    _ place: CallPlace,
    _ timer: CallTimer?,
    _ check: PluginCall.Check?
  ) -> PluginCall {
    PluginCall(
      kind: kind,
      label: label,
      plugin: core.id,
      host: place.tool?.host,
      operations: timer == nil ? nil : place.operations,
      place: place,
      isInline: timer == nil,
      timer: timer,
      check: check
    )
  }

  private func once(
    _ input: [UInt8],
    _ running: PluginCall,
    _ ongoing: OngoingCall,
    _ held: HeldPermits
  ) async throws -> PluginCall.News {
    // It may have been closed while the call waited for a slot.
    guard !core.isDown else { throw core.downError }
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
    return await Self.end(of: running, running.host, core)
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

  /// Makes the call on this thread; `nil` if the plugin is busy.
  private func here(
    _ input: [UInt8],
    _ running: PluginCall,
    _ code: MappedCode,
    _ inline: InlineWatch
  ) async throws -> CallOutcome? {
    let nanoseconds = core.startHere(
      running,
      code,
      target: target,
      input: input,
      within: times.deadline
    )
    let news = running.takeEnd()
    let isAnswered = news != nil || running.place.inner != nil
    inline.note(nanoseconds, answered: isAnswered, label, core)
    guard let news else { return try await late(running, running.place) }
    if news.refusal == BorderCode.busy.rawValue { return nil }
    if let code = news.refusal { throw refusal(code) }
    guard let outcome = news.outcome else { return nil }
    return try Self.result(outcome)
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
