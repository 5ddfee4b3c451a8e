import Glibc

/// The system calls of the mock server.
enum MockSocket {
  struct NoSocket: Error {}

  static func listen() throws -> Int32 {
    let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard socket >= 0 else { throw NoSocket() }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
    let size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(socket, $0, size)
      }
    }
    guard code == 0, Glibc.listen(socket, 64) == 0 else { throw NoSocket() }
    return socket
  }

  static func port(of socket: Int32) -> UInt16 {
    var address = sockaddr_in()
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(socket, $0, &size)
      }
    }
    return UInt16(bigEndian: address.sin_port)
  }

  static func write(_ bytes: [UInt8], to socket: Int32) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { buffer in
        unsafe send(socket, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }

  /// Returns the bytes that are there, waiting for the first; none at the end.
  static func read(_ socket: Int32) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
      count = unsafe max(0, recv(socket, buffer.baseAddress, 65_536, 0))
    }
  }

  static func waitForClose(_ socket: Int32) { while !read(socket).isEmpty {} }

  static func sendAtOnce(_ socket: Int32) {
    var option: Int32 = 1
    let size = socklen_t(MemoryLayout<Int32>.size)
    _ = unsafe setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &option, size)
  }

  static func resetOnClose(_ socket: Int32) {
    var option = linger(l_onoff: 1, l_linger: 0)
    let size = socklen_t(MemoryLayout<linger>.size)
    _ = unsafe setsockopt(socket, SOL_SOCKET, SO_LINGER, &option, size)
  }

  static func readRequest(_ socket: Int32, _ input: inout [UInt8]) -> MockRequest? {
    var request = MockRequest()
    let end: [UInt8] = [13, 10, 13, 10]
    var headEnd: Int?
    while headEnd == nil {
      headEnd = input.firstRange(of: end)?.lowerBound
      guard headEnd == nil else { break }
      let more = read(socket)
      if more.isEmpty { return nil }
      input += more
    }
    guard let headEnd else { return nil }
    let lines = String(decoding: input[..<headEnd], as: UTF8.self).split(separator: "\r\n")
    let words = lines.first?.split(separator: " ") ?? []
    guard words.count == 3 else { return nil }
    request.method = String(words[0])
    request.target = String(words[1])
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { return nil }
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      request.fields.append((String(line[..<colon]), String(value)))
    }
    let length = request["content-length"].flatMap(Int.init) ?? 0
    while input.count < headEnd + 4 + length {
      let more = read(socket)
      if more.isEmpty { return nil }
      input += more
    }
    request.body = Array(input[(headEnd + 4)..<(headEnd + 4 + length)])
    input.removeFirst(headEnd + 4 + length)
    return request
  }

  /// Runs blocking work on a thread of its own.
  static func thread(_ body: @escaping @Sendable () -> Void) {
    final class Box {
      let body: @Sendable () -> Void
      init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = unsafe Unmanaged.passRetained(Box(body)).toOpaque()
    _ = unsafe pthread_create(
      &thread,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        // Balances `passRetained`, once.
        unsafe Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
        return nil
      },
      box
    )
    pthread_detach(thread)
  }
}
