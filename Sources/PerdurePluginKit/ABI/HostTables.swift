internal import CPerdureABI

/// The functions of the host, with Swift's types.
// Safe and @unchecked Sendable: the contract makes the tables valid for ever and lets any thread
// call them; they copy what they are lent before they return.
@safe struct HostTables: @unchecked Sendable {
  private let calls: UnsafePointer<pdr_calls_1>
  private let invoke: UnsafePointer<pdr_invoke_1>?

  /// Asks the host for its tables; returns `nil` if it lacks the first one.
  init?(host: UnsafePointer<pdr_host>) {
    guard
      let calls = unsafe Self.table(
        "perdure.calls/1",
        of: host,
        MemoryLayout<pdr_calls_1>.size
      )
    else { return nil }
    unsafe self.calls = calls.assumingMemoryBound(to: pdr_calls_1.self)
    let invoke = unsafe Self.table("perdure.invoke/1", of: host, MemoryLayout<pdr_invoke_1>.size)
    unsafe self.invoke = invoke?.assumingMemoryBound(to: pdr_invoke_1.self)
  }

  private static func table(
    _ name: String,
    of host: UnsafePointer<pdr_host>,
    _ size: Int
  ) -> UnsafeRawPointer? {
    let bytes = Array(name.utf8)
    return unsafe bytes.withUnsafeBufferPointer { name in
      unsafe host.pointee.query?(
        host.pointee.ctx,
        pdr_str(ptr: name.baseAddress, len: name.count),
        UInt32(size)
      )
    }
  }

  /// Ends a call with a value, or with the output that was emitted if there is none.
  func complete(_ call: UInt64, _ payload: Payload?) {
    guard let payload else {
      _ = unsafe calls.pointee.complete?(calls.pointee.ctx, call, 0, nil, nil)
      return
    }
    unsafe Self.lend(payload) { blob in
      _ = unsafe calls.pointee.complete?(calls.pointee.ctx, call, 0, blob, nil)
    }
  }

  /// Ends a call with an error.
  func complete(_ call: UInt64, _ error: PluginError) {
    let code = error.code.rawValue < 0 ? error.code.rawValue : PluginError.Code.internal.rawValue
    let message = Array(error.message.utf8)
    let detail = error.detail?.encoded
    unsafe message.withUnsafeBufferPointer { message in
      unsafe (detail ?? []).withUnsafeBufferPointer { bytes in
        var err = unsafe pdr_err()
        unsafe err.size = UInt32(MemoryLayout<pdr_err>.size)
        unsafe err.code = code
        unsafe err.flags = error.traits.rawValue
        unsafe err.message = pdr_str(ptr: message.baseAddress, len: message.count)
        unsafe err.detail = pdr_str(
          ptr: bytes.baseAddress,
          // The length that stands for an absent string.
          len: detail == nil ? Int(bitPattern: UInt.max) : bytes.count
        )
        _ = unsafe calls.pointee.complete?(calls.pointee.ctx, call, code, nil, &err)
      }
    }
  }

  /// Sends one frame of output and returns what the host says to it.
  func emit(_ call: UInt64, _ payload: Payload) -> PluginError.Code? {
    let status = unsafe Self.lend(payload) { blob in
      unsafe calls.pointee.emit?(calls.pointee.ctx, call, blob) ?? -10
    }
    return status < 0 ? PluginError.Code(rawValue: status) : nil
  }

  /// How many bytes `emit` would take now.
  func credit(_ call: UInt64) -> Int {
    var bytes: UInt64 = 0
    _ = unsafe calls.pointee.credit?(calls.pointee.ctx, call, &bytes)
    return Int(clamping: bytes)
  }

  /// Why the call is cancelled; 0 if it is not.
  func cancelReason(_ call: UInt64) -> UInt32 {
    unsafe calls.pointee.cancelled?(calls.pointee.ctx, call) ?? 0
  }

  /// Has `core` told when the call is cancelled.
  func watch(_ call: UInt64, for core: PluginCore) {
    let argument = unsafe core.argument
    _ = unsafe calls.pointee.on_cancel?(
      calls.pointee.ctx,
      call,
      { argument, call, _ in
        guard let argument = unsafe argument else { return }
        unsafe PluginCore.at(argument).cancel(call)
      },
      argument
    )
  }

  /// Starts an operation whose result nobody waits for.
  func tell(_ call: UInt64, _ operation: String, _ payload: Payload) {
    _ = unsafe start(call, operation, payload, nil, nil, nil)
  }

  /// Starts an operation; `request` is told of its end exactly once unless this returns a code.
  func start(
    _ call: UInt64,
    _ operation: String,
    _ payload: Payload,
    _ request: PendingRequest
  ) -> PluginError.Code? {
    let argument = unsafe Unmanaged.passRetained(request)
    var id: UInt64 = 0
    let status = unsafe start(
      call,
      operation,
      payload,
      { argument, _, status, value, err in
        guard let argument = unsafe argument else { return }
        let request = unsafe Unmanaged<PendingRequest>.fromOpaque(argument).takeRetainedValue()
        request.end(unsafe Border.result(status, value, err))
      },
      argument.toOpaque(),
      &id
    )
    guard status < 0 else {
      if request.begin(as: id) { cancel(id) }
      return nil
    }
    unsafe argument.release()
    return PluginError.Code(rawValue: status)
  }

  /// Asks the host to give up a request.
  func cancel(_ request: UInt64) {
    guard let invoke = unsafe invoke else { return }
    _ = unsafe invoke.pointee.cancel?(invoke.pointee.ctx, request)
  }

  private func start(
    _ call: UInt64,
    _ operation: String,
    _ payload: Payload,
    _ done: pdr_done?,
    _ argument: UnsafeMutableRawPointer?,
    _ id: UnsafeMutablePointer<UInt64>?
  ) -> Int32 {
    guard let invoke = unsafe invoke else { return PluginError.Code.unsupported.rawValue }
    let name = Array(operation.utf8)
    return unsafe name.withUnsafeBufferPointer { name in
      unsafe Self.lend(payload) { blob in
        unsafe invoke.pointee.start?(
          invoke.pointee.ctx,
          call,
          pdr_str(ptr: name.baseAddress, len: name.count),
          blob,
          done,
          argument,
          id
        ) ?? PluginError.Code.unsupported.rawValue
      }
    }
  }

  private static func lend<Result>(
    _ payload: Payload,
    _ body: (UnsafePointer<pdr_blob>) -> Result
  ) -> Result {
    let type = Array(payload.mediaType.utf8)
    return unsafe payload.bytes.withUnsafeBufferPointer { bytes in
      unsafe type.withUnsafeBufferPointer { type in
        var blob = unsafe pdr_blob()
        unsafe blob.size = UInt32(MemoryLayout<pdr_blob>.size)
        unsafe blob.ptr = bytes.baseAddress
        unsafe blob.len = bytes.count
        unsafe blob.media_type = pdr_str(ptr: type.baseAddress, len: type.count)
        return unsafe body(&blob)
      }
    }
  }
}
