package import PerdureModel

/// A host, or all below one, that commands may reach.
package struct NetworkRule: Sendable, Equatable, CustomStringConvertible {
  private enum Hosts: Equatable {
    case exactly(NetworkTarget.Host)
    /// `.example.com`: every name that ends so.
    case below(String)
  }

  private let hosts: Hosts
  /// Absent: those of the web.
  private let port: UInt16?
  package let description: String

  private static let webPorts: Set<UInt16> = [80, 443]

  /// Reads `example.com`, `*.example.com`, `192.0.2.1` or `[2001:db8::1]`, each with `:port` or without.
  package init(_ text: String) throws(PerdureError) {
    let lower = text.lowercased()
    description = lower
    let isSuffix = lower.hasPrefix("*.")
    guard let (host, rest) = NetworkTarget.split(Array(lower.utf8.dropFirst(isSuffix ? 2 : 0))),
      let read = NetworkTarget.Host(host)
    else { throw Self.refused(text) }
    switch read {
    case .name(let name) where isSuffix: hosts = .below(".\(name)")
    case .address where isSuffix: throw Self.refused(text)
    default: hosts = .exactly(read)
    }
    guard !rest.isEmpty else {
      port = nil
      return
    }
    port = NetworkTarget.port(rest.dropFirst())
    guard port != nil else { throw Self.refused(text) }
  }

  private static func refused(_ text: String) -> PerdureError {
    PerdureError(
      .sandboxPolicy,
      "\(text.quotedForMessage) is no rule for a network",
      hint: "name a host (example.com), all below one (*.example.com) or an address, "
        + "each with :PORT or without"
    )
  }

  /// Whether it is about this host, on whatever port.
  func names(_ host: NetworkTarget.Host) -> Bool {
    switch (hosts, host) {
    case (.exactly(let own), _): own == host
    case (.below(let suffix), .name(let name)): name.hasSuffix(suffix) && name != suffix
    case (.below, .address): false
    }
  }

  /// Whether it lets a request to this target through.
  package func allows(_ target: NetworkTarget) -> Bool {
    names(target.host) && (port.map { $0 == target.port } ?? Self.webPorts.contains(target.port))
  }
}

/// All rules of a gate: one way in which it is decided, for everything that asks.
package struct NetworkRules: Sendable {
  package let rules: [NetworkRule]

  /// Reads rules; throws a sentence that names the first that is none.
  package init(_ texts: [String]) throws(PerdureError) {
    guard !texts.isEmpty, texts.count <= 1_000 else {
      throw PerdureError(
        .sandboxPolicy,
        "a network by names has \(texts.count) rules",
        hint: "name between 1 and 1000 hosts, or turn the network off"
      )
    }
    rules = try texts.map { (text) throws(PerdureError) in try NetworkRule(text) }
  }

  /// The rule that lets a target through.
  package func rule(for target: NetworkTarget) -> NetworkRule? {
    rules.first { $0.allows(target) }
  }

  /// Why none does.
  func refusal(of target: NetworkTarget) -> String {
    guard let near = rules.first(where: { $0.names(target.host) }) else {
      return "no rule allows \(target)"
    }
    return "the rule \(near) does not allow port \(target.port)"
  }

  /// Why an address must not be connected to although the name is allowed; `nil`: it may be.
  package func refusal(of address: NetworkAddress, port: UInt16) -> String? {
    if rule(for: NetworkTarget(host: .address(address), port: port)) != nil { return nil }
    if let kind = address.restriction { return kind }
    return address.isOwn ? "this machine" : nil
  }
}

extension NetworkTarget {
  package init(host: Host, port: UInt16) {
    self.host = host
    self.port = port
  }
}
