internal import CPerdureABI
import PerdureValue
import Synchronization

/// What `ctx` of every host function points to: all that the hot path needs, without a class.
///
/// It is never freed. The core, with the id tables, is let go when the plugin is retired and the last
/// thread has left.
@unsafe struct HostContext: ~Copyable {
  let calls: IdTable
  let requests: IdTable
  /// Whether the plugin is retired, and how many threads are inside of functions of the host.
  let gate: Atomic<UInt64>
  let core: Unmanaged<PluginCore>
  let host: UnsafeMutablePointer<pdr_host>
  let callsTable: UnsafeMutablePointer<pdr_calls_1>
  let invokeTable: UnsafeMutablePointer<pdr_invoke_1>
}

/// The tables that one plugin gets. They are never freed: a retired plugin may still call them, and
/// then everything answers `gone`.
// Safe and @unchecked Sendable: the context lives for ever; what changes in it is atomic.
@safe struct HostTables: @unchecked Sendable {
  let context: UnsafeMutablePointer<HostContext>

  private static let gone: UInt64 = 1 << 63

  /// Makes the tables of `core`, which lives at least until they are retired.
  init(core: PluginCore) {
    unsafe context = .allocate(capacity: 1)
    unsafe context.initialize(
      to: HostContext(
        calls: core.calls,
        requests: core.requests,
        gate: Atomic(0),
        core: Unmanaged.passRetained(core),
        host: .allocate(capacity: 1),
        callsTable: .allocate(capacity: 1),
        invokeTable: .allocate(capacity: 1)
      )
    )
    let opaque = unsafe UnsafeMutableRawPointer(context)
    unsafe context.pointee.host.initialize(
      to: pdr_host(
        size: UInt32(MemoryLayout<pdr_host>.size),
        minor: UInt32(PDR_ABI_MINOR),
        ctx: opaque,
        query: { unsafe queryTable($0, $1, $2) }
      )
    )
    unsafe context.pointee.callsTable.initialize(
      to: pdr_calls_1(
        size: UInt32(MemoryLayout<pdr_calls_1>.size),
        reserved: 0,
        ctx: opaque,
        complete: { unsafe completeCall($0, $1, $2, $3, $4) },
        emit: { unsafe emitFrame($0, $1, $2) },
        credit: { unsafe creditLeft($0, $1, $2) },
        cancelled: { unsafe cancelledReason($0, $1) },
        on_cancel: { unsafe onCancel($0, $1, $2, $3) }
      )
    )
    unsafe context.pointee.invokeTable.initialize(
      to: pdr_invoke_1(
        size: UInt32(MemoryLayout<pdr_invoke_1>.size),
        reserved: 0,
        ctx: opaque,
        start: { unsafe startRequest($0, $1, $2, $3, $4, $5, $6) },
        cancel: { unsafe cancelRequest($0, $1) }
      )
    )
  }

  /// Makes every function answer `gone` from now on, and lets the core go.
  func retire() {
    let old = unsafe context.pointee.gate.bitwiseOr(
      Self.gone,
      ordering: .acquiringAndReleasing
    ).oldValue
    if old == 0 { unsafe context.pointee.core.release() }
  }

  /// Lets a thread of the plugin use the core; `false` if the plugin is retired.
  @inline(__always)
  fileprivate static func enter(_ context: UnsafeMutablePointer<HostContext>) -> Bool {
    var old = unsafe context.pointee.gate.load(ordering: .relaxed)
    while true {
      guard old & gone == 0 else { return false }
      let (exchanged, original) = unsafe context.pointee.gate.weakCompareExchange(
        expected: old,
        desired: old + 1,
        ordering: .acquiring
      )
      if exchanged { return true }
      old = original
    }
  }

  /// Ends what `enter` began; the last one out lets the core of a retired plugin go.
  @inline(__always)
  fileprivate static func leave(_ context: UnsafeMutablePointer<HostContext>) {
    let new = unsafe context.pointee.gate.wrappingSubtract(
      1,
      ordering: .acquiringAndReleasing
    ).newValue
    if new == gone { unsafe context.pointee.core.release() }
  }
}

@inline(__always)
private func hostContext(_ pointer: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<HostContext>?
{
  unsafe pointer?.assumingMemoryBound(to: HostContext.self)
}

private func queryTable(
  _ ctx: UnsafeMutableRawPointer?,
  _ name: pdr_str,
  _ minimum: UInt32
) -> UnsafeRawPointer? {
  guard let context = unsafe hostContext(ctx),
    let name = unsafe try? Border.text(name, limit: Border.nameLimit)
  else { return nil }
  switch name {
  case PDR_CALLS_1:
    guard unsafe minimum <= MemoryLayout<pdr_calls_1>.size else { return nil }
    return unsafe UnsafeRawPointer(context.pointee.callsTable)
  case PDR_INVOKE_1:
    guard unsafe minimum <= MemoryLayout<pdr_invoke_1>.size else { return nil }
    return unsafe UnsafeRawPointer(context.pointee.invokeTable)
  default: return nil
  }
}

private func completeCall(
  _ ctx: UnsafeMutableRawPointer?,
  _ id: UInt64,
  _ status: Int32,
  _ value: UnsafePointer<pdr_blob>?,
  _ err: UnsafePointer<pdr_err>?
) -> Int32 {
  let blob = unsafe value.map { unsafe Border.blob($0) }
  defer { if let blob = unsafe blob { unsafe releaseBlob(blob) } }
  guard let context = unsafe hostContext(ctx) else { return PDR_E_INVALID }
  guard unsafe HostTables.enter(context) else { return PDR_E_GONE }
  defer { unsafe HostTables.leave(context) }
  let calls = unsafe context.pointee.calls
  guard let slot = calls.claim(id) else {
    unsafe context.pointee.core._withUnsafeGuaranteedRef { $0.noteStaleCompletion(of: id) }
    return PDR_E_STALE
  }
  defer { calls.unpin(slot) }
  let code = calls.withRecord(slot, as: PluginCall.self) { call -> Int32 in
    if call.kind == .bytes { return unsafe completeBytes(call, blob) }
    return unsafe context.pointee.core._withUnsafeGuaranteedRef { core in
      unsafe complete(call, of: core, status, blob, err)
    }
  }
  return code ?? PDR_E_STALE
}

private func completeBytes(_ call: PluginCall, _ blob: pdr_blob?) -> Int32 {
  guard let blob = unsafe blob,
    let bytes = unsafe try? Border.bytes(blob.ptr, blob.len, limit: Border.messageLimit)
  else { return PDR_E_ENCODING }
  call.settle(.bytes(bytes))
  return PDR_OK
}

private func complete(
  _ call: PluginCall,
  of core: PluginCore,
  _ status: Int32,
  _ blob: pdr_blob?,
  _ err: UnsafePointer<pdr_err>?
) -> Int32 {
  do throws(BorderProblem) {
    guard status != 0 else {
      let payload =
        if let blob = unsafe blob {
          unsafe try Border.payload(blob, limit: Border.messageLimit)
        } else { Payload(type: .json, bytes: []) }
      return core.finish(call, .value(payload))
    }
    var failure = CallFailure(status: status)
    if let err = unsafe err {
      let err = unsafe Border.error(err)
      unsafe failure.flags = err.flags
      unsafe failure.message = try Border.text(err.message, limit: Border.errorLimit)
      unsafe failure.detail = try Border.text(err.detail, limit: Border.errorLimit)
    }
    return core.finish(call, .failure(failure))
  } catch {
    return core.finish(call, .junk(error))
  }
}

private func emitFrame(
  _ ctx: UnsafeMutableRawPointer?,
  _ id: UInt64,
  _ chunk: UnsafePointer<pdr_blob>?
) -> Int32 {
  let blob = unsafe chunk.map { unsafe Border.blob($0) }
  defer { if let blob = unsafe blob { unsafe releaseBlob(blob) } }
  guard let context = unsafe hostContext(ctx), let blob = unsafe blob else { return PDR_E_INVALID }
  return unsafe withCall(context, id) { call, core in
    do throws(BorderProblem) {
      // Credit is asked for first, so that a plugin that ignores it costs no copy.
      let length = unsafe blob.len
      guard length <= Border.emitLimit else { throw .tooLarge(limit: Border.emitLimit) }
      guard length <= PluginCall.creditWindow, call.kind.isTool else { return .invalid }
      guard length <= call.credit else { return .wouldBlock }
      let payload = unsafe try Border.payload(blob, limit: Border.emitLimit)
      return core.emit(payload, on: call)
    } catch {
      core.noteJunk("sent output of \(call.label) with \(error.phrase)")
      return error.code
    }
  }
}

private func creditLeft(
  _ ctx: UnsafeMutableRawPointer?,
  _ id: UInt64,
  _ left: UnsafeMutablePointer<UInt64>?
) -> Int32 {
  guard let context = unsafe hostContext(ctx), let left = unsafe left else { return PDR_E_INVALID }
  return unsafe withCall(context, id) { call, _ in
    unsafe left.pointee = UInt64(max(0, call.credit))
    return nil
  }
}

private func cancelledReason(_ ctx: UnsafeMutableRawPointer?, _ id: UInt64) -> UInt32 {
  guard let context = unsafe hostContext(ctx) else { return PDR_CANCEL_OBSOLETE }
  guard unsafe HostTables.enter(context) else { return PDR_CANCEL_DRAIN }
  defer { unsafe HostTables.leave(context) }
  return unsafe context.pointee.calls.reason(id) ?? PDR_CANCEL_OBSOLETE
}

private func onCancel(
  _ ctx: UnsafeMutableRawPointer?,
  _ id: UInt64,
  _ function: pdr_cancel_fn?,
  _ argument: UnsafeMutableRawPointer?
) -> Int32 {
  guard let context = unsafe hostContext(ctx) else { return PDR_E_INVALID }
  let callback = unsafe function.map { unsafe PluginCallback(function: $0, argument: argument) }
  return unsafe withCall(context, id) { call, core in
    if let (callback, reason) = call.onCancel(callback) {
      core.tell(callback, call, id, reason)
    }
    return nil
  }
}

/// Runs `body` with a call that stays alive meanwhile; a code is what `body` refuses with.
private func withCall(
  _ context: UnsafeMutablePointer<HostContext>,
  _ id: UInt64,
  _ body: (PluginCall, PluginCore) -> BorderCode?
) -> Int32 {
  guard unsafe HostTables.enter(context) else { return PDR_E_GONE }
  defer { unsafe HostTables.leave(context) }
  let calls = unsafe context.pointee.calls
  guard let slot = calls.pin(id) else { return PDR_E_STALE }
  defer { calls.unpin(slot) }
  let code = calls.withRecord(slot, as: PluginCall.self) { call -> Int32 in
    unsafe context.pointee.core._withUnsafeGuaranteedRef { core in
      body(call, core)?.rawValue ?? PDR_OK
    }
  }
  return code ?? PDR_E_STALE
}

private func startRequest(
  _ ctx: UnsafeMutableRawPointer?,
  _ within: UInt64,
  _ name: pdr_str,
  _ input: UnsafePointer<pdr_blob>?,
  _ function: pdr_done?,
  _ argument: UnsafeMutableRawPointer?,
  _ out: UnsafeMutablePointer<UInt64>?
) -> Int32 {
  let blob = unsafe input.map { unsafe Border.blob($0) }
  defer { if let blob = unsafe blob { unsafe releaseBlob(blob) } }
  guard let context = unsafe hostContext(ctx) else { return PDR_E_INVALID }
  guard unsafe HostTables.enter(context) else { return PDR_E_GONE }
  defer { unsafe HostTables.leave(context) }
  let done = unsafe function.map { unsafe PluginDone(function: $0, argument: argument) }
  let start = { (call: PluginCall?, core: PluginCore) -> BorderCode? in
    do throws(BorderProblem) {
      guard let name = unsafe try Border.text(name, limit: Border.nameLimit) else {
        throw .shape("an operation without a name", at: "")
      }
      var members: JSONObject = [:]
      if let blob = unsafe blob {
        members = try unsafe Border.payload(blob, limit: Border.messageLimit).object()
      }
      return core.startRequest(name, members, within: call, done: done) { id in
        if let out = unsafe out { unsafe out.pointee = id }
      }
    } catch {
      core.noteJunk("asked for an operation with \(error.phrase)")
      return error.code
    }
  }
  guard within == 0 else { return unsafe withCall(context, within, start) }
  return unsafe context.pointee.core._withUnsafeGuaranteedRef {
    start(nil, $0)?.rawValue ?? PDR_OK
  }
}

private func cancelRequest(_ ctx: UnsafeMutableRawPointer?, _ id: UInt64) -> Int32 {
  guard let context = unsafe hostContext(ctx) else { return PDR_E_INVALID }
  guard unsafe HostTables.enter(context) else { return PDR_E_GONE }
  defer { unsafe HostTables.leave(context) }
  return unsafe context.pointee.core._withUnsafeGuaranteedRef {
    $0.cancelRequest(id, reason: "cancelled") ? PDR_OK : PDR_E_STALE
  }
}
