import CPerdureLinux

/// The SHA-256 digest of bytes that come in parts.
package final class ContentDigest {
  private let handle: Int64
  private var isEnded = false

  /// Begins a digest.
  package init() throws(FileFailure) { handle = try FolderFiles.check(perdure_digest_begin()) }

  deinit { if !isEnded { _ = perdure_digest_end(handle) } }

  /// Adds bytes.
  package func add(_ bytes: [UInt8]) throws(FileFailure) {
    FolderFiles.put(bytes)
    try FolderFiles.check(Int64(perdure_digest_add(handle)))
  }

  /// Ends the digest and returns its hexadecimal digits; to be called once.
  package func end() throws(FileFailure) -> String {
    isEnded = true
    let bytes = FolderFiles.take(try FolderFiles.check(perdure_digest_end(handle)))
    return bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
