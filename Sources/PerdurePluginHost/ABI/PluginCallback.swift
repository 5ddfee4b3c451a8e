internal import CPerdureABI
import PerdureValue

/// A plugin's function to call when a call is cancelled.
// Safe and @unchecked Sendable: the contract makes `argument` live as long as the plugin and lets
// the function be called on any thread; code is never unmapped.
@safe struct PluginCallback: @unchecked Sendable {
  private let function: pdr_cancel_fn
  private let argument: UnsafeMutableRawPointer?

  init(function: @escaping pdr_cancel_fn, argument: UnsafeMutableRawPointer?) {
    unsafe self.function = function
    unsafe self.argument = argument
  }

  func callAsFunction(_ call: UInt64, _ reason: UInt32) {
    unsafe function(argument, call, reason)
  }
}

/// A plugin's function to call with the result of a request.
// Safe and @unchecked Sendable: as above; the one call is assured by the table of requests.
@safe struct PluginDone: @unchecked Sendable {
  private let function: pdr_done
  private let argument: UnsafeMutableRawPointer?

  init(function: @escaping pdr_done, argument: UnsafeMutableRawPointer?) {
    unsafe self.function = function
    unsafe self.argument = argument
  }

  func callAsFunction(_ request: UInt64, _ result: RequestResult) {
    switch result {
    case .object(let object): succeed(request, JSON.object(object).encoded, .json)
    case .bytes(let bytes, let type): succeed(request, bytes, type)
    case .failed(let failure): fail(request, failure)
    }
  }

  private func succeed(_ request: UInt64, _ bytes: [UInt8], _ type: MediaType) {
    let name = Array(type.name.utf8)
    unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe name.withUnsafeBufferPointer { name in
        var blob = unsafe pdr_blob()
        unsafe blob.size = UInt32(MemoryLayout<pdr_blob>.size)
        unsafe blob.ptr = bytes.baseAddress
        unsafe blob.len = bytes.count
        unsafe blob.media_type = pdr_str(ptr: name.baseAddress, len: name.count)
        unsafe function(argument, request, 0, &blob, nil)
      }
    }
  }

  private func flags(of failure: RequestFailure) -> UInt32 {
    var flags: UInt32 = failure.isRetryable ? PDR_ERR_RETRYABLE : 0
    if failure.code == .cancelled { flags |= PDR_ERR_CANCELLED }
    if failure.code == .timeout { flags |= PDR_ERR_TIMEOUT }
    return flags
  }

  private func fail(_ request: UInt64, _ failure: RequestFailure) {
    let message = Array(failure.message.utf8)
    let detail = JSON.object(failure.detail).encoded
    unsafe message.withUnsafeBufferPointer { message in
      unsafe detail.withUnsafeBufferPointer { detail in
        var err = unsafe pdr_err()
        unsafe err.size = UInt32(MemoryLayout<pdr_err>.size)
        unsafe err.code = failure.code.rawValue
        unsafe err.flags = flags(of: failure)
        unsafe err.message = pdr_str(ptr: message.baseAddress, len: message.count)
        unsafe err.detail = pdr_str(ptr: detail.baseAddress, len: detail.count)
        unsafe function(argument, request, failure.code.rawValue, nil, &err)
      }
    }
  }
}
