/// Where a request wants to go: a host as one form of its name, and a port.
package struct NetworkTarget: Hashable, Sendable, CustomStringConvertible {
  /// A host by name, in lower case, or by address.
  package enum Host: Hashable, Sendable, CustomStringConvertible {
    case name(String)
    case address(NetworkAddress)

    package var description: String {
      switch self {
      case .name(let name): name
      case .address(let address): address.isFour ? "\(address)" : "[\(address)]"
      }
    }
  }

  package var host: Host
  package var port: UInt16

  package var description: String { "\(host):\(port)" }

  /// Reads `host` or `host:port`; `nil` for whatever two programs could read in two ways.
  package init?(_ bytes: some Collection<UInt8>, standardPort: UInt16?) {
    let bytes = Array(bytes)
    guard let (host, rest) = Self.split(bytes), let read = Host(host) else { return nil }
    guard let port = rest.isEmpty ? standardPort : Self.port(rest.dropFirst()) else { return nil }
    self.host = read
    self.port = port
  }

  /// The host, and what is behind it from the colon on.
  static func split(
    _ bytes: [UInt8]
  ) -> (host: ArraySlice<UInt8>, rest: ArraySlice<UInt8>)? {
    let colon = UInt8(ascii: ":")
    let end: Int
    if bytes.first == UInt8(ascii: "[") {
      guard let bracket = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      end = bracket + 1
    } else {
      end = bytes.firstIndex(of: colon) ?? bytes.endIndex
    }
    let rest = bytes[end...]
    guard rest.isEmpty || rest.first == colon else { return nil }
    return (bytes[..<end], rest)
  }

  static func port(_ digits: ArraySlice<UInt8>) -> UInt16? {
    guard (1...5).contains(digits.count), digits.first != UInt8(ascii: "0"),
      digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    else { return nil }
    return UInt16(String(decoding: digits, as: UTF8.self))
  }
}

extension NetworkTarget.Host {
  /// Reads a name or a literal: `a.example`, `192.0.2.1`, `[2001:db8::1]`.
  package init?(_ bytes: ArraySlice<UInt8>) {
    if bytes.first == UInt8(ascii: "["), bytes.last == UInt8(ascii: "]") {
      let inner = bytes.dropFirst().dropLast()
      // No zone: it would be one of this machine.
      guard !inner.contains(UInt8(ascii: "%")), !inner.contains(0),
        let address = NetworkAddress(literal: String(decoding: inner, as: UTF8.self)),
        !address.isFour
      else { return nil }
      self = .address(address)
      return
    }
    let lower = bytes.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    let text = String(decoding: lower, as: UTF8.self)
    if lower.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") }) {
      guard let address = NetworkAddress(literal: text), address.isFour,
        address.description == text
      else { return nil }
      self = .address(address)
      return
    }
    guard Self.isName(lower) else { return nil }
    self = .name(text)
  }

  /// Whether these are labels of letters, digits and hyphens, of which the last is no number, because
  /// some read an address in such a name.
  static func isName(_ bytes: [UInt8]) -> Bool {
    guard (1...253).contains(bytes.count) else { return false }
    let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let hyphen = UInt8(ascii: "-")
    for label in labels {
      guard (1...63).contains(label.count), label.first != hyphen, label.last != hyphen,
        label.allSatisfy({ $0.isNameByte })
      else { return false }
    }
    guard let last = labels.last else { return false }
    return !last.allSatisfy { $0.isDigit } && !last.starts(with: Array("0x".utf8))
  }
}

extension UInt8 {
  var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }

  /// Whether a name in lower case may have it.
  fileprivate var isNameByte: Bool {
    isDigit || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self) || self == UInt8(ascii: "-")
  }
}
