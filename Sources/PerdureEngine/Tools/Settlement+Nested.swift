import PerdureModel
import PerdureValue

/// Results of calls that tools made, and what programs get of them.
extension Settlement {
  /// What a settled call leaves: in its slot, and as the result of its task.
  struct End {
    var member: JSONString
    var shown: JSON
    var result: JSONObject
  }

  /// Writes the result where its caller looks: an entry for the model, a document for a tool.
  func write(
    _ call: RequestedCall,
    of record: TaskRecord,
    slot: JSON?,
    _ tx: Transaction
  ) async throws -> End {
    guard let nested = call.nested else {
      let draft = entry(for: call, slot: slot, at: tx.now)
      let entry = try await tx.append(draft, to: record.conversationId).id.json
      return End(member: "entry", shown: entry, result: ["kind": "model", "entryId": entry])
    }
    let complete = complete(slot: slot)
    let result = NestedToolResult(
      taskId: record.id,
      structuredOutput: complete.structuredOutput,
      isError: complete.isError,
      details: complete.details,
      diagnostics: complete.diagnostics,
      usage: complete.usage,
      durationMs: complete.durationMs
    )
    try await tx.edit(.nestedCall, in: .task(nested.parent), key: nested.key) { document in
      guard TaskID(document.value["taskId"]) == record.id else {
        throw PerdureError(
          .storeCorrupt,
          "task \(nested.parent) does not know its nested call '\(call.id.string)'"
        )
      }
      try document.assign(["result"], result.json)
    }
    let summary = NestedCall.summary(result, output: complete.content)
    return End(member: "summary", shown: summary, result: ["kind": "nested"])
  }

  /// Holds the structured output against what the tool promises; returns what the host is told.
  ///
  /// A caller that is a program gets what was promised or an error. The model never sees it, so its
  /// call stands.
  mutating func check(_ installed: InstalledTool, isNested: Bool) -> String? {
    let breach = breach(installed)
    if breach != nil { structuredOutput = nil }
    guard isNested else { return breach }
    if let breach {
      isError = true
      diagnostics.append(ToolDiagnostic(.error, breach, code: "invalid_structured_output"))
    }
    if installed.structuredOutput == nil {
      structuredOutput = NestedCall.value(of: content)
    } else if isError, structuredOutput == nil,
      !diagnostics.contains(where: { $0.severity == .error })
    {
      // Programs never get the output, which alone says what went wrong.
      let text = NestedCall.text(of: content)
      if !text.isEmpty { diagnostics.append(ToolDiagnostic(.error, text, code: "tool_error")) }
    }
    return nil
  }

  private func breach(_ installed: InstalledTool) -> String? {
    let name = installed.tool.name
    guard let schema = installed.structuredOutput else {
      return structuredOutput == nil
        ? nil : "the tool '\(name)' gave structured output, but has no schema for it"
    }
    guard let structuredOutput else {
      return isError ? nil : "the tool '\(name)' gave no structured output"
    }
    let violations = schema.validate(structuredOutput)
    if violations.isEmpty { return nil }
    let list = violations.map { "\($0)" }.joined(separator: "; ")
    return "the structured output of the tool '\(name)' does not fit its schema: \(list)"
  }
}
