import PerdureModel

/// A key that was looked for in an environment variable; its value never leaves this type except
/// as the header that carries it.
struct APIKey: Sendable {
  /// The variable.
  let variable: String
  private let value: String

  /// Looks for the key.
  init(variable: String, environment: [String: String]) {
    self.variable = variable
    value = (environment[variable] ?? "").trimmed
  }

  /// Returns the header, `nil` if `url` needs none, or why there is none.
  func header(for url: BaseURL) -> Result<(name: String, value: String)?, ProviderFailure> {
    if value.isEmpty {
      if url.isLoopback { return .success(nil) }
      return .failure(
        ProviderFailure(
          .authentication,
          "no key for \(url.host): the environment variable \(variable) is not set"
        )
      )
    }
    guard value.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      return .failure(
        ProviderFailure(
          .authentication,
          "the key in \(variable) holds a space or a character that no key has"
        )
      )
    }
    return .success((name: "Authorization", value: "Bearer \(value)"))
  }

  /// Returns `failure` for people: without the key, and naming its variable where that helps.
  func describing(_ failure: ProviderFailure) -> ProviderFailure {
    var failure = failure
    if !value.isEmpty { failure.message = failure.message.replacing(value, with: "[key]") }
    if failure.action == .authentication, !failure.message.contains(variable) {
      failure.message += value.isEmpty ? " (\(variable) is not set)" : " (the key of \(variable))"
    }
    return failure
  }
}
