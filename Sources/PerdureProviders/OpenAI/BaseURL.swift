package import PerdureModel

/// The address of an OpenAI-compatible server, up to the path in front of `/chat/completions`.
package struct BaseURL: Sendable, Equatable {
  /// Scheme, host, port and path, without a slash at the end.
  let address: String
  /// What follows the path, with its question mark, or nothing.
  let query: String
  /// The host in lower case, without brackets.
  package let host: String

  /// Reads an address; throws `invalidConfiguration`.
  package init(_ text: String) throws(PerdureError) {
    let text = text.trimmed
    guard let separator = text.firstRange(of: "://"),
      ["http", "https"].contains(text[..<separator.lowerBound].lowercased())
    else { throw Self.error(text, "does not begin with http:// or https://") }
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      throw Self.error(text, "holds a character that must be percent-encoded")
    }
    guard !text.contains("#") else { throw Self.error(text, "has a fragment") }
    let rest = text[separator.upperBound...]
    let authority = rest.prefix { $0 != "/" && $0 != "?" }
    guard !authority.contains("@") else {
      throw PerdureError(
        .invalidConfiguration,
        "the base URL holds a user name or a password",
        hint: "put the key into an environment variable and name it with --api-key-env"
      )
    }
    host = Self.host(of: authority)
    guard !host.isEmpty else { throw Self.error(text, "names no host") }
    var address = text.prefix { $0 != "?" }
    query = String(text[address.endIndex...])
    while address.last == "/" { address = address.dropLast() }
    self.address = String(address)
  }

  /// The address that takes requests.
  package var chatCompletions: String { "\(address)/chat/completions\(query)" }

  /// Whether the server is on this machine, where keys are rarely needed.
  package var isLoopback: Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    if parts.count == 4, parts.allSatisfy({ UInt8($0) != nil }) { return parts[0] == "127" }
    return host == "localhost" || host == "::1" || host.hasSuffix(".localhost")
  }

  private static func host(of authority: Substring) -> String {
    if authority.hasPrefix("[") {
      return authority.dropFirst().prefix { $0 != "]" }.lowercased()
    }
    return authority.prefix { $0 != ":" }.lowercased()
  }

  private static func error(_ text: String, _ problem: String) -> PerdureError {
    PerdureError(
      .invalidConfiguration,
      "the base URL '\(text)' \(problem)",
      hint: "give the address up to and including /v1, such as https://api.openai.com/v1"
    )
  }
}
