import PerdureModel
import PerdureValue

/// Reads the completions of hooks; whatever does not fit the hook's point and rights is junk.
struct HookAnswers: Sendable {
  let hook: ManifestHook
  /// Whether the plugin may ask people.
  let mayAsk: Bool

  private static let ofRequest: Set<String> = ["messages", "deny"]
  private static let ofCall: Set<String> = ["arguments", "deny", "ask"]
  private static let ofResult: Set<String> = ["result", "deny"]
  private static let ofAbort: Set<String> = ["result"]
  private static let ofCompaction: Set<String> = ["decline", "summary", "deny"]
  private static let decisions: Set<String> = [
    "messages", "arguments", "result", "continue", "decline", "summary", "value", "deny", "ask",
  ]

  /// Gives the one member that decides something, if there is one.
  ///
  /// Throws for a second one, for one that the point does not have, and for one that the hook may
  /// not use.
  private func decision(
    _ reader: inout FieldReader,
    _ allowed: Set<String>
  ) throws(BorderProblem) -> String? {
    if reader.members.isEmpty { return nil }
    let present = reader.members.keys.map(\.string).filter { Self.decisions.contains($0) }
    guard let name = present.first else { return nil }
    guard present.count == 1 else {
      throw .shape("members that exclude each other (\(present.joined(separator: ", ")))", at: "")
    }
    guard allowed.contains(name) else {
      throw .shape("a member that \(hook.point) does not have", at: "/\(name)")
    }
    if name == "deny" || name == "ask" {
      guard hook.role == .guard else {
        throw .shape("a decision, although it is no guard", at: "/\(name)")
      }
      if name == "ask", !mayAsk {
        throw .shape("a question without the permission \"approvals\"", at: "/ask")
      }
    } else if !hook.changes {
      throw .shape("a change without \"changes\" in its manifest", at: "/\(name)")
    }
    return name
  }

  private func read<Value>(
    _ object: JSONObject,
    _ allowed: Set<String>,
    _ body: (inout FieldReader, String?) throws(BorderProblem) -> Value
  ) throws(BorderProblem) -> Value {
    var reader = FieldReader(object)
    let name = try decision(&reader, allowed)
    let value = try body(&reader, name)
    try reader.finish()
    return value
  }

  private static func denial(_ reader: inout FieldReader) throws(BorderProblem) -> String {
    let reason = try reader.section("deny") { reader throws(BorderProblem) in
      if let code = try reader.string("code"), !Names.isTool(code) {
        throw .shape("a code that is no name", at: "/deny/code")
      }
      return try reader.required("reason", reader.string("reason"))
    }
    return try reader.required("deny", reason)
  }

  // MARK: Points

  /// Reads the answer of a hook that only watches.
  func nothing(_ object: JSONObject) throws(BorderProblem) {
    try read(object, []) { (_, _) throws(BorderProblem) in }
  }

  func request(
    _ object: JSONObject,
    _ messages: [JSON],
    _ images: ImageTable
  ) throws(BorderProblem) -> RequestDecision {
    try read(object, Self.ofRequest) { (reader, name) throws(BorderProblem) in
      switch name {
      case "messages":
        let changed = try reader.optionalArray("messages") { (value, at) throws(BorderProblem) in
          try Self.kept(value, messages, images, at)
        }
        return .change(messages: (changed ?? []).flatMap(\.self))
      case "deny": return .refuse(try Self.denial(&reader))
      default: return .proceed
      }
    }
  }

  /// Gives the messages that one element stands for.
  private static func kept(
    _ value: JSON,
    _ messages: [JSON],
    _ images: ImageTable,
    _ at: String
  ) throws(BorderProblem) -> [JSON] {
    guard let object = value.object else { throw .shape("a message that is no object", at: at) }
    guard let range = object["keep"] else { return [try images.restored(value, at: at)] }
    guard let bounds = range.array, bounds.count == 2, let from = bounds[0].int,
      let to = bounds[1].int, 0 <= from, from <= to, to <= Int64(messages.count)
    else {
      throw .shape("a range of messages that there is not", at: at + "/keep")
    }
    return Array(messages[Int(from)..<Int(to)])
  }

  func continuation(
    _ object: JSONObject,
    _ images: ImageTable
  ) throws(BorderProblem) -> JSON? {
    try read(object, ["continue"]) { (reader, name) throws(BorderProblem) in
      guard name != nil, let content = reader.any("continue") else { return nil }
      if content.string != nil { return content }
      let items = try reader.optionalArray("continue") { (item, at) throws(BorderProblem) in
        try ToolCompletion.contentItem(try images.restored(item, at: at), at)
      }
      return .array(items ?? [])
    }
  }

  func call(
    _ object: JSONObject,
    _ images: ImageTable
  ) throws(BorderProblem) -> CallDecision {
    try read(object, Self.ofCall) { (reader, name) throws(BorderProblem) in
      switch name {
      case "arguments":
        let arguments = try reader.required("arguments", reader.object("arguments")).members
        return .change(arguments: try images.restored(.object(arguments), at: "/arguments"))
      case "deny": return .deny(try Self.denial(&reader))
      case "ask":
        let question = try reader.section("ask", Self.question)
        return .ask(try reader.required("ask", question))
      default: return .proceed
      }
    }
  }

  private static func question(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ApprovalQuestion {
    let key = try reader.required("key", reader.string("key"))
    guard !key.isEmpty, key.utf8.count <= 64 else {
      throw .shape("a key that does not have 1 to 64 bytes", at: "/ask/key")
    }
    var question = ApprovalQuestion(
      key: key,
      title: try reader.required("title", reader.string("title")),
      body: try reader.string("body")
    )
    guard !question.title.isEmpty else { throw .shape("a question without text", at: "/ask/title") }
    if reader.any("choices") != nil {
      question.choices = try reader.objects("choices") { reader throws(BorderProblem) in
        ApprovalQuestion.Choice(
          id: try reader.required("id", reader.string("id")),
          label: try reader.required("label", reader.string("label")),
          allows: try reader.required("effect", reader.word("effect", as: Effect.self)) == .allow
        )
      }
    }
    if let expires = try reader.integer("expiresMs", in: 1...1 << 53 - 1) {
      question.expires = .milliseconds(expires)
    }
    return question
  }

  private enum Effect: String, CaseIterable { case allow, deny }

  func result(
    _ object: JSONObject,
    _ images: ImageTable
  ) throws(BorderProblem) -> ResultDecision {
    let allowed = hook.point == "onAbort" ? Self.ofAbort : Self.ofResult
    return try read(object, allowed) { (reader, name) throws(BorderProblem) in
      switch name {
      case "result":
        let members = try reader.required("result", reader.object("result")).members
        let restored = try images.restored(.object(members), at: "/result")
        return .change(try ToolCompletion.decode(restored.object ?? [:]))
      case "deny": return .deny(try Self.denial(&reader))
      default: return .proceed
      }
    }
  }

  func compaction(_ object: JSONObject) throws(BorderProblem) -> CompactionDecision {
    try read(object, Self.ofCompaction) { (reader, name) throws(BorderProblem) in
      switch name {
      case "decline": return try reader.bool("decline") == true ? .decline : .proceed
      case "summary":
        return .summary(try reader.required("summary", reader.string("summary")))
      case "deny": return .deny(try Self.denial(&reader))
      default: return .proceed
      }
    }
  }

  func custom(
    _ object: JSONObject,
    _ images: ImageTable
  ) throws(BorderProblem) -> HookAnswer {
    try read(object, ["value", "deny"]) { (reader, name) throws(BorderProblem) in
      switch name {
      case "value":
        let value = try reader.required("value", reader.any("value"))
        return .value(try images.restored(value, at: "/value"))
      case "deny": return .deny(try Self.denial(&reader))
      default: return .proceed
      }
    }
  }
}
