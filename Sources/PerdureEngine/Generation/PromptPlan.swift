package import PerdureModel
package import PerdureValue

/// Plans the system entries that make a context offer the wanted tools, in the wanted order.
///
/// This version contributes no prompt sections; sections that a transcript shows stay as they are.
package enum PromptPlan {
  /// Returns the entries to append before a request; none if the model already sees `tools`.
  ///
  /// `tools` are declarations with distinct names. After a head marker one entry restates
  /// everything and omits the older system entries that were retained, so that the request begins
  /// with one complete prompt.
  package static func entries(
    for context: ContextCache,
    tools: [JSON],
    timestamp: Int64
  ) -> [EntryDraft] {
    let wanted = tools.map(declaration(of:))
    guard context.hasBaseline else {
      return [baseline(for: context, tools: wanted, timestamp: timestamp)]
    }
    let (removed, added) = changes(from: context.prompt.tools.map(declaration(of:)), to: wanted)
    guard !removed.isEmpty || !added.isEmpty else { return [] }
    return [entry(sections: nil, removed: removed, added: added, timestamp: timestamp)]
  }

  private static func baseline(
    for context: ContextCache,
    tools: [JSON],
    timestamp: Int64
  ) -> EntryDraft {
    var draft = entry(
      sections: context.prompt.sections,
      removed: [],
      added: tools,
      timestamp: timestamp
    )
    let older = context.entries.filter { $0.kind == "pi.system" }
    if !older.isEmpty { draft.edits = older.map { .omit($0.id) } }
    return draft
  }

  /// The smallest change that gives the wanted order, or a full exchange where none does.
  private static func changes(
    from offered: [JSON],
    to wanted: [JSON]
  ) -> (removed: [JSON], added: [JSON]) {
    func names(_ tools: [JSON]) -> [JSON] { tools.compactMap { $0["name"] } }
    let offeredTexts = offered.map(\.encoded)
    let wantedTexts = wanted.map(\.encoded)
    // So it is before nearly every request.
    if offeredTexts == wantedTexts { return ([], []) }
    let known = Set(offeredTexts)
    let kept = Set(wantedTexts).intersection(known)
    let remaining = zip(offered, offeredTexts).filter { kept.contains($0.1) }.map { $0.0 }
    let added = zip(wanted, wantedTexts).filter { !known.contains($0.1) }.map { $0.0 }
    guard names(remaining + added) == names(wanted) else { return (names(offered), wanted) }
    return (names(zip(offered, offeredTexts).filter { !kept.contains($0.1) }.map { $0.0 }), added)
  }

  /// What the model is told of a tool, and nothing else.
  private static func declaration(of tool: JSON) -> JSON {
    var declaration: JSONObject = [
      "name": tool["name"] ?? "", "description": tool["description"] ?? "",
      "parameters": tool["parameters"] ?? .null,
    ]
    declaration["constrainedSampling"] = tool["constrainedSampling"]
    return .object(declaration)
  }

  private static func entry(
    sections: JSONObject?,
    removed: [JSON],
    added: [JSON],
    timestamp: Int64
  ) -> EntryDraft {
    var message: JSONObject = ["role": "system", "content": ""]
    if let sections { message["sections"] = .object(sections) }
    if !removed.isEmpty { message["toolsRemoved"] = .array(removed.map { ["name": $0] }) }
    if !added.isEmpty { message["toolsAdded"] = .array(added) }
    message["timestamp"] = .int(timestamp)
    return EntryDraft(kind: "pi.system", model: [.object(message)])
  }
}
