import PerdureModel
import PerdureValue
import Synchronization

/// Documents as plugins see them.
extension OperationRun {
  /// Where the document is that an input names; throws unless the plugin may read it.
  func address(_ input: Arguments) async throws -> DocumentAddress {
    let kind = input.text("kind")
    guard core.grants.reads(kind) else {
      throw denied(
        "documents of the kind \(kind)",
        "ask for the permission documents: [\"\(kind)\"]"
      )
    }
    let own = core.grants.ownDocuments[kind]
    let scope = try place(input, own)
    switch scope {
    case .session: break
    case .conversation(let id): try await requireAccess(id)
    case .task(let id): try await requireAccess(to: id)
    }
    let key = input.string("key")
    if let own, own.keyed != (key != nil) {
      throw OperationProblem(
        .invalid,
        own.keyed ? "documents of the kind \(kind) have keys" : "\(kind) has no keys",
        reason: "shape",
        at: "/key"
      )
    }
    return DocumentAddress(kind: JSONString(kind), scope: scope, key: key)
  }

  private func place(_ input: Arguments, _ own: ManifestDocument?) throws -> DocumentScope {
    let engine = try engine()
    if let of = input["of"] {
      if of.text == "session" { return .session }
      if let id = ConversationID(of["conversation"]) { return .conversation(id) }
      if let id = TaskID(of["task"]) { return .task(id) }
    }
    switch own?.scope ?? .conversation {
    case .session: return .session
    case .conversation:
      if let id = engine.conversationId { return .conversation(id) }
    case .task:
      if let id = engine.taskId { return .task(id) }
    }
    throw OperationProblem(
      .invalid,
      "the call has nothing to which the document could belong",
      reason: "shape",
      at: "/of"
    )
  }

  func document(_ input: Arguments, _ tracking: (any ReadTracking)?) async throws -> JSONObject {
    let address = try await address(input)
    let stored = try await engine().document(address, asOf: input.id("asOf"), tracking)
    guard let stored else { return [:] }
    let value: JSON
    var version = stored.version
    if let own = core.grants.ownDocuments[address.kind.string] {
      value = try await current(stored, own)
      version = Int64(own.version)
    } else {
      value = shown(stored.value)
    }
    return ["value": value, "version": .int(version), "document": stored.record.id.json]
  }

  /// A value as the declared version has it; nothing is written.
  private func current(_ stored: StoredDocument, _ own: ManifestDocument) async throws -> JSON {
    if stored.version == Int64(own.version) { return stored.value }
    guard own.migrates.contains(Int(stored.version)),
      let migrate = core.declarations.withLock({ $0[own.kind]?.migrate })
    else {
      throw CallRefusal(
        .migrationFailed,
        "document \(stored.record.id) has version \(stored.version), from which nothing leads to"
          + " version \(own.version)"
      )
    }
    do {
      return try await migrate(stored.record.address.key, stored.version, stored.value)
    } catch {
      throw CallRefusal(
        .migrationFailed,
        "document \(stored.record.id) cannot be migrated: \(error)"
      )
    }
  }

  func watch(_ input: Arguments) async throws -> JSONObject {
    let address = try await address(input)
    guard let call, let watch = try await engine().watch(address) else {
      throw CallRefusal(.notFound, "there is no document \(address.kind.string) to watch")
    }
    guard let handle = call.streams.open(WatchStream(watch)) else {
      watch.cancel()
      throw CallRefusal(.limit, "the call has too many streams")
    }
    return ["stream": .string(JSONString(handle))]
  }
}

/// A document on its way to a plugin: the engine joins what the plugin does not take.
private final class WatchStream: PluginStream {
  private let watch: any DocumentWatching
  private let isBegun = Mutex(false)
  let pauses = false

  init(_ watch: any DocumentWatching) { self.watch = watch }

  func next(maxItems: Int, maxBytes: Int) async -> StreamBatch {
    let isFirst = isBegun.withLock { isBegun in
      defer { isBegun = true }
      return !isBegun
    }
    if isFirst { return StreamBatch(items: [["value": watch.first]]) }
    switch await watch.next() {
    case .changed(let value, let operations):
      return StreamBatch(items: [["value": value, "ops": .array(operations.map { $0.json })]])
    case .ended(let reason):
      return StreamBatch(items: [], end: ["reason": .string(JSONString(reason))])
    }
  }

  func close() { watch.cancel() }
}
