import PerdureModel
import PerdureValue
import Synchronization

/// Reads what a commit is asked to write: its shape, its names and its limits.
///
/// Whose records it touches is judged afterwards, with `CommitAccess`.
struct CommitReader {
  static let stepLimit = 256
  static let operationLimit = 4_096
  static let sizeLimit = 4 << 20

  private enum Made { case conversation, entry, task }

  let core: PluginCore
  let kind: PluginCall.Kind
  /// Puts images in the place of their sources.
  let restored: (JSON, String) throws(BorderProblem) -> JSON
  private var made: [String: Made] = [:]

  init(
    core: PluginCore,
    kind: PluginCall.Kind,
    restored: @escaping (JSON, String) throws(BorderProblem) -> JSON
  ) {
    self.core = core
    self.kind = kind
    self.restored = restored
  }

  /// Reads steps and state.
  mutating func read(_ object: JSONObject) throws -> CommitRequest {
    guard JSON.object(object).encoded.count <= Self.sizeLimit else {
      throw CallRefusal(.limit, "a commit is larger than 4 MiB")
    }
    var reader = FieldReader(object)
    let steps = try steps(&reader)
    let state = try reader.section("state") { reader throws(BorderProblem) in
      try self.state(&reader)
    }
    if state != nil, kind != .taskPhase, kind != .abort {
      throw OperationProblem(
        .invalid,
        "the state of a task can only be given by its own code",
        reason: "not_here",
        at: "/state"
      )
    }
    return CommitRequest(steps: steps, state: state)
  }

  private mutating func steps(_ reader: inout FieldReader) throws -> [CommitStep] {
    guard let values = reader.any("steps") else { return [] }
    guard let values = values.array else {
      throw OperationProblem(.shape("a value that is not an array", at: "/steps"), of: "commit")
    }
    guard values.count <= Self.stepLimit else {
      throw CallRefusal(.limit, "a commit has more than \(Self.stepLimit) steps")
    }
    var steps: [CommitStep] = []
    for (index, value) in values.enumerated() {
      let pointer = "/steps/\(index)"
      do {
        guard let object = value.object else {
          throw BorderProblem.shape("a step that is no object", at: pointer)
        }
        var reader = FieldReader(object, at: pointer)
        steps.append(try step(&reader))
      } catch let refusal as CallRefusal {
        throw CallRefusal(refusal.reason, refusal.message, step: index)
      }
    }
    return steps
  }

  private enum Verb: String, CaseIterable {
    case createConversation = "conversation.create"
    case fork = "conversation.fork"
    case configure = "conversation.configure"
    case append = "entry.append"
    case createTask = "task.create"
    case document = "doc"
    case retire = "doc.retire"
  }

  private mutating func step(_ reader: inout FieldReader) throws -> CommitStep {
    let verb = try reader.required("do", reader.word("do", as: Verb.self))
    let name = try reader.any("as") == nil ? nil : reader.name("as", "a step name", Names.isTool)
    if let name, made[name] != nil {
      throw BorderProblem.shape("a name that an earlier step has", at: reader.path("as"))
    }
    let fills = try fills(&reader)
    let action = try action(verb, &reader)
    try reader.finish()
    if let name {
      made[name] =
        switch verb {
        case .createConversation, .fork: .conversation
        case .append: .entry
        case .createTask: .task
        case .configure, .document, .retire: nil
        }
    }
    return CommitStep(name: name, action: action, fills: fills)
  }

  private func action(_ verb: Verb, _ reader: inout FieldReader) throws -> CommitStep.Action {
    switch verb {
    case .createConversation:
      return .createConversation(owner: try owner(&reader), change: try change("agent", &reader))
    case .fork:
      let from = try reader.required("from", reference("from", .conversation, &reader))
      let at = try reader.integer("at", in: 1...Int64(1 << 53 - 1))
      guard let entry = EntryID(Int64(try reader.required("at", at))) else {
        throw BorderProblem.shape("a value that is not the id of a record", at: reader.path("at"))
      }
      return .fork(
        from: from,
        at: entry,
        owner: try owner(&reader),
        change: try change("agent", &reader)
      )
    case .configure:
      let id = try reader.required(
        "conversation",
        reference("conversation", .conversation, &reader)
      )
      guard let change = try reader.object("change")?.members else {
        throw BorderProblem.shape("a missing member", at: reader.path("change"))
      }
      return .configure(id, change)
    case .append:
      let id = try reader.required(
        "conversation",
        reference("conversation", .conversation, &reader)
      )
      return .append(id, try entry(&reader))
    case .createTask: return .createTask(try newTask(&reader))
    case .document:
      let declaration = try declaration(&reader)
      return .document(
        declaration,
        try place(declaration, &reader),
        key: try key(declaration, &reader),
        seed: try reader.object("seed").map { .object($0.members) },
        try documentChange(&reader)
      )
    case .retire:
      let declaration = try declaration(&reader)
      return .retire(
        declaration,
        try place(declaration, &reader),
        key: try key(declaration, &reader)
      )
    }
  }

  // MARK: Members

  private func reference(
    _ name: String,
    _ kind: Made,
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> StepReference? {
    guard let value = reader.any(name) else { return nil }
    return try reference(value, kind, at: reader.path(name))
  }

  private func reference(
    _ value: JSON,
    _ kind: Made,
    at pointer: String
  ) throws(BorderProblem) -> StepReference {
    if case .int(let id) = value, (1...(1 << 53 - 1)).contains(id) { return .id(id) }
    guard let name = value.string?.unicode else {
      throw .shape("a value that is neither an id nor the name of a step", at: pointer)
    }
    guard made[name] == kind else {
      throw .shape("a name that no earlier step of the right kind has", at: pointer)
    }
    return .step(name)
  }

  private func owner(_ reader: inout FieldReader) throws(BorderProblem) -> CommitStep.Owner {
    let value = try reader.required("owner", reader.any("owner"))
    if value.isNull { return .nobody }
    if value.text == "self" { return .call }
    return .task(try reference(value, .task, at: reader.path("owner")))
  }

  private func change(
    _ name: String,
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> JSONObject { try reader.object(name)?.members ?? [:] }

  private func entry(_ reader: inout FieldReader) throws -> JSON {
    let pointer = reader.path("entry")
    guard let object = try reader.object("entry") else {
      throw BorderProblem.shape("a missing member", at: pointer)
    }
    var draft = object.members
    guard let kind = draft["kind"]?.text, Names.isKind(kind) else {
      if let kind = draft["kind"]?.text, Names.isReserved(kind) {
        throw CallRefusal(.permission, "entries of the kind \(kind) are written by the host alone")
      }
      throw BorderProblem.shape("a kind that is none", at: pointer + "/kind")
    }
    if let model = draft["model"] { draft["model"] = try restored(model, pointer + "/model") }
    do {
      _ = try EntryDraft(json: .object(draft))
    } catch {
      throw BorderProblem.shape(
        "an entry that is none: \((error as? PerdureError)?.message ?? "\(error)")",
        at: pointer
      )
    }
    return .object(draft)
  }

  private func newTask(_ reader: inout FieldReader) throws -> CommitStep.NewTask {
    let type = try reader.required("type", reader.string("type"))
    let isQuestion = JSONString(type) == Approval.kind
    guard Names.isKind(type) || isQuestion else {
      throw Names.isReserved(type)
        ? CallRefusal(.permission, "tasks of the type \(type) are created by the host alone")
        : BorderProblem.shape("a type that is none", at: reader.path("type")) as any Error
    }
    guard !isQuestion || core.grants.approvals else {
      throw CallRefusal(.permission, "asking people needs the permission approvals")
    }
    let value = try reader.required("owner", reader.any("owner"))
    let owner: CommitStep.Owner =
      switch value.text {
      case "self": .call
      case "conversation": .conversation
      default: .task(try reference(value, .task, at: reader.path("owner")))
      }
    let checkpoint = try reader.object("checkpoint")
    if checkpoint != nil, core.grants.ownTasks[type] == nil {
      throw CallRefusal(.permission, "where a task of the type \(type) begins is up to its plugin")
    }
    let input = try reader.required("input", reader.any("input"))
    if isQuestion { try Self.checkQuestion(input, at: reader.path("input")) }
    return CommitStep.NewTask(
      type: JSONString(type),
      input: input,
      conversation: try reference("conversation", .conversation, &reader),
      owner: owner,
      background: try reader.bool("background") ?? false,
      abandonOnRestart: try reader.bool("abandonOnRestart"),
      checkpoint: checkpoint.map { .object($0.members) }
    )
  }

  private enum Effect: String, CaseIterable { case allow, deny }

  private static func checkQuestion(_ input: JSON, at pointer: String) throws(BorderProblem) {
    guard let object = input.object else { throw .shape("a value that is no object", at: pointer) }
    var reader = FieldReader(object, at: pointer)
    _ = try reader.required("title", reader.string("title"))
    _ = try reader.string("body")
    _ = try reader.objects("choices") { reader throws(BorderProblem) in
      _ = try reader.required("id", reader.string("id"))
      _ = try reader.required("label", reader.string("label"))
      _ = try reader.required("effect", reader.word("effect", as: Effect.self))
    }
    _ = try reader.object("subject")
    _ = try reader.count("expiresMs")
  }

  // MARK: Documents

  private func declaration(_ reader: inout FieldReader) throws -> DocumentDeclaration {
    let kind = try reader.required("kind", reader.string("kind"))
    guard let declaration = core.declarations.withLock({ $0[kind] }) else {
      throw CallRefusal(.permission, "documents of the kind \(kind) are not those of \(core.id)")
    }
    return declaration
  }

  private func place(
    _ declaration: DocumentDeclaration,
    _ reader: inout FieldReader
  ) throws -> CommitStep.Place {
    guard let of = reader.any("of") else {
      switch declaration.place {
      case .session: return .session
      case .conversation: return .ownConversation
      case .task: return .ownTask
      }
    }
    let pointer = reader.path("of")
    let place: CommitStep.Place
    if of.text == "session" {
      place = .session
    } else if let id = of["conversation"] {
      place = .conversation(try reference(id, .conversation, at: pointer + "/conversation"))
    } else if let id = of["task"] {
      place = .task(try reference(id, .task, at: pointer + "/task"))
    } else {
      throw BorderProblem.shape(
        "a value that is not \"session\" or an object with a conversation or a task",
        at: pointer
      )
    }
    switch (place, declaration.place) {
    case (.session, .session), (.conversation, .conversation), (.task, .task): return place
    default:
      throw BorderProblem.shape(
        "a place to which documents of this kind do not belong",
        at: pointer
      )
    }
  }

  private func key(
    _ declaration: DocumentDeclaration,
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> JSONString? {
    let key = try reader.string("key")
    guard (key != nil) == declaration.isKeyed else {
      throw .shape(
        declaration.isKeyed ? "a missing key" : "a key where there are none",
        at: reader.path("key")
      )
    }
    guard (key?.utf8.count ?? 0) <= 512 else {
      throw .shape("a key of more than 512 bytes", at: reader.path("key"))
    }
    return key.map { JSONString($0) }
  }

  private func documentChange(_ reader: inout FieldReader) throws -> CommitStep.Change {
    let value = reader.any("value")
    let operations = reader.any("ops")
    switch (value, operations) {
    case (nil, nil): return .nothing
    case (let value?, nil):
      guard value.object != nil else {
        throw BorderProblem.shape("a value that is not an object", at: reader.path("value"))
      }
      return .value(value)
    case (nil, let operations?):
      guard (operations.array?.count ?? 0) <= Self.operationLimit else {
        throw CallRefusal(.limit, "a document is given more than \(Self.operationLimit) operations")
      }
      do {
        return .operations(try Operation.batch(json: operations))
      } catch {
        throw BorderProblem.shape("operations that are none: \(error)", at: reader.path("ops"))
      }
    default: throw BorderProblem.shape("both value and ops", at: reader.pointer)
    }
  }

  // MARK: Ids inside free JSON

  private func fills(_ reader: inout FieldReader) throws(BorderProblem) -> [StepFill] {
    guard let object = try reader.object("fill") else { return [] }
    var fills: [StepFill] = []
    for (key, value) in object.members {
      let pointer = object.path(key.string)
      guard let name = value.string?.unicode, made[name] != nil else {
        throw .shape("a name that no earlier step has", at: pointer)
      }
      guard let path = Self.path(key.string) else {
        throw .shape("a name that is no JSON Pointer", at: pointer)
      }
      fills.append(StepFill(path: path, step: name))
    }
    return fills
  }

  private static func path(_ pointer: String) -> [PathSegment]? {
    guard pointer.hasPrefix("/") else { return nil }
    return pointer.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { part in
      if let index = Int(part), index >= 0, String(index) == part { return .index(index) }
      let key = part.split(separator: "~1", omittingEmptySubsequences: false).joined(separator: "/")
        .split(separator: "~0", omittingEmptySubsequences: false).joined(separator: "~")
      return .key(JSONString(key))
    }
  }

  // MARK: The state

  private enum Status: String, CaseIterable { case running, waiting, sleeping, terminal }

  private func state(_ reader: inout FieldReader) throws(BorderProblem) -> CommitState {
    let status = try reader.required("status", reader.word("status", as: Status.self))
    guard kind != .abort || status == .terminal else {
      throw .shape("a state that does not end the task", at: reader.path("status"))
    }
    let fills = try fills(&reader)
    if status == .terminal {
      return CommitState(try outcome(&reader), checkpoint: .null, fills: fills)
    }
    let checkpoint = try reader.required("checkpoint", reader.object("checkpoint"))
    guard checkpoint.members["phase"]?.string != nil else {
      throw .shape("a checkpoint without its phase", at: checkpoint.path("phase"))
    }
    let kind: CommitState.Kind
    switch status {
    case .running, .terminal: kind = .running
    case .sleeping:
      kind = .sleeping(until: Int64(try reader.required("until", reader.count("until"))))
    case .waiting:
      let on = try reader.optionalArray("on") { (value, at) throws(BorderProblem) in
        try self.reference(value, .task, at: at)
      }
      kind = .waiting(
        on: try reader.required("on", on),
        try reader.required("policy", reader.word("policy", as: JoinPolicy.self))
      )
    }
    return CommitState(kind, checkpoint: .object(checkpoint.members), fills: fills)
  }

  private enum End: String, CaseIterable { case completed, failed, aborted }

  private func outcome(_ reader: inout FieldReader) throws(BorderProblem) -> CommitState.Kind {
    var outcome = try reader.required("outcome", reader.object("outcome"))
    let end = try outcome.required("status", outcome.word("status", as: End.self))
    if end == .failed {
      var error = try outcome.required("error", outcome.object("error"))
      _ = try error.required("message", error.string("message"))
    }
    if end == .aborted { _ = try outcome.string("reason") }
    return .terminal(.object(outcome.members))
  }
}
