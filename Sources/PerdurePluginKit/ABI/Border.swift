internal import CPerdureABI
import PerdureValue

/// Copies what the host lends.
@safe enum Border {
  static func bytes(_ text: pdr_str) -> [UInt8] {
    unsafe bytes(text.ptr, text.len)
  }

  static func text(_ text: pdr_str) -> String {
    String(decoding: unsafe bytes(text), as: UTF8.self)
  }

  static func payload(_ blob: UnsafePointer<pdr_blob>?) -> Payload {
    guard let blob = unsafe blob else { return Payload(mediaType: "", bytes: []) }
    return Payload(
      mediaType: unsafe text(blob.pointee.media_type),
      bytes: unsafe bytes(blob.pointee.ptr, blob.pointee.len)
    )
  }

  /// What a request ended with.
  static func result(
    _ status: Int32,
    _ value: UnsafePointer<pdr_blob>?,
    _ err: UnsafePointer<pdr_err>?
  ) -> Result<Payload, PluginError> {
    let isFailure = unsafe status < 0 || err != nil
    guard isFailure else { return .success(unsafe payload(value)) }
    let code = PluginError.Code(rawValue: status < 0 ? status : PluginError.Code.internal.rawValue)
    guard let err = unsafe err else {
      return .failure(PluginError(code, "the host answers with the code \(status)"))
    }
    let detail = unsafe bytes(err.pointee.detail)
    return .failure(
      PluginError(
        code,
        unsafe text(err.pointee.message),
        detail: detail.isEmpty ? nil : try? JSON(parsing: detail, options: .border),
        traits: PluginError.Traits(rawValue: unsafe err.pointee.flags)
      )
    )
  }

  /// Puts a sentence where the host wants it, and returns the code.
  static func refuse(_ err: UnsafeMutablePointer<pdr_errbuf>?, _ error: PluginError) -> Int32 {
    let code = error.code.rawValue < 0 ? error.code.rawValue : PluginError.Code.internal.rawValue
    guard let err = unsafe err else { return code }
    unsafe err.pointee.code = code
    var length = 0
    if let buffer = unsafe err.pointee.buf {
      for byte in error.message.utf8.prefix(unsafe Int(clamping: err.pointee.cap)) {
        unsafe buffer[length] = byte
        length += 1
      }
    }
    unsafe err.pointee.len = numericCast(length)
    return code
  }

  private static func bytes(_ pointer: UnsafePointer<UInt8>?, _ length: Int) -> [UInt8] {
    // The length of an absent value is the greatest there is, which is below zero as an Int.
    guard let pointer = unsafe pointer, length > 0 else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: pointer, count: length))
  }
}
