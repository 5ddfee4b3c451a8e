internal import CPerdureABI
internal import PerdureValue

/// What a plugin passed as a string or blob, checked before anything is copied.
///
/// Sizes are taken as the plugin states them; a pointer that lies can only be survived by running
/// the plugin out of process.
enum Border {
  /// Greatest JSON or text message.
  static let messageLimit = 16 << 20
  /// Greatest message with parts.
  static let partsLimit = 256 << 20
  /// Greatest frame of output.
  static let emitLimit = 1 << 20
  /// Greatest operation or target name.
  static let nameLimit = 512
  static let mediaTypeLimit = 128
  /// Greatest text or details of an error.
  static let errorLimit = 16 << 10

  /// Gives a blob whose missing members are zero.
  static func blob(_ pointer: UnsafePointer<pdr_blob>) -> pdr_blob {
    if unsafe pointer.pointee.size >= UInt32(MemoryLayout<pdr_blob>.size) {
      return unsafe pointer.pointee
    }
    return unsafe prefix(pointer, of: pdr_blob(), stated: pointer.pointee.size)
  }

  /// Gives an error whose missing members are zero.
  static func error(_ pointer: UnsafePointer<pdr_err>) -> pdr_err {
    unsafe prefix(pointer, of: pdr_err(), stated: pointer.pointee.size)
  }

  private static func prefix<Value>(
    _ pointer: UnsafePointer<Value>,
    of zero: Value,
    stated: UInt32
  ) -> Value {
    var copy = zero
    let count = min(Int(stated), MemoryLayout<Value>.size)
    unsafe withUnsafeMutableBytes(of: &copy) { target in
      unsafe target.copyMemory(from: UnsafeRawBufferPointer(start: pointer, count: count))
    }
    return copy
  }

  /// Copies bytes within `limit`; absent ones are `nil`.
  static func bytes(
    _ pointer: UnsafePointer<UInt8>?,
    _ length: Int,
    limit: Int
  ) throws(BorderProblem) -> [UInt8]? {
    // SIZE_MAX, the length of an absent value, arrives as -1.
    if length == -1 { return nil }
    if length == 0 { return [] }
    guard length > 0, length <= limit else { throw .tooLarge(limit: limit) }
    guard let pointer = unsafe pointer else { throw .nullWithLength(length) }
    return unsafe Array(UnsafeBufferPointer(start: pointer, count: length))
  }

  /// Copies a UTF-8 string within `limit`; absent ones are `nil`.
  static func text(_ string: pdr_str, limit: Int) throws(BorderProblem) -> String? {
    guard let bytes = unsafe try bytes(string.ptr, string.len, limit: limit) else { return nil }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
    return text
  }

  /// Tells what kind of bytes a blob holds.
  static func mediaType(_ string: pdr_str) throws(BorderProblem) -> MediaType {
    guard unsafe string.len != 0, let name = unsafe try text(string, limit: mediaTypeLimit),
      !name.isEmpty
    else {
      return .json
    }
    guard let type = MediaType(name: name) else { throw .mediaType(name) }
    return type
  }

  /// Copies a blob; the caller still owes its release.
  static func payload(_ blob: pdr_blob, limit: Int) throws(BorderProblem) -> Payload {
    guard unsafe blob.flags & 0xFFFF_0000 == 0 else { throw .flags }
    let type = unsafe try mediaType(blob.media_type)
    return Payload(
      type: type,
      bytes: unsafe try bytes(
        blob.ptr,
        blob.len,
        limit: type == .parts ? max(limit, partsLimit) : limit
      ) ?? []
    )
  }
}

/// Releases a blob that was handed over; does nothing for a borrowed one.
@inline(__always) func releaseBlob(_ blob: pdr_blob) {
  if let release = unsafe blob.release { unsafe release(blob.owner) }
}
