internal import PerdureModel

/// A copy of a plugin that was closed, and stays mapped until the process ends.
package struct RetiredCopy: Sendable, Equatable {
  package var id: String
  package var version: String
  /// SHA-256 of the file, in hexadecimal.
  package var digest: String
  /// Where the copy was; the file is gone.
  var path: String
}

/// What the closed plugins of this process still take.
package struct RetiredMemory: Sendable, Equatable {
  /// How many copies.
  package var copies = 0
  /// Bytes of the address space.
  package var mapped = 0
  /// Bytes that are in memory now, with pages that are only cached from files.
  package var resident = 0
  /// Bytes that nothing else could take.
  package var anonymous = 0

  /// Above so many copies a restart is suggested.
  package static let suggestedLimit = 64
}

/// The closed plugins of this process.
package enum RetiredCopies {
  /// All of them, in the order in which they were closed.
  package static var all: [RetiredCopy] { Immortals.retiredCopies }

  /// What they take, as the system counts it.
  package static var memory: RetiredMemory {
    let copies = Immortals.retiredCopies
    var memory = RetiredMemory(copies: copies.count)
    guard !copies.isEmpty else { return memory }
    let paths = Set(copies.map(\.path))
    let text = String(decoding: InstallationAccess.systemFile("/proc/self/smaps"), as: UTF8.self)
    var isOurs = false
    for line in text.split(separator: "\n") {
      if let path = mappedPath(line) {
        isOurs = paths.contains(path)
      } else if isOurs, let (name, bytes) = number(line) {
        switch name {
        case "Size": memory.mapped += bytes
        case "Rss": memory.resident += bytes
        case "Anonymous": memory.anonymous += bytes
        default: break
        }
      }
    }
    return memory
  }

  /// The path in the first line of a mapping, "" without one; `nil` for another line.
  private static func mappedPath(_ line: Substring) -> String? {
    let words = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
    guard let range = words.first, range.contains("-"), !range.hasSuffix(":") else { return nil }
    guard words.count == 6 else { return "" }
    let path = words[5].trimmingSpaces
    let deleted = " (deleted)"
    return String(path.hasSuffix(deleted) ? path.dropLast(deleted.count) : path)
  }

  private static func number(_ line: Substring) -> (Substring, Int)? {
    let words = line.split(separator: " ", omittingEmptySubsequences: true)
    guard words.count == 3, words[2] == "kB", words[0].hasSuffix(":"), let count = Int(words[1])
    else { return nil }
    return (words[0].dropLast(), count << 10)
  }
}

extension PluginFiles {
  /// Throws if the process holds so many closed plugins that another one may not fit.
  static func checkRoom(_ path: String, _ environment: PluginEnvironment) throws(PerdureError) {
    guard Immortals.retired < environment.retiredLimit else {
      throw refused(
        path,
        "cannot be loaded, because \(Immortals.retired) closed plugins are still mapped",
        "restart the host"
      )
    }
    guard let limit = environment.mappingLimit ?? systemMappingLimit else { return }
    let count = InstallationAccess.systemFile("/proc/self/maps").count { $0 == UInt8(ascii: "\n") }
    guard count < limit / 2 else {
      throw refused(
        path,
        "cannot be loaded, because the process has \(count) mappings and the system allows \(limit)",
        "restart the host, or raise vm.max_map_count"
      )
    }
  }

  private static var systemMappingLimit: Int? {
    let text = InstallationAccess.systemFile("/proc/sys/vm/max_map_count")
    return Int(String(decoding: text, as: UTF8.self).prefix { $0.isNumber })
  }
}
