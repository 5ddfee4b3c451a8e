internal import CSodium

/// The little of libsodium that signatures need.
enum Sodium {
  static let signatureBytes = 64
  static let keyBytes = 32
  static let hashBytes = 64

  // Done once, and never undone: the library keeps nothing open.
  private static let isReady = sodium_init() >= 0

  /// Whether `signature` is an Ed25519 signature of `message` by `key`.
  static func isSignature(_ signature: [UInt8], of message: [UInt8], by key: [UInt8]) -> Bool {
    guard isReady, signature.count == signatureBytes, key.count == keyBytes else { return false }
    let count = UInt64(message.count)
    return unsafe crypto_sign_verify_detached(signature, message, count, key) == 0
  }

  /// The BLAKE2b-512 of `bytes`, which prehashed signatures sign; `nil` if the library is broken.
  static func hash(_ bytes: [UInt8]) -> [UInt8]? {
    guard isReady else { return nil }
    var hash = [UInt8](repeating: 0, count: hashBytes)
    let status = unsafe crypto_generichash(
      &hash,
      hashBytes,
      bytes,
      UInt64(bytes.count),
      nil,
      0
    )
    return status == 0 ? hash : nil
  }
}
