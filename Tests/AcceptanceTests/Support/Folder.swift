import Glibc

/// A folder of one test, removed with it.
final class Folder: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/perdure-acceptance-XXXXXX".utf8CString)
    let made = unsafe template.withUnsafeMutableBufferPointer { buffer in
      unsafe buffer.baseAddress.map { unsafe mkdtemp($0) } != nil
    }
    precondition(made, "no folder can be made in /tmp")
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { Program.remove(path) }

  /// Returns the path of a file in it.
  func file(_ name: String) -> String { path + "/" + name }

  /// Writes a file and returns its path.
  @discardableResult
  func write(_ text: String, to name: String) -> String { write(Array(text.utf8), to: name) }

  /// Writes a file and returns its path.
  @discardableResult
  func write(_ bytes: [UInt8], to name: String) -> String {
    let descriptor = unsafe open(file(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    precondition(descriptor >= 0, "\(file(name)) cannot be written")
    let count = unsafe bytes.withUnsafeBytes {
      unsafe Glibc.write(descriptor, $0.baseAddress, $0.count)
    }
    precondition(count == bytes.count)
    close(descriptor)
    return file(name)
  }

  /// Returns the bytes of a file; none if there is no such file.
  func bytes(of name: String) -> [UInt8] { Self.bytes(at: file(name)) }

  /// Returns the bytes of any file; none if there is no such file.
  static func bytes(at path: String) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe buffer.withUnsafeMutableBytes {
        unsafe Glibc.read(descriptor, $0.baseAddress, $0.count)
      }
      guard count > 0 else { return bytes }
      bytes += buffer.prefix(count)
    }
  }

  /// Returns the text of a file.
  func read(_ name: String) -> String { String(decoding: bytes(of: name), as: UTF8.self) }

  /// Whether there is such a file.
  func has(_ name: String) -> Bool { unsafe access(file(name), F_OK) == 0 }
}

/// A pipe with a name, from which a test hears of what happens elsewhere.
final class Journal: Sendable {
  let path: String
  private let descriptor: Int32

  init(in folder: Folder, named name: String = "journal") {
    path = folder.file(name)
    unsafe mkfifo(path, 0o600)
    // Open for both, so that nobody who writes ever waits for a reader.
    descriptor = unsafe open(path, O_RDWR | O_CLOEXEC)
    precondition(descriptor >= 0)
  }

  deinit { close(descriptor) }

  /// Returns the next line; gives up after a minute.
  func line() -> String? {
    var text: [UInt8] = []
    while true {
      var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard unsafe poll(&wait, 1, 60_000) == 1 else { return nil }
      var byte: UInt8 = 0
      guard unsafe Glibc.read(descriptor, &byte, 1) == 1 else { return nil }
      if byte == UInt8(ascii: "\n") { return String(decoding: text, as: UTF8.self) }
      text.append(byte)
    }
  }
}
