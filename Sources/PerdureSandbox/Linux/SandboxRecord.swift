/// What the launcher says about one launch.
package enum SandboxRecord: Sendable, Equatable {
  /// Something that the sandbox gives, as `tier landlock` or `limits.pids`.
  case enforced(String)
  /// Something that it could not do, and does without.
  case weakened(String)
  /// A protected path that is missing or a link, and therefore not protected.
  case unprotected(reason: String, path: String)
  /// The command runs.
  case ready
  /// The limit that was reached.
  case limit(String)
  /// Processes of the command outlived it, and were ended.
  case leftover
  /// Processes that could not be ended, because they hang in the kernel.
  case survivors
  case exited(Int32)
  case ended(signal: Int32)
  /// The whole sandbox was ended from outside: `lifeline`, `signal`, `deadline` or `keeper`.
  case killed(String)
  /// Nothing ran.
  case failed(stage: String, code: Int32, detail: String)
  /// What can be done about the failure before it.
  case remedy(String)
  /// A record of another release.
  case unknown(String)

  /// Reads one line without its end.
  package init(line: some StringProtocol) {
    let words = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    let rest = words.count > 1 ? Self.unescaped(words[1]) : ""
    self = Self.known(words.first.map { String($0) } ?? "", rest) ?? .unknown(String(line))
  }

  private static func known(_ word: String, _ rest: String) -> SandboxRecord? {
    let parts = rest.split(separator: " ", maxSplits: 2).map { String($0) }
    return switch word {
    case "enforced": .enforced(rest)
    case "weakened": .weakened(rest)
    case "unprotected":
      rest.firstIndex(of: " ").map { space in
        .unprotected(
          reason: String(rest[..<space]),
          path: String(rest[rest.index(after: space)...])
        )
      }
    case "ready": .ready
    case "limit": .limit(rest)
    case "leftover": .leftover
    case "survivors": .survivors
    case "killed": .killed(rest)
    case "remedy": .remedy(rest)
    case "exit": end(parts)
    case "failed":
      parts.count < 2
        ? nil
        : Int32(parts[1]).map { code in
          .failed(stage: parts[0], code: code, detail: parts.count > 2 ? parts[2] : "")
        }
    default: nil
    }
  }

  private static func end(_ parts: [String]) -> SandboxRecord? {
    guard parts.count == 2, let number = Int32(parts[1]) else { return nil }
    return switch parts[0] {
    case "status" where (0...255).contains(number): .exited(number)
    case "signal" where (1...64).contains(number): .ended(signal: number)
    default: nil
    }
  }

  /// Undoes `%XX`, by which the launcher keeps control characters out of a line.
  private static func unescaped(_ text: some StringProtocol) -> String {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.first {
      rest = rest.dropFirst()
      let digits = rest.prefix(2).compactMap { hexDigit($0) }
      if byte == UInt8(ascii: "%"), digits.count == 2 {
        bytes.append(digits[0] << 4 | digits[1])
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
