import PerdureValue

/// What a plugin was allowed, as its manifest asks for it.
struct Grants: Sendable {
  /// All names, or those that fit one of the patterns.
  enum Patterns: Sendable {
    case all
    case some([String])

    init(_ json: JSON?) {
      self =
        json?.bool == true ? .all : .some((json?.array ?? []).compactMap { $0.text })
    }

    /// Whether a name fits; `*` stands for any rest.
    func fits(_ name: String) -> Bool {
      switch self {
      case .all: true
      case .some(let patterns):
        patterns.contains { pattern in
          pattern.utf8.last == UInt8(ascii: "*")
            ? name.utf8.starts(with: pattern.utf8.dropLast())
            : name.utf8.elementsEqual(pattern.utf8)
        }
      }
    }
  }

  let conversations: ManifestPermissions.Conversations
  let environment: ManifestPermissions.Environment?
  let models: Patterns
  let tools: Patterns
  let secrets: Set<String>
  /// Kinds of documents of other plugins that it may read.
  let documents: Set<String>
  let approvals: Bool
  /// The kinds of documents that it keeps.
  let ownDocuments: [String: ManifestDocument]
  /// The types of tasks that it brings.
  let ownTasks: [String: ManifestTask]

  init(_ manifest: Manifest) {
    let json = manifest.permissions.json
    conversations = manifest.permissions.conversations
    environment = manifest.permissions.environment
    models = Patterns(json["models"])
    tools = Patterns(json["tools"])
    secrets = Set((json["secrets"]?.array ?? []).compactMap { $0.text })
    documents = Set((json["documents"]?.array ?? []).compactMap { $0.text })
    approvals = json["approvals"]?.bool ?? false
    ownDocuments = Dictionary(
      manifest.documents.map { ($0.kind, $0) },
      uniquingKeysWith: { first, _ in first }
    )
    ownTasks = Dictionary(
      manifest.tasks.map { ($0.type, $0) },
      uniquingKeysWith: { first, _ in first }
    )
  }

  /// Whether a kind of document may be read.
  func reads(_ kind: String) -> Bool {
    ownDocuments[kind] != nil || kind.hasPrefix("pi.") || documents.contains(kind)
  }
}
