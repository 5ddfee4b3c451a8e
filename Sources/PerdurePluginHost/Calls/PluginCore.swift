internal import PerdureModel
import PerdureValue
import Synchronization

/// What a loaded plugin's calls, requests and callbacks have in common.
final class PluginCore: Sendable {
  static let openCalls: UInt32 = 1_024
  static let openRequests: UInt32 = 1_024

  let id: String
  let version: String
  let generation: Int
  let environment: PluginEnvironment
  /// What the plugin was told last.
  let settingsState: Mutex<(members: JSONObject, revision: Int)>
  /// How many of its calls run at once.
  let slots: CallSlots
  let closing = ClosingFlag()
  /// Whether the operator wants nothing to go on without it.
  let isRequired: Bool
  let permissions: JSONObject
  let grants: Grants
  let manifest: Manifest
  /// What it registered while it runs.
  let registrations = Mutex(Registrations())
  /// How that becomes a contribution; the plugin owns it, because it refers to this.
  let publishing = Mutex(Publishing.Link())
  /// Whether there is somebody to run its code.
  private let availability = Mutex(Availability.up)
  /// The kinds of documents that it keeps, as the engine takes them.
  let declarations = Mutex<[String: DocumentDeclaration]>([:])
  /// What it was given and must not stand in logs.
  let secrets = SecretTexts()
  private let transactions = Mutex<[ObjectIdentifier: CallSlots]>([:])
  let calls = IdTable(capacity: openCalls, kind: 0)
  let requests = IdTable(capacity: openRequests, kind: 1)
  let threads: PluginThreads
  /// Where answers and requests of the plugin go, if this is the runner of a host.
  let relay: (any PluginRelay)?
  /// Whether the plugin's code runs in a process of its own.
  let isIsolated: Bool
  let name: ImmortalName
  let strikes = Mutex(StrikeCount())
  let logBudget = Mutex(LogBudget())
  let metricBudget = Mutex(LogBudget())
  let stop = Mutex<(ticket: UInt64, stopped: OneShot<Bool>)?>(nil)
  private let live = Mutex(LiveCalls())
  /// Calls that nobody waits for and whose completion has not come, by the ids that they had.
  private let givenUp = Mutex<[UInt64: PluginCall]>([:])
  /// Requests that were made outside calls.
  let looseRequests = Mutex<Set<UInt64>>([])

  init(
    manifest: Manifest,
    generation: Int,
    environment: PluginEnvironment,
    settings: JSONObject,
    isIsolated: Bool = false,
    relay: (any PluginRelay)? = nil
  ) {
    self.relay = relay
    self.isIsolated = isIsolated
    id = manifest.id
    version = manifest.version
    self.generation = generation
    self.environment = environment
    settingsState = Mutex((settings, 1))
    slots = CallSlots(manifest.execution.maxConcurrency)
    isRequired = environment.isRequired
    permissions = manifest.permissions.json
    grants = Grants(manifest)
    self.manifest = manifest
    // Every call may sit in the plugin's code, and within each of these others that hold no slot,
    // beside one control call and the callbacks.
    threads = PluginThreads(limit: manifest.execution.maxConcurrency + 24)
    name = Immortals.name(manifest.id)
  }

  deinit {
    // Code that is mapped is let in no more, and what is in a process of its own is gone.
    calls.free()
    requests.free()
  }

  /// The settings that count.
  var settings: JSONObject { settingsState.withLock { $0.members } }
  /// Counts their changes.
  var settingsRevision: Int { settingsState.withLock { $0.revision } }

  // MARK: Availability

  /// Whether it takes no calls, now or ever.
  var isDown: Bool { closing.isSet || quarantine != nil }
  /// Whether nobody runs its code at this moment; it may be about to come back.
  var isAway: Bool { closing.isSet || availability.withLock { $0 != .up } }
  /// Why it takes no calls until somebody says so, or `nil`.
  var quarantine: String? {
    availability.withLock { if case .quarantined(let reason) = $0 { reason } else { nil } }
  }

  /// Notes whether there is somebody to run its code; what waited for that goes on.
  func become(_ next: Availability) {
    let before = availability.withLock { availability in
      defer { availability = next }
      return availability
    }
    if case .quarantined(let reason) = next, before != next { environment.quarantined(reason) }
    if case .quarantined = before, before != next { republish() }
  }

  /// What is wrong with asking for something while `isDown`.
  var downError: PerdureError {
    PerdureError(
      .pluginDown,
      "plugin \(id) \(quarantine.map { "is quarantined: \($0)" } ?? "is not running")",
      hint: quarantine == nil ? nil : "look at what it logged, then enable it again"
    )
  }

  /// The turns of the plugin's transactions in one store: one at a time.
  func transactionSlots(of store: ObjectIdentifier) -> CallSlots {
    transactions.withLock { transactions in
      if let slots = transactions[store] { return slots }
      let slots = CallSlots(1)
      transactions[store] = slots
      return slots
    }
  }

  // MARK: Calls

  /// Starts a call on a thread of the plugin; `left` runs when the plugin's code has returned, and is
  /// told how long that took.
  func start(
    _ call: PluginCall,
    _ plugin: PluginCode,
    target: ImmortalName,
    input: [UInt8],
    deadline: UInt64,
    left: @escaping @Sendable (_ nanoseconds: Int64) -> Void
  ) {
    let code: MappedCode
    switch plugin {
    case .mapped(let mapped): code = mapped
    case .runner(let body):
      return body.start(call, target: target, input: input, deadline: deadline, left: left)
    }
    guard let id = calls.open(call) else {
      call.refused(BorderCode.busy.rawValue)
      return left(0)
    }
    if let reason = call.bind(id) { calls.cancel(id, reason: reason.rawValue) }
    note(call)
    let accepted = threads.run { [self] in
      // Abandoned while it waited for a thread.
      guard calls.reason(id) != nil else {
        releaseGivenUp(id)
        return left(0)
      }
      let begin = environment.clock.monotonic()
      let status = code.start(id, target: target, input: input, deadline: deadline)
      // Nobody waits for a start that went well, only for one that was refused.
      if status != 0 {
        if end(call, id) {
          call.refused(status)
        } else if !releaseGivenUp(id) {
          strike("refused \(call.label) after it had completed it")
        }
      }
      left(environment.clock.monotonic() &- begin)
    }
    guard !accepted else { return }
    _ = end(call, id)
    call.refused(BorderCode.busy.rawValue)
    left(0)
  }

  /// Counts a call that has begun.
  func note(_ call: PluginCall) { live.withLock { $0.add(call) } }

  /// Starts a call on the calling thread, with a deadline in so many nanoseconds; returns how long the
  /// plugin's code took.
  func startHere(
    _ call: PluginCall,
    _ code: MappedCode,
    target: ImmortalName,
    input: [UInt8],
    within nanoseconds: Int64
  ) -> Int64 {
    guard let id = calls.open(call) else {
      call.refused(BorderCode.busy.rawValue)
      return 0
    }
    _ = call.bind(id)
    note(call)
    let begin = environment.clock.monotonic()
    let (sum, overflow) = begin.addingReportingOverflow(nanoseconds)
    let deadline = overflow ? UInt64(Int64.max) : UInt64(max(0, sum))
    let status = code.start(id, target: target, input: input, deadline: deadline)
    let taken = environment.clock.monotonic() &- begin
    if status != 0 {
      if end(call, id) {
        call.refused(status)
      } else {
        strike("refused \(call.label) after it had completed it")
      }
    }
    return taken
  }

  /// Takes the id from the plugin; `false` if the call was over.
  func end(_ call: PluginCall, _ id: UInt64) -> Bool {
    forget(call)
    guard let slot = calls.claim(id) else { return false }
    calls.unpin(slot)
    return true
  }

  private func forget(_ call: PluginCall) {
    let empty = live.withLock { live in
      live.remove(call)
      return live.isEmpty ? live.whenEmpty : nil
    }
    empty?.fire(true)
  }

  /// The calls that are not over.
  var liveCalls: [PluginCall] { live.withLock { $0.all } }

  /// Waits until all calls are over; `false` when that takes longer than this.
  func whenDrained(within nanoseconds: Int64, on clock: any HostClock) async -> Bool {
    let empty = OneShot<Bool>()
    let isEmpty = live.withLock { live in
      live.whenEmpty = empty
      return live.isEmpty
    }
    return isEmpty ? true : await empty.value(within: nanoseconds, on: clock, else: false)
  }

  /// Tells the plugin that a call is cancelled; its completion is still awaited.
  func cancel(_ call: PluginCall, _ reason: CancelReason) {
    guard let cancellation = call.cancel(reason) else { return }
    if cancellation.id != 0 { calls.cancel(cancellation.id, reason: reason.rawValue) }
    if let callback = cancellation.callback { tell(callback, call, cancellation.id, reason) }
    cancellation.remote?.cancel(cancellation.id, reason)
    // The host of a runner does that.
    if relay != nil { return }
    for request in cancellation.requests { cancelRequest(request, reason: "\(reason)") }
    call.place.inner?.cancel()
  }

  /// Runs the plugin's callback on one of its threads, unless the call is over by then.
  func tell(_ callback: PluginCallback, _ call: PluginCall, _ id: UInt64, _ reason: CancelReason) {
    threads.run { [name] in
      guard !call.isSettled else { return }
      withBreadcrumb(name, PluginCode.cancelName, id) { callback(id, reason.rawValue) }
    }
  }

  /// Stops waiting for a call; a completion that still comes is stale.
  func abandon(_ call: PluginCall) {
    guard end(call, call.id) else { return }
    strike("did not answer \(call.label) in time after it was cancelled")
    defer { call.remote?.abandon() }
    settle(
      call,
      .failed(
        PerdureError(
          "interrupted",
          "plugin \(id) did not answer \(call.label) in time after it was cancelled",
          hint: "it may still be running; restart the host if that matters"
        )
      )
    )
  }

  /// Gives up a call, whose completion is stale from now on; its reader waits until that comes.
  ///
  /// So the engine knows how long the effects of the call may go on. Returns `false` if it is over.
  @discardableResult func giveUp(_ call: PluginCall) -> Bool {
    let id = call.id
    // Before the id is taken: the completion may come right after.
    givenUp.withLock { $0[id] = call }
    guard end(call, id) else {
      givenUp.withLock { _ = $0.removeValue(forKey: id) }
      return false
    }
    strike("did not answer \(call.label) in time after it was cancelled")
    // A process of its own is ended, which also ends the call.
    defer { call.remote?.abandon() }
    for request in call.takeRequests() { cancelRequest(request, reason: "parent") }
    return true
  }

  /// Notes that a call that was given up has ended; `false` if there is none with this id.
  @discardableResult func releaseGivenUp(_ id: UInt64) -> Bool {
    guard let call = givenUp.withLock({ $0.removeValue(forKey: id) }) else { return false }
    settle(
      call,
      .failed(PerdureError("interrupted", "plugin \(self.id) answered \(call.label) too late"))
    )
    return true
  }

  /// Stops waiting for the completions of calls that were given up.
  func releaseAllGivenUp() {
    for id in givenUp.withLock({ Array($0.keys) }) { releaseGivenUp(id) }
  }

  func settle(_ call: PluginCall, _ outcome: CallOutcome) {
    forget(call)
    let left = call.settle(outcome)
    if relay != nil { return }
    for request in left.requests { cancelRequest(request, reason: "parent") }
    left.belongings?.close()
  }

  /// Forgets what refers back to it, so that a closed plugin is freed.
  func letGo() {
    declarations.withLock { $0 = [:] }
    stop.withLock { $0 = nil }
  }

  // MARK: Misbehaviour

  /// Counts a broken promise and reports it.
  func strike(_ what: String) {
    if let relay { return relay.strike(what) }
    guard strikes.withLock({ $0.add(at: environment.clock.monotonic()) }) else { return }
    environment.report(
      Report(type: "plugin_strike", message: "plugin \(id) \(what)", extensionName: id)
    )
  }

  /// Takes a completion that came when its call was over.
  func noteStaleCompletion(of id: UInt64) {
    releaseGivenUp(id)
    strike("completed a call that was over; the answer was dropped")
  }

  func noteJunk(_ what: String) { strike(what) }
}
