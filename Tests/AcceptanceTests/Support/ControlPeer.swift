import Glibc
import PerdureValue

/// Somebody who talks to the control socket of a host in bytes.
final class ControlPeer {
  private let descriptor: Int32

  /// Connects; `nil` if nobody listens.
  init?(to path: String) {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    precondition(bytes.count < 108, "the path is too long for a plain address")
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    let size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let code = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(descriptor, $0, size)
      }
    }
    guard code == 0 else { return nil }
  }

  deinit { close(descriptor) }

  /// Sends bytes as they are.
  func send(_ bytes: [UInt8]) {
    _ = unsafe bytes.withUnsafeBytes {
      unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
  }

  /// Sends text as a frame.
  func send(frame text: String) {
    let bytes = Array(text.utf8)
    send((0..<4).map { UInt8(truncatingIfNeeded: bytes.count >> (8 * $0)) } + bytes)
  }

  /// Returns the next frame, or `nil` at the end of the connection; gives up after a minute.
  func frame() -> JSON? {
    guard let head = bytes(4) else { return nil }
    let count = head.enumerated().reduce(0) { $0 | Int($1.element) << (8 * $1.offset) }
    return bytes(count).map { (try? JSON(parsing: $0)) ?? .null }
  }

  /// Sends a request and returns its answer, without the events before it.
  func ask(_ request: String) -> JSON? {
    send(frame: request)
    while let frame = frame() {
      if frame["event"] == nil { return frame }
    }
    return nil
  }

  private func bytes(_ count: Int) -> [UInt8]? {
    var all: [UInt8] = []
    while all.count < count {
      var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard unsafe poll(&wait, 1, 60_000) == 1 else { return nil }
      var buffer = [UInt8](repeating: 0, count: count - all.count)
      let got = unsafe buffer.withUnsafeMutableBytes {
        unsafe recv(descriptor, $0.baseAddress, $0.count, 0)
      }
      guard got > 0 else { return nil }
      all += buffer.prefix(got)
    }
    return all
  }
}
