import PerdureModel
import PerdureValue
import Synchronization

/// The transaction of one call: what was read for a commit, which must come soon.
///
/// Neither the engine nor anybody else waits for it: one that takes too long just dies.
final class CallTransactions: Sendable {
  private struct Open {
    var handle: String
    var tracking: any ReadTracking
    var slots: CallSlots
    var clock: any HostClock
    var begun: Int64
    var lastUse: Int64
    var uses = 0
    var watch: Task<Void, Never>?
  }

  private struct State {
    var open: Open?
    var isOpening = false
    var expired: Set<String> = []
    var count = 0
    var isOver = false
  }

  private static let idle: Int64 = 2_000_000_000
  private static let whole: Int64 = 10_000_000_000

  private let state = Mutex(State())

  /// Whether the call has one.
  var isOpen: Bool { state.withLock { $0.open != nil } }

  /// Waits for its turn among the transactions of the plugin, and begins one.
  func begin(
    _ run: OperationRun,
    _ engine: any CallOperations
  ) async throws -> (
    handle: String, tracking: any ReadTracking
  ) {
    let mayBegin = state.withLock { state in
      guard state.open == nil, !state.isOpening, !state.isOver else { return false }
      state.isOpening = true
      return true
    }
    guard mayBegin else {
      throw OperationProblem(
        .invalid,
        "the call has a transaction already",
        reason: "in_transaction"
      )
    }
    defer { state.withLock { $0.isOpening = false } }
    let slots = run.core.transactionSlots(of: engine.store)
    let ticket = slots.request(.quick)
    let isGranted = await withTaskCancellationHandler {
      await ticket.value()
    } onCancel: {
      ticket.cancel()
    }
    guard isGranted else { throw CancellationError() }
    do {
      return try open(run.core, try engine.beginTracking(), slots)
    } catch {
      slots.give(.quick)
      throw error
    }
  }

  private func open(
    _ core: PluginCore,
    _ tracking: any ReadTracking,
    _ slots: CallSlots
  ) throws -> (handle: String, tracking: any ReadTracking) {
    let now = core.environment.clock.monotonic()
    let handle: String? = state.withLock { state in
      guard !state.isOver else { return nil }
      state.count += 1
      let handle = "t\(state.count)"
      state.open = Open(
        handle: handle,
        tracking: tracking,
        slots: slots,
        clock: core.environment.clock,
        begun: now,
        lastUse: now
      )
      return handle
    }
    guard let handle else {
      tracking.end()
      throw OperationProblem(.stale, "the call is over", reason: "ended")
    }
    // Ends with the transaction.
    let watch = Task { [self] in await self.watch(handle, core) }
    let isGone = state.withLock { state in
      guard state.open?.handle == handle else { return true }
      state.open?.watch = watch
      return false
    }
    if isGone { watch.cancel() }
    return (handle, tracking)
  }

  private func watch(_ handle: String, _ core: PluginCore) async {
    let clock = core.environment.clock
    while !Task.isCancelled {
      let now = clock.monotonic()
      let rest: Int64? = state.withLock { state in
        guard let open = state.open, open.handle == handle else { return nil }
        let idle = open.uses > 0 ? Self.whole : open.lastUse + Self.idle - now
        return min(idle, open.begun + Self.whole - now)
      }
      guard let rest else { return }
      if rest <= 0 { return expire(handle, core) }
      await clock.sleep(nanoseconds: rest)
    }
  }

  private func expire(_ handle: String, _ core: PluginCore) {
    let open = state.withLock { state -> Open? in
      guard state.open?.handle == handle else { return nil }
      state.expired.insert(handle)
      defer { state.open = nil }
      return state.open
    }
    guard let open else { return }
    end(open)
    core.strike("left a transaction open for too long")
  }

  private func end(_ open: Open) {
    open.watch?.cancel()
    open.tracking.end()
    open.slots.give(.quick)
  }

  private func problem(_ handle: String, _ state: State) -> OperationProblem {
    guard state.expired.contains(handle) else { return .unknownHandle(handle) }
    var problem = OperationProblem(
      .timeout,
      "the transaction \(handle) took too long",
      reason: "tx_expired"
    )
    problem.isRetryable = true
    return problem
  }

  /// Gives what was read so far, for one more read.
  func use(_ handle: String) throws -> any ReadTracking {
    try state.withLock { state in
      guard let open = state.open, open.handle == handle else { throw problem(handle, state) }
      state.open?.uses += 1
      return open.tracking
    }
  }

  /// Notes that a read has ended.
  func rest(_ handle: String) {
    state.withLock { state in
      guard let open = state.open, open.handle == handle else { return }
      state.open?.uses -= 1
      state.open?.lastUse = open.clock.monotonic()
    }
  }

  /// Notes that something was done for it.
  func touch(_ handle: String) {
    state.withLock { state in
      guard let open = state.open, open.handle == handle else { return }
      state.open?.lastUse = open.clock.monotonic()
    }
  }

  /// Ends a transaction and gives what was read; later uses of the handle are stale.
  ///
  /// The turn among the transactions of the plugin is kept until `finish` is called.
  func take(_ handle: String) throws -> (tracking: any ReadTracking, finish: @Sendable () -> Void) {
    let open = try state.withLock { state -> Open in
      guard let open = state.open, open.handle == handle else { throw problem(handle, state) }
      state.open = nil
      return open
    }
    open.watch?.cancel()
    return (
      open.tracking,
      {
        open.tracking.end()
        open.slots.give(.quick)
      }
    )
  }

  /// Ends whatever is open, because the call is over.
  func close() {
    let open = state.withLock { state in
      state.isOver = true
      defer { state.open = nil }
      return state.open
    }
    if let open { end(open) }
  }
}
