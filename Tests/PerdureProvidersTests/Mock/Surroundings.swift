import Glibc

/// Text files of the repository.
enum TextFile {
  static func read(_ path: String) -> String? {
    guard let file = unsafe fopen(path, "r") else { return nil }
    defer { unsafe fclose(file) }
    var bytes: [UInt8] = []
    while case let byte = unsafe getc(file), byte >= 0 {
      bytes.append(UInt8(truncatingIfNeeded: byte))
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// The environment of the test process.
enum Environment {
  /// Keeps requests to loopback away from a proxy that the machine may be set up with.
  static let bypassesProxies: Bool = {
    unsafe setenv("NO_PROXY", "127.0.0.1", 1)
    return unsafe setenv("no_proxy", "127.0.0.1", 1) == 0
  }()

  /// Certificate authorities that the person who runs the tests has named.
  static var certificates: [String: String] {
    ["SSL_CERT_FILE": Self["SSL_CERT_FILE"] ?? "", "SSL_CERT_DIR": Self["SSL_CERT_DIR"] ?? ""]
  }

  static subscript(name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }
}
